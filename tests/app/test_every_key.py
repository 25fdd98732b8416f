"""Every key of every screen, typed into a terminal as that terminal sends it: nothing breaks, and help lists it.

The app runs on a pseudo-terminal with a feed that needs no server. It tells through a pipe which keys mean something on
the screen that it shows, and, after each key that came, where it is now.
"""

import errno
import importlib
import json
import os
import pkgutil
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from fcntl import ioctl
from pathlib import Path

import pytest
from textual.keys import key_to_character
from textual.screen import Screen

import tui.app

HERE = Path(__file__).parent
LIMIT_S = 120.0

# Where to press keys: the state, the keys that lead there, and what has the focus.
STAGES = {
    "the log": ("serving", [], "log-pane"),
    "the bars": ("serving", [], "gpus"),
    "the knobs": ("serving", [], "knobs"),
    "a crash": ("crashed", [], "log-pane"),
    "nothing": ("empty", [], "log-pane"),
    "help": ("serving", ["question_mark"], ""),
    "narrowing": ("serving", ["question_mark", "slash"], ""),
    "prompt": ("serving", ["slash"], ""),
    "verdict": ("crashed", ["v"], ""),
    "stop": ("serving", ["S"], ""),
    "restart": ("crashed", ["R"], ""),
    "launch": ("empty", ["L"], ""),
    "servers": ("empty", ["D"], ""),
    "adopting": ("empty", ["D", "A"], ""),
    "editor": ("serving", ["tab", "tab", "enter"], ""),
    "flags": ("serving", ["F"], ""),
    "saving": ("serving", ["ctrl+w"], ""),
    "runs": ("serving", ["H"], ""),
    "note": ("serving", ["H", "o"], ""),
    "deleting": ("serving", ["H", "down", "down", "D"], ""),
    "compare": ("serving", ["H", "space", "down", "space", "c"], ""),
    "replay": ("serving", ["H", "r"], ""),
    "seek": ("serving", ["H", "r", "t"], ""),
    "sweep": ("serving", ["W"], ""),
    "palette": ("serving", ["ctrl+p"], ""),
}
# Screens that others are made of.
BASES = {"Dialog", "HistoryScreen", "LaunchingDialog"}
# Not pressed among the others: it ends the app, or stops its process.
LAST = {"app.leave", "app.suspend_process"}
# Once is enough for what every text field, or every screen, does alike.
COMMON = {"Input", "CommandInput", "Watched", "Button"}
ALIKE = {"app.focus_next", "app.focus_previous", "screen.copy_text"}


