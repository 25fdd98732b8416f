"""A campaign on the rehearsal machine, killed in the middle and resumed; then what other commands say of its runs."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tui.cli import main
from tui.runs.store import RunStore
from tui.runs.sweepplan import make_cases
from tui.runs.sweeproom import SweepRoom
from tui.runs.sweepstate import DONE, RUNNING, SKIPPED, Sweep, SweepStore
from tui.server import stopping
from tui.server.profiles import load

ROOT = Path(__file__).resolve().parents[2]
BASE, EAGLE3 = (str(ROOT / "profiles" / f"kimi-k2.5-{name}.toml") for name in ("base", "eagle3"))
LIMIT_S = 60.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Campaign:
    def __init__(self, folder: Path) -> None:
        self.state, self.best = folder / "state", folder / "best.toml"
        port = free_port()
        self.arguments = [
            "sweep", BASE, "--vary", "cuda-graph-max-bs=512,128", "--vary", f"port={port}",
            "--case", f"{EAGLE3},port={port},mem-fraction-static=0.76",
            "--case", f"{EAGLE3},port={port},mem-fraction-static=0.85",
            "--bench", "decode-1", "--scale", "0.3", "--rehearsal", "--speed", "20000", "--save", str(self.best),
        ]  # fmt: skip

    @property
    def store(self) -> RunStore:
        return RunStore(self.state)

    def sweep(self) -> Sweep | None:
        sweeps = SweepStore(self.state)
        names = sweeps.names()
        return sweeps.load(names[0]) if names else None


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """Killed while its second server runs, and asked for again."""
    made = Campaign(tmp_path_factory.mktemp("campaign"))
    environ = {**os.environ, "SPECDECK_STATE_DIR": str(made.state)}
    first = subprocess.Popen(
        [sys.executable, "-m", "tui", *made.arguments],
        env=environ,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + LIMIT_S
    while not ((found := made.sweep()) and found.trials[1].status == RUNNING and found.trials[1].run):
        assert time.monotonic() < deadline, found
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    os.environ["SPECDECK_STATE_DIR"] = str(made.state)
    try:
        assert main(made.arguments) == 0
        yield made
    finally:
        os.environ.pop("SPECDECK_STATE_DIR")
        for run in made.store.active():
            for _ in stopping.kill(run, "the test is over"):
                pass


@pytest.fixture(autouse=True)
def state(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDECK_STATE_DIR", str(campaign.state))


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert main(arguments) == status
    return capsys.readouterr().out


def test_the_campaign_of_the_story(campaign: Campaign) -> None:
    sweep = campaign.sweep()
    assert sweep is not None
    assert sweep.finished
    assert [trial.status for trial in sweep.trials] == [DONE, DONE, SKIPPED, DONE]
    plain_512, plain_128, refused, eagle3 = sweep.trials
    assert plain_512.speed == pytest.approx(82.0, rel=0.03)
    assert plain_128.speed == pytest.approx(89.5, rel=0.03)
    assert "-0.83 GiB" in refused.why
    assert refused.run is None
    assert eagle3.kv_tokens == pytest.approx(116_707, abs=10)
    assert eagle3.speed is not None
    assert eagle3.speed > 89.5
    assert eagle3.results[0].accept_len is not None
    for trial in (plain_512, plain_128, eagle3):
        result = trial.results[0]
        assert result.counter_tok_s == pytest.approx(result.tok_s, rel=0.03)
    # The one that was killed, and the one that took its place.
    assert len(campaign.store.names()) == 4
    assert campaign.store.active() == []
    best = load(campaign.best)
    assert best.knobs["mem-fraction-static"] == 0.85
    assert best.command[0] == "python3"  # the real one, not the rehearsal


def test_its_table_says_whether_speculation_pays(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = campaign.sweep()
    assert sweep is not None
    text = asked(capsys, "sweep", "--list", "--resume", sweep.name)
    assert "Batch 1: pays" in text
    assert "to break even" in text
    assert "skipped: Will not start" in text
    assert "finished, 3 of 4 measured" in asked(capsys, "sweep", "--list")
    assert "skip " in asked(capsys, *campaign.arguments, "--plan-only")
    asked(capsys, "sweep", "--resume", status=2)
    asked(capsys, "sweep", "--resume", sweep.name, status=2)  # it is finished
    asked(capsys, "sweep", "--watch", "--json", status=2)
    asked(capsys, "sweep", "--watch", status=2)  # nothing to show it on
    asked(capsys, "sweep", status=2)


def test_the_runs_fill_the_history(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    table: list[dict[str, Any]] = json.loads(asked(capsys, "runs", "--json"))
    outcomes = [row["outcome"] for row in table]
    assert outcomes.pop(2) in ("stopped", "stopped before ready")  # the one that was killed
    assert outcomes == ["stopped"] * 3
    assert table[0]["algorithm"] == "EAGLE3"
    assert table[-2]["changed"] == {"cuda-graph-max-bs": [512, 128]}
    fastest = json.loads(asked(capsys, "runs", "--json", "--sort", "speed"))
    assert fastest[0]["run"] == table[0]["run"]
    assert len(json.loads(asked(capsys, "runs", "--json", "--filter", "eagle3"))) == 1
    one = asked(capsys, "runs", table[0]["run"])
    assert "accept length" in one
    assert "bench decode-1" in one
    asked(capsys, "runs", "--sort", "colour", status=2)
    asked(capsys, "runs", "--delete", status=2)
    asked(capsys, "runs", "no-such-run", status=2)


def test_notes_baseline_and_comparison(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    names = campaign.store.names()
    asked(capsys, "compare", names[0], status=2)  # nothing is pinned yet
    asked(capsys, "runs", names[-1], "--baseline")
    asked(capsys, "runs", names[-1], "--note", "as it was")
    listed = asked(capsys, "runs")
    assert "[baseline] as it was" in listed.splitlines()[1]
    text = asked(capsys, "compare", names[0])
    assert "tok/s at batch 1 (+" in text
    assert "Batch 1: pays" in text
    both = json.loads(asked(capsys, "compare", names[-1], names[1], "--json"))
    assert both["knobs"]["cuda-graph-max-bs"] == [512, 128]
    assert both["speeds"][0]["ratio"] == pytest.approx(89.5 / 82, rel=0.03)
    asked(capsys, "runs", names[-1], "--no-baseline")


def test_a_run_is_replayed_and_handed_on(
    campaign: Campaign, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = campaign.store.names()[0]
    places = asked(capsys, "replay", name, "--list")
    assert "loading draft weights" in places
    assert "ready" in places
    last = json.loads(asked(capsys, "replay", name, "--json"))
    assert (last["state"], last["replay"]) == ("stopped", True)
    assert json.loads(asked(capsys, "replay", name, "--json", "--at", "ready"))["state"] == "running"
    asked(capsys, "replay", name, "--json", "--at", "lunch", status=2)
    asked(capsys, "runs", name, "--export", str(tmp_path))
    file = next(tmp_path.glob("*.specdeck-run.tar.gz"))
    monkeypatch.setenv("SPECDECK_STATE_DIR", str(tmp_path / "colleague"))
    there = json.loads(asked(capsys, "replay", str(file), "--json"))
    assert {**there, "log_lines": 0} == {**last, "log_lines": 0}
    asked(capsys, "runs", name, "--delete", "--yes")
    assert RunStore(tmp_path / "colleague").names() == []


def test_a_server_that_runs_is_benched(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    asked(capsys, "bench", campaign.store.names()[0], status=2)  # it has ended
    launch = ["run", EAGLE3, "--set", f"port={free_port()}", "--set", "mem-fraction-static=0.85"]
    asked(capsys, *launch, "--rehearsal", "--speed", "20000", "--wait", "ready", "--yes", "--json")
    run = campaign.store.active()[0]
    try:
        found = json.loads(asked(capsys, "bench", run.name, "--bench", "decode-1", "--scale", "0.2", "--json"))
        assert found[0]["failed"] == 0
        assert found[0]["engine"] == "specdeck"
        assert campaign.store.load(run.name).alive
        row = json.loads(asked(capsys, "runs", run.name, "--json"))
        assert row["benches"] == found
    finally:
        for _ in stopping.stop(campaign.store.load(run.name), 5.0, "the test is over"):
            pass
        asked(capsys, "runs", run.name, "--delete", "--yes")


async def until(told: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not await told():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def test_a_sweep_in_the_background_is_watched_cancelled_and_gone_on_with(tmp_path: Path) -> None:
    store, sweeps = RunStore(tmp_path), SweepStore(tmp_path)
    cases = make_cases([BASE], ["cuda-graph-max-bs=512,128", f"port={free_port()}"])
    asked = {"bench": "decode-1", "scale": 0.1, "engine": "auto", "rehearsal": True}
    options = {"speed": 2000.0, "seed": 1, "scenario": "story", "no_save": True, "cwd": str(tmp_path)}
    name = sweeps.new(cases, asked, None, options).name
    room = SweepRoom(store)
    try:
        assert await room.resume(name) is None

        async def launched() -> bool:
            view = await room.view(name)
            return view.state == "running" and view.rows[0].run is not None

        await until(launched)
        assert await room.cancel(name) is None

        async def interrupted() -> bool:
            return (await room.view(name)).state == "interrupted"

        await until(interrupted)
        assert store.active() == []
        assert sweeps.load(name).trials[1].run is None
        assert await room.resume(name) is None

        async def finished() -> bool:
            return (await room.view(name)).state == "finished"

        await until(finished)
        view = await room.view(name)
        assert [row.place for row in view.rows] == [2, 1]
        assert store.active() == []
        assert "Cancelled" in sweeps.log(name).read_text()
    finally:
        sweeps.cancel(name)
        for run in store.active():
            for _ in stopping.kill(run, "the test is over"):
                pass
