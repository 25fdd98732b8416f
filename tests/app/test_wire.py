"""The app on a pseudo-terminal: what goes over the wire, what never does, and what happens when the wire is cut."""

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PREAMBLE = f"""
import asyncio, random, sys
from dataclasses import replace
sys.path[:0] = [{str(ROOT)!r}, {str(HERE.parent / "support")!r}]
import fakes
from tui.app import run_app
"""
LIVE = """
class Live(fakes.FakeFeed):
    async def run(self, on_snapshot):
        self._sink = on_snapshot
        rng, points, usage = random.Random(1), list(fakes.curve(220)), 0.6
        self.push(self.snapshot)
        await asyncio.sleep(1.0)
        sys.stderr.flush()
        open(sys.argv[1], "w").close()
        for tick in range(1, TICKS + 1):
            await asyncio.sleep(0.6)
            usage = min(0.95, max(0.3, usage + rng.uniform(-0.04, 0.04)))
            points.append(replace(points[-1], at=fakes.NOW + tick, gen_tok_s=89.5 * rng.uniform(0.96, 1.04)))
            bars = fakes.gpus(usage=usage, base=72.33, draft=1.5, graphs=2.1 + rng.uniform(0, 0.1), kv=7.64)
            self.push(replace(self.snapshot, at=fakes.NOW + tick, gpus=bars, points=tuple(points), token_usage=usage,
                              gen_tok_s=points[-1].gen_tok_s, running=rng.randint(10, 14)))
        await asyncio.sleep(0.6)
        import os; os._exit(0)
run_app(Live(fakes.serving()))
"""


class Terminal:
    """A child on a pty of its own."""

    def __init__(self, script: str, size: tuple[int, int], *args: str, **environ: str) -> None:
        self.master, slave = pty.openpty()
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environ}
        self.child = subprocess.Popen(
            [sys.executable, "-c", script, *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            start_new_session=True,
        )
        os.close(slave)

    def read(self, enough, limit_s: float = 60.0) -> bytes:
        """All output until `enough(output)`, the child's end, or the limit."""
        data, until = b"", time.monotonic() + limit_s
        while time.monotonic() < until and not enough(data):
            if not select.select([self.master], [], [], 0.05)[0]:
                continue
            try:
                chunk = os.read(self.master, 65536)
            except OSError:
                break
            if not chunk:
                break
            data += chunk
        return data

    def end(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        os.close(self.master)


@pytest.mark.parametrize(("size", "most"), [((120, 40), 2000), ((80, 24), 1500)])
def test_a_second_of_bars_plot_and_status_costs_little(tmp_path: Path, size: tuple[int, int], most: int) -> None:
    """The whole screen may cost 4 KB/s (2.5 at 80x24) together with the log; this is without the log."""
    ticks, started = 8, tmp_path / "started"
    terminal = Terminal(PREAMBLE + LIVE.replace("TICKS", str(ticks)), size, str(started))
    try:
        terminal.read(lambda _: started.exists())
        steady = terminal.read(lambda _: False)
    finally:
        terminal.end()
    assert 50 < len(steady) / ticks < most


HOSTILE = """
class Show(fakes.FakeFeed):
    async def run(self, on_snapshot):
        on_snapshot(self.snapshot)
        await asyncio.sleep(1.5)
        import os; os._exit(0)
run_app(Show(fakes.hostile()))
"""


def test_nothing_but_text_reaches_the_terminal(tmp_path: Path) -> None:
    terminal = Terminal(PREAMBLE + HOSTILE, (160, 50))
    try:
        output = terminal.read(lambda _: False)
    finally:
        terminal.end()
    output = output.replace(b"\x1b]22;default\x07", b"")  # Textual's own: the mouse pointer's shape
    assert b"\\x1b[31mred" in output
    for poison in (b"\x1b[31m", b"\x1b]52", b"\x07", b"\x00", "\u202e".encode(), "\u200b".encode(), b"\x1b]8;"):
        assert poison not in output


def test_no_colour_sends_no_colour(tmp_path: Path) -> None:
    import re

    terminal = Terminal(PREAMBLE + HOSTILE.replace("hostile", "serving"), (120, 40), NO_COLOR="1")
    try:
        output = terminal.read(lambda _: False)
    finally:
        terminal.end()
    codes = {code for sequence in re.findall(rb"\x1b\[([0-9;]*)m", output) for code in sequence.split(b";")}
    assert codes <= {b"", b"0", b"1", b"2", b"7", b"39", b"49"}
    assert b"BBBB" in output


WAIT = """
run_app(fakes.FakeFeed(fakes.serving()))
"""


@pytest.mark.parametrize("term", ["tmux-256color", "screen", "xterm", "linux"])
def test_q_leaves_and_says_that_the_server_stays(term: str) -> None:
    terminal = Terminal(PREAMBLE + WAIT, (80, 24), TERM=term, COLORTERM="")
    try:
        terminal.read(lambda data: b"GPU7" in data)
        os.write(terminal.master, b"q")
        output = terminal.read(lambda _: False, limit_s=20)
        assert b"The server stays" in output
        assert terminal.child.wait(20) == 0
    finally:
        terminal.end()


def test_a_dashboard_whose_terminal_is_gone_ends_by_itself() -> None:
    """Even when nobody sends SIGHUP, as after nohup or in some containers."""
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + PREAMBLE + WAIT
    terminal = Terminal(script.replace("run_app(", "import tui.app.main as m; m.WATCHDOG_S = 0.3; run_app("), (80, 24))
    try:
        terminal.read(lambda data: b"GPU7" in data)
        os.close(terminal.master)
        terminal.master = os.open(os.devnull, os.O_RDONLY)
        assert terminal.child.wait(30) != 0
    finally:
        terminal.end()


def test_importing_the_app_package_does_not_import_textual() -> None:
    code = "import sys, tui.app; assert not {'textual', 'rich', 'plotext'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
