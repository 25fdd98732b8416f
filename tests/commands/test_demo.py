"""`specdeck demo`: the story plays to its end on a terminal, scenarios show their symptom, nothing stays behind."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tui.cli import main
from tui.commands.demostore import demo_store
from tui.feed.demo import DemoFeed
from tui.feed.place import rehearsal_place
from tui.procid import alive
from tui.rehearsal.machine import Settings
from tui.rehearsal.scenarios import SCENARIOS

LIMIT_S = 100.0
FAST = "3000"


@pytest.fixture
def no_state(monkeypatch):
    monkeypatch.delenv("SPECDECK_STATE_DIR", raising=False)


async def played(scenario):
    """Every caption of a scenario, and the processes that were started."""
    with demo_store() as store:
        feed = DemoFeed(rehearsal_place(store, Settings(speed=float(FAST), scenario=scenario)), store, play=True)
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


async def test_a_scenario_plays_alone_and_names_its_fix(no_state):
    told, processes, root = await played("capture-oom")
    assert told[0] == f"{SCENARIOS['capture-oom'].caption}."
    assert "Fix:" in told[-1]
    assert processes
    for process in processes:
        for _ in range(100):
            if not alive(process):
                break
            await asyncio.sleep(0.05)
        assert not alive(process)
    assert not root.exists()


async def test_a_warning_is_a_symptom_too(no_state):
    told, _, _ = await played("retract")
    assert "Nothing is wrong" not in told[-1]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_story_plays_to_its_end_on_a_terminal(tmp_path, no_state):
    def tmux(*words):
        return subprocess.run(
            ["tmux", "-S", str(tmp_path / "tmux"), *words], capture_output=True, text=True, check=False
        ).stdout

    end = tmp_path / "end"
    command = f"{sys.executable} -m tui demo --play --speed {FAST}; echo $? > {end}; sleep 60"
    environ = f"TMPDIR={tmp_path} PYTHONPATH={Path(__file__).parents[2]}"
    tmux("-f", "/dev/null", "new-session", "-d", "-x", "140", "-y", "40", f"env {environ} sh -c '{command}'")
    try:
        seen = watched(lambda: tmux("capture-pane", "-p"), lambda text: "5/5 Learned" in text)
        learned = next(line for line in seen.splitlines() if "5/5 Learned" in line)
        assert "by EAGLE-3" in learned
        assert "it pays" in learned
        tmux("send-keys", "q")
        watched(lambda: end.read_text() if end.exists() else "", lambda text: text.strip() == "0")
        assert "Traceback" not in tmux("capture-pane", "-p")
    finally:
        tmux("kill-server")
    assert not list(tmp_path.glob("specdeck-demo-*"))


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