class Typist:
    """A terminal, and somebody who types."""

    def __init__(self, term: str, home: Path) -> None:
        self.codes = key_codes(term)
        self.master, slave = pty.openpty()
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command, self._commands = os.pipe()
        self._reports, report = os.pipe()
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "TMUX")}
        folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
        self.child = subprocess.Popen(
            [sys.executable, str(HERE / "watched.py"), str(command), str(report)],
            stdin=slave, stdout=slave, stderr=slave, pass_fds=(command, report), start_new_session=True,
            env={**kept, **folders, "TERM": term, "HOME": str(home)},
        )  # fmt: skip
        for fd in (slave, command, report):
            os.close(fd)
        self._rest = b""
        self.output = b""
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        """A terminal that nobody reads stands still."""
        try:
            while chunk := os.read(self.master, 65536):
                self.output = (self.output + chunk)[-200_000:]
        except OSError as error:
            if error.errno != errno.EIO:  # what a terminal says when its program has ended
                raise

    def heard(self, what: str, when: str = "") -> dict:
        """The next report that has `what`."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                if what in (report := json.loads(line)):
                    return report
            if select.select([self._reports], [], [], 0.5)[0]:
                chunk = os.read(self._reports, 65536)
                if not chunk:
                    break
                self._rest += chunk
        raise AssertionError(
            f"The app said nothing more of {what}{when}:\n{self.output[-3000:].decode(errors='replace')}"
        )

    def go(self, stage: str, now: dict | None = None, there: dict | None = None) -> dict:
        """To a stage; from `now`, when the key that opened its screen is all that is missing to be `there`."""
        state, press, focus = STAGES[stage]
        if now is not None and there is not None and press and now["stack"] == there["stack"][:-1]:
            found = self._command("", press[-1:], "")
            if (found["stack"], found["focus"]) == (there["stack"], there["focus"]):
                return found
        return self._command(state, press, focus)

    def _command(self, state: str, press: list[str], focus: str) -> dict:
        os.write(self._commands, (json.dumps({"state": state, "press": press, "focus": focus}) + "\n").encode())
        return self.heard("bound")

    def type(self, key: str) -> dict:
        os.write(self.master, self.codes[key])
        report = self.heard("key", f" after {key} was typed")
        assert report["key"] == key or {report["key"], key} <= {"ctrl+i", "tab"}, f"{key} arrived as {report['key']}"
        return report

    def end(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self._reader.join(10)
        for fd in (self.master, self._commands, self._reports):
            os.close(fd)


class Codes(dict):
    """What a terminal sends for a key; None for what it cannot send."""

    def __missing__(self, key: str) -> bytes | None:
        name = key.removeprefix("ctrl+")
        if key.startswith("ctrl+") and len(name) == 1 and name.isalpha():
            return bytes([ord(name) & 0x1F])
        character = key_to_character(key)
        return character.encode() if character is not None and "+" not in key else None


def key_codes(term: str) -> Codes:
    """From the terminal's own description where this machine has it, else as xterm sends them."""
    xterm = {
        "up": b"\x1b[A", "down": b"\x1b[B", "right": b"\x1b[C", "left": b"\x1b[D", "home": b"\x1b[H", "end": b"\x1b[F",
        "pageup": b"\x1b[5~", "pagedown": b"\x1b[6~", "delete": b"\x1b[3~", "f1": b"\x1bOP", "backspace": b"\x7f",
        "shift+tab": b"\x1b[Z",
    }  # fmt: skip
    names = {
        "up": "kcuu1", "down": "kcud1", "right": "kcuf1", "left": "kcub1", "home": "khome", "end": "kend",
        "pageup": "kpp", "pagedown": "knp", "delete": "kdch1", "f1": "kf1", "backspace": "kbs", "shift+tab": "kcbt",
    }  # fmt: skip
    ask = (
        "import curses, sys; curses.setupterm(sys.argv[1], 1);"
        "print(*[(curses.tigetstr(name) or b'').hex() or '-' for name in sys.argv[2:]])"
    )
    asked = subprocess.run([sys.executable, "-c", ask, term, *names.values()], capture_output=True, text=True)
    told = asked.stdout.split() if asked.returncode == 0 else []
    own = {key: bytes.fromhex(code) for key, code in zip(names, told, strict=False) if code != "-"}
    others = {"enter": b"\r", "tab": b"\t", "escape": b"\x1b", "space": b" "}
    return Codes({**xterm, **own, **others})


@pytest.mark.parametrize("term", ["tmux-256color", "screen", "xterm"])
def test_every_key_of_every_screen_may_be_pressed_and_is_listed(term: str, tmp_path: Path) -> None:
    typist = Typist(term, tmp_path)
    unlisted, reached, pressed, done = set(), set(), 0, set()
    try:
        typist.heard("ready")
        for stage in STAGES:
            there = typist.go(stage)
            reached.add(there["stack"][-1])
            unlisted |= {
                (there["stack"][-1], node, key)
                for node, key, _, listed, offered in there["bound"]
                if not (listed and offered)
            }
            for key in dict.fromkeys(key for _, key, *_ in there["bound"]):
                meant = {
                    (action if action in ALIKE else node, key)
                    if node in COMMON or action in ALIKE
                    else (stage if node != "Dashboard" else node, node, key)
                    for node, own, action, *_ in there["bound"]
                    if own == key and action not in LAST
                }
                if meant <= done or typist.codes[key] is None:
                    continue
                done |= meant
                pressed += 1
                now = typist.type(key)
                if len(now["stack"]) > len(there["stack"]):
                    opened, now = now["stack"], typist.type("escape")
                    assert len(now["stack"]) < len(opened), f"{opened[-1]} stays open"
                if (now["stack"], now["focus"]) != (there["stack"], there["focus"]):
                    assert typist.go(stage, now, there)["stack"] == there["stack"]
        assert unlisted == set()
        assert reached == screens()
        assert pressed > 200
        leave(typist)
    finally:
        typist.end()


def leave(typist: Typist) -> None:
    """The two keys that were left out."""
    typist.go("the log")
    os.write(typist.master, typist.codes["ctrl+z"])
    while Path(f"/proc/{typist.child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.02)
    os.kill(typist.child.pid, signal.SIGCONT)
    typist.go("the log")
    os.write(typist.master, b"q")
    assert typist.child.wait(LIMIT_S) == 0


def screens() -> set[str]:
    """Every screen that the app can show."""
    for module in pkgutil.walk_packages(tui.app.__path__, "tui.app."):
        importlib.import_module(module.name)
    found, classes = {"CommandPalette"}, [Screen]
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if cls.__module__.startswith("tui.app."):
            found.add(cls.__name__)
    return found - BASES
