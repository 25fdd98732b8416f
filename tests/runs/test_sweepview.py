"""A sweep as the screen gets it, and what the screen may ask of one."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tui.runs.benches import BenchResult
from tui.runs.store import RunStore
from tui.runs.sweeplock import SweepLock
from tui.runs.sweepplan import Case, SweepError
from tui.runs.sweeproom import SweepRoom, begin
from tui.runs.sweepstate import DONE, FAILED, PENDING, RUNNING, SKIPPED, Sweep, SweepStore, Trial
from tui.runs.sweepview import view_of


def result(tok_s: float, accept: float | None = None) -> BenchResult:
    told: dict[str, Any] = {
        "workload": "decode-1", "batch": 1, "at": 0.0, "wall_s": 10.0, "requests": 2, "failed": 0,
        "input_tokens": 128, "output_tokens": 1024, "tok_s": tok_s, "engine": "specdeck", "steady_tok_s": tok_s,
        "low": tok_s - 1, "high": tok_s + 1, "samples": 12, "accept_len": accept,
    }  # fmt: skip
    return BenchResult(**told)


def trial(status: str, x: object = 1, profile: str = "/p/kimi.toml", **more: Any) -> Trial:
    return Trial(case=Case(profile, {"port": 1, "x": x}), status=status, **more)


SWEEP = Sweep(
    name="2026-11-29T12-00-00",
    asked={"bench": "decode-1,prefill", "rehearsal": True},
    trials=(
        trial(DONE, 1, seconds=100.0, run="r1", results=(result(80.0),)),
        trial(DONE, 2, seconds=120.0, run="r2", results=(result(100.0, 2.5),), algorithm="EAGLE3"),
        trial(SKIPPED, 3, why="Will not start.", fits=False),
        trial(FAILED, 4, verdict="capture-oom", why="No memory\x1b[31m for graphs.", seconds=50.0, run="r4"),
        trial(RUNNING, 5, since=1000.0, run="r5"),
        trial(PENDING, 6, plan="Fits: 7.64 GiB.", fits=True),
        trial(PENDING, 7, plan="Will not start.", fits=False),
    ),
    budget_s=3600.0,
    spent_s=300.0,
    doing="loading weights, shard 3/64",
    at=1010.0,
)


def test_each_case_in_words() -> None:
    view = view_of(SWEEP, now=1020.0, running=True)
    assert [row.state for row in view.rows] == [
        "done", "done", "skipped", "failed", "running", "planned", "will be skipped",
    ]  # fmt: skip
    assert [row.title for row in view.rows][:2] == ["x=1", "x=2"]  # what all have in common is left out
    assert view.rows[0].case == "kimi port=1 x=1"
    assert [row.place for row in view.rows] == [2, 1, None, None, None, None, None]
    assert view.rows[0].share == 0.8
    assert view.rows[1].accept_len == 2.5
    assert view.rows[3].words == "capture-oom: No memory·[31m for graphs."
    assert view.rows[4].words == "loading weights, shard 3/64"
    assert view.rows[5].words == "Fits: 7.64 GiB."
    assert view.workloads == ("decode-1", "prefill")
    assert view.rows[0].speeds == (80.0, None)
    assert view.best == "x=2: 100.0 tok/s at decode-1, +25% against x=1"
    assert any("Batch 1: pays" in line for line in view.economy)
    assert view.rehearsal


def test_its_times() -> None:
    view = view_of(SWEEP, now=1020.0, running=True)
    usual = (100.0 + 120.0 + 50.0) / 3
    assert view.elapsed_s == 310.0
    assert view.left_s == pytest.approx(usual + usual - 20.0)  # one to come, one that has run for 20 s, one skipped
    still = view_of(SWEEP, now=99_999.0, running=False)
    assert (still.state, still.elapsed_s) == ("interrupted", 300.0)
    assert still.rows[4].state == "planned"
    assert "done again" in still.rows[4].words
    done = view_of(replace(SWEEP, finished=True), now=99_999.0, running=False)
    assert (done.state, done.left_s) == ("finished", 0.0)


def test_a_sweep_of_which_nothing_is_known_yet() -> None:
    view = view_of(Sweep(name="s", asked={"bench": "nonsense"}, trials=(trial(PENDING),)), now=0.0, running=True)
    assert (view.best, view.left_s, view.workloads, view.rows[0].title) == ("", None, (), "kimi port=1 x=1")
    assert view_of(Sweep(name="s"), now=0.0, running=False).rows == ()


def test_several_profiles_are_told_by_name() -> None:
    sweep = Sweep(name="s", trials=(trial(PENDING), trial(PENDING, profile="/q/eagle.toml"), trial(PENDING, 3)))
    assert [row.title for row in view_of(sweep, 0.0, False).rows] == ["kimi x=1", "eagle x=1", "kimi x=3"]


async def test_what_is_asked_of_sweeps(tmp_path: Path) -> None:
    store = SweepStore(tmp_path)
    room = SweepRoom(RunStore(tmp_path))
    assert await room.names() == ()
    sweep = store.new([Case("p")], {}, None)
    (store.folder / "1broken.json").write_text("{")
    assert await room.names() == (sweep.name, "1broken")
    assert (await room.view(sweep.name)).state == "interrupted"
    broken = await room.view("1broken")
    assert (broken.state, "cannot be read" in broken.problem) == ("damaged", True)
    assert (await room.view("gone")).state == "damaged"
    assert await room.cancel(sweep.name) == f"The sweep {sweep.name} is not running."
    with SweepLock.take(store.folder, sweep.name):
        assert (await room.view(sweep.name)).state == "running"
        assert await room.cancel(sweep.name) is None
        assert store.cancel_asked(sweep.name)
        assert "only one runs at a time" in str(await room.resume(sweep.name))
    store.save(replace(sweep, finished=True))
    assert await room.resume(sweep.name) == f"The sweep {sweep.name} is finished."


def test_a_sweep_that_ends_at_once_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SweepStore(tmp_path)
    asked = {"cases": [], "bench": "no-such-load", "scale": 1.0, "engine": "auto", "rehearsal": True}
    sweep = store.new([Case("no-such-profile")], asked, None, {"cwd": str(tmp_path)})
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    with pytest.raises(SweepError, match="There is no workload 'no-such-load'"):
        begin(tmp_path, sweep.name)
    assert asyncio.run(SweepRoom(RunStore(tmp_path)).resume("nothing")) is not None
