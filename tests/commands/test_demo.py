"""`specdeck demo`: the story plays to its end on a terminal, scenarios show their symptom, nothing stays behind."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tui.app.text import wrap
from tui.cli import main
from tui.commands.demostore import PREFIX, demo_store, sweep
from tui.feed.demo import DemoFeed
from tui.feed.place import rehearsal_place
from tui.procid import alive, process_stat
from tui.rehearsal.machine import Settings
from tui.rehearsal.scenarios import SCENARIOS
from tui.runs.store import RunStore
from tui.server.control import launch
from tui.server.profiles import find, set_knobs

LIMIT_S = 100.0
FAST = "3000"
ROOT = Path(__file__).parents[2]
CAPTION_ROWS, CAPTION_COLUMNS = 2, 76  # what an 80x24 screen gives a caption of the story


@pytest.fixture
def no_state(monkeypatch, tmp_path):
    """No state directory is named, and demos put theirs below `tmp_path`."""
    monkeypatch.delenv("SPECDECK_STATE_DIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


async def played(scenario):
    """Every caption of a scenario, and the processes that were started."""
    with demo_store() as store:
        feed = DemoFeed(
            rehearsal_place(store, Settings(speed=float(FAST), serving_speed=20.0, scenario=scenario)), store, play=True
        )
        running = asyncio.create_task(feed.run(lambda snapshot: None))
        async with asyncio.timeout(LIMIT_S):
            while not feed.over:
                assert not running.done()
                await asyncio.sleep(0.05)
        processes = [process for run in store.runs() for process in (run.server, run.keeper) if process is not None]
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    return feed.told, processes, store.root


async def gone(processes):
    async with asyncio.timeout(LIMIT_S):
        while any(map(alive, processes)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_scenario_plays_alone_and_names_its_fix(no_state):
    told, processes, root = await played("capture-oom")
    assert told[0] == f"{SCENARIOS['capture-oom'].caption}."
    assert "Fix:" in told[-1]
    assert processes
    await gone(processes)
    assert not root.exists()


@pytest.mark.parametrize(("scenario", "words"), [("retract", "KV pool"), ("foreign", "Another process")])
async def test_a_warning_is_a_symptom_too(no_state, scenario, words):
    told, _, _ = await played(scenario)
    assert words in told[-1]


async def test_the_story_tells_the_same_numbers_twice_in_captions_that_fit(no_state):
    first, _, _ = await played("story")
    second, _, _ = await played("story")
    assert first == second
    assert "EAGLE-3 pays" in first[-1]
    assert all(len(wrap(caption, CAPTION_COLUMNS)) <= CAPTION_ROWS for caption in first)


# ---------------------------------------------------------------------------------------------- on a terminal


@pytest.fixture
def terminal(tmp_path, no_state):
    """terminal(size, arguments) -> tmux of a demo on a terminal; `terminal.end` has its exit code."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")

    def tmux(*words):
        return subprocess.run(
            ["tmux", "-S", str(tmp_path / "tmux"), *words], capture_output=True, text=True, check=False
        ).stdout

    def start(size, arguments):
        command = f"{sys.executable} -m tui demo {arguments}; echo $? > {tmp_path}/end; sleep 60"
        environ = f"TMPDIR={tmp_path} PYTHONPATH={ROOT}"
        columns, rows = size
        tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, f"env {environ} sh -c '{command}'")
        return tmux

    yield start
    tmux("kill-server")


def test_the_story_plays_to_its_end_on_a_terminal(tmp_path, terminal):
    tmux, end = terminal(("80", "24"), f"--play --speed {FAST}"), tmp_path / "end"
    seen = watched(lambda: tmux("capture-pane", "-p"), lambda text: "5/5 EAGLE-3 pays" in text)
    assert "q leaves." in seen  # the caption's last words
    tmux("send-keys", "q")
    watched(lambda: end.read_text() if end.exists() else "", lambda text: text.strip() == "0")
    pane = tmux("capture-pane", "-p")
    assert "Traceback" not in pane
    assert "nothing of it stays" in " ".join(pane.split())
    watched(lambda: str(list(tmp_path.glob(f"{PREFIX}*"))), lambda text: text == "[]")


@pytest.mark.parametrize("end", ["hang-up", "SIGKILL"])
def test_nothing_stays_of_a_demo_that_is_killed(tmp_path, terminal, end):
    tmux = terminal(("100", "30"), f"--play --speed {FAST}")
    (root,) = watched(lambda: list(tmp_path.glob(f"{PREFIX}*")), bool)
    server = watched(lambda: server_of(root), bool)
    demo = process_stat(int(root.name.removeprefix(PREFIX).split("-")[0]))
    assert demo is not None
    if end == "hang-up":
        tmux("kill-server")
    else:
        os.kill(demo.pid, signal.SIGKILL)
    watched(lambda: root.exists() or alive(server), lambda still: not still)


def server_of(root):
    """The server's process of a demo's first run, as soon as its keeper has told it."""
    return next((run.server for run in RunStore(root).runs() if run.server is not None), None)


def test_what_a_killed_demo_left_is_swept_by_the_next_one(tmp_path, no_state):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with demo_store() as store:
        name = store.root.name
        sweep()
        assert store.root.exists()  # its demo lives
    left = tmp_path / name.replace(f"{PREFIX}{os.getpid()}-", f"{PREFIX}{os.getpid()}-1")  # another start: it is gone
    strange = tmp_path / f"{PREFIX}somebodys"
    strange.mkdir()
    store = RunStore(left)
    place = rehearsal_place(store, Settings(speed=1.0))
    run = launch(place.prepare(set_knobs(find("kimi-k2.5-base"), {"port": port})), store, rehearsal=True)
    assert alive(run.keeper)
    sweep()
    watched(lambda: alive(run.server) or alive(run.keeper), lambda still: not still)
    assert not left.exists()
    assert strange.exists()


def watched(look, done):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        text = look()
        if done(text):
            return text
        time.sleep(0.2)
    pytest.fail(f"not seen in {LIMIT_S:.0f} s:\n{look()}")


def test_the_scenarios_are_listed(capsys):
    assert main(["demo", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(SCENARIOS)


def test_without_a_terminal_it_says_so(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert main(["demo"]) == 2
    assert "TERM=dumb" in capsys.readouterr().err


def test_a_named_state_directory_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECDECK_STATE_DIR", str(tmp_path))
    with demo_store() as store:
        assert store.root == tmp_path
    assert os.path.isdir(tmp_path)
