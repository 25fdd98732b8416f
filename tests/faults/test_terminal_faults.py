"""The whole program on a terminal that goes away, stops, shrinks, or speaks no UTF-8."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tui.app.main import HANGUP
from tui.runs.store import RunStore
from tui.server.stopping import kill

SHELL = """
import os, signal, sys, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
_, status = os.waitpid(pid, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
os.write(1, b"<stopped>" if os.WIFSTOPPED(status) else b"<ended>")
time.sleep(0.5)
os.tcsetpgrp(0, pid)
os.write(1, b"<continued>")
os.kill(pid, signal.SIGCONT)
_, status = os.waitpid(pid, 0)
os._exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture
def log(tmp_path: Path, faults) -> Path:
    path = tmp_path / "server.log"
    path.write_text(faults.STARTED)
    return path


@pytest.fixture(autouse=True)
def gpus(driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU, so that there is a bar to draw."""
    state = tmp_path / "gpus"
    state.write_text("gpu 0 name Test GPU\ngpu 0 total 97887\ngpu 0 used 75000\n")
    monkeypatch.setenv("FAKE_NVML_STATE", str(state))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))


def test_a_terminal_that_is_gone_ends_the_dashboard_and_not_the_server(
    screen, faults, tmp_path: Path, free_port
) -> None:
    state = {**os.environ, "SPECDECK_STATE_DIR": str(tmp_path / "state"), "PYTHONPATH": str(faults.ROOT)}
    launch = ["run", "kimi-k2.5-base", "--rehearsal", "--yes", "--speed", "600", "--set", f"port={free_port}"]
    subprocess.run([sys.executable, "-m", "tui", *launch], env=state, check=True, capture_output=True)
    store = RunStore(tmp_path / "state")
    (run,) = store.active()
    try:
        shown = screen()
        assert shown.shows("help")
        shown.close_terminal()
        assert shown.ended() not in (None, 0)
        assert store.load(run.name).alive
    finally:
        list(kill(store.load(run.name)))


def test_a_terminal_that_is_gone_ends_the_dashboard_where_hangups_are_ignored(screen, log: Path) -> None:
    shown = screen("attach", "--log", str(log), program=["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"])
    assert shown.shows("help")
    shown.close_terminal()
    for number in range(100):  # the writer is dead, and what waits for it is more than it takes
        with log.open("a") as file:
            file.write(f"line {number}\n" * 50)
        time.sleep(0.05)
    assert shown.ended() == HANGUP


def test_stopped_and_continued_it_draws_everything_again(screen, faults, log: Path) -> None:
    shown = screen("attach", "--log", str(log), program=[sys.executable, "-c", SHELL])
    assert shown.shows("help")
    assert shown.shows("GPU0")
    shown.keys("\x1a")
    assert shown.shows("<stopped>")
    before = shown.sent
    assert b"\x1b[?1049l" in before[before.rindex(b"help") :], "the terminal is not given back"
    assert shown.shows("<continued>")
    after = len(shown.sent)
    assert shown.read(lambda sent: all(word in sent[after:] for word in (b"\x1b[?1049h", b"help", b"GPU0")))
    shown.keys("q")
    assert shown.ended() == 0


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_locale_c(screen, log: Path, locale: dict[str, str]) -> None:
    shown = screen("attach", "--log", str(log), LANG="C", **locale)
    assert shown.shows("help")
    assert shown.shows("GPU0")
    with log.open("a") as file:
        file.write("naïve 日本語 line\n")
    assert shown.shows("line")
    shown.keys("q")
    assert shown.ended() == 0
    assert b"Traceback" not in shown.sent


def test_a_terminal_of_one_column_and_back(screen, log: Path) -> None:
    shown = screen("attach", "--log", str(log), size=(1, 1))
    time.sleep(1.5)
    for size in ((1, 40), (120, 1), (1, 1), (2, 2), (120, 40)):
        shown.resize(*size)
        shown.read(lambda _: False, 0.3)
    assert shown.shows("GPU0")
    shown.keys("q")
    assert shown.ended() == 0
    assert b"Traceback" not in shown.sent


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_signal_to_the_dashboard_leaves_no_traceback(screen, log: Path, number: int) -> None:
    shown = screen("attach", "--log", str(log))
    assert shown.shows("help")
    os.kill(shown.pid, number)
    if shown.ended(3.0) is None:
        shown.keys("q")  # SIGINT is a key press to a screen: it may ask once more
        assert shown.ended() is not None
    assert b"Traceback" not in shown.sent


# ---- a state directory that cannot be used


@pytest.fixture
def specdeck(faults, tmp_path: Path):
    def go(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        told = {**os.environ, "SPECDECK_STATE_DIR": str(state), "PYTHONPATH": str(faults.ROOT)}
        command = [sys.executable, "-m", "tui", *arguments]
        return subprocess.run(command, env=told, capture_output=True, text=True, timeout=60, check=False)

    return go


def sentence(done: subprocess.CompletedProcess[str], state: Path) -> None:
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert str(state) in done.stderr


def test_a_state_directory_that_is_a_file(specdeck, tmp_path: Path) -> None:
    state = tmp_path / "occupied"
    state.write_text("")
    sentence(specdeck(state, "run", "kimi-k2.5-base", "--rehearsal", "--yes"), state)


def test_a_state_directory_under_which_nothing_can_be_made(specdeck) -> None:
    state = Path("/proc/specdeck")
    sentence(specdeck(state, "run", "kimi-k2.5-base", "--rehearsal", "--yes"), state)
    sentence_free = specdeck(state, "runs", "--json")
    assert "Traceback" not in sentence_free.stderr


def test_watching_needs_no_state_directory(specdeck, log: Path) -> None:
    done = specdeck(Path("/proc/specdeck"), "attach", "--log", str(log), "--once", "--json")
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["ranks"][0]["base"] == 72.33


def test_the_screen_needs_no_state_directory(screen, log: Path) -> None:
    shown = screen("attach", "--log", str(log), SPECDECK_STATE_DIR="/proc/specdeck")
    assert shown.shows("GPU0")
    shown.keys("q")
    assert shown.ended() == 0


def test_the_rehearsal_without_a_state_directory_is_a_sentence(screen) -> None:
    shown = screen("--rehearsal", SPECDECK_STATE_DIR="/proc/specdeck")
    status = shown.ended()
    assert status == 2, shown.sent[-2000:]
    assert b"Traceback" not in shown.sent
    assert b"/proc/specdeck" in shown.sent
