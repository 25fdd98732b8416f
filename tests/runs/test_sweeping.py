"""Sweeps: what is tried, what is skipped, what survives, and what goes on after an interruption."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tui.errors import SpecdeckError
from tui.runs.benches import BenchError, BenchResult, Workload, workloads
from tui.runs.sweeping import Outcome, Plan, SweepCancelled, run_sweep
from tui.runs.sweeplock import SweepLock, running
from tui.runs.sweepplan import Case, SweepError, make_cases, parse_budget, parse_case, parse_vary
from tui.runs.sweepstate import DONE, FAILED, PENDING, RUNNING, SKIPPED, Sweep, SweepStore, Trial, ranked
from tui.runs.sweeptext import speculation_lines, table_lines
from tui.runs.sweeptime import duration, elapsed_s, left_s, usual_s

LOADS = workloads("decode-1")


# ---------------------------------------------------------------------------------------------- what is asked


def test_values_of_a_knob() -> None:
    assert parse_vary("cuda-graph-max-bs=512,256,128") == ("cuda-graph-max-bs", (512, 256, 128))
    assert parse_vary("--mem_fraction_static=0.80..0.90:0.02") == (
        "mem-fraction-static", (0.8, 0.82, 0.84, 0.86, 0.88, 0.9),
    )  # fmt: skip
    assert parse_vary("x=1..3") == ("x", (1, 2, 3))
    assert parse_vary("cuda-graph-bs=[1,2],[4,8]") == ("cuda-graph-bs", ([1, 2], [4, 8]))
    assert parse_vary("speculative-algorithm=,EAGLE3") == ("speculative-algorithm", (None, "EAGLE3"))
    assert parse_vary("enable-metrics=true,false") == ("enable-metrics", (True, False))
    assert parse_case('p,x=1,y={"a":1,"b":2}') == Case("p", {"x": 1, "y": {"a": 1, "b": 2}})


@pytest.mark.parametrize("text", ["cuda-graph-max-bs", "=1,2", "x=3..1", "x=1..2:0", "x=0..1:0.0001"])
def test_what_is_no_list_of_values_is_told(text: str) -> None:
    with pytest.raises(SweepError, match="--vary"):
        parse_vary(text)


def test_combinations_and_single_cases() -> None:
    cases = make_cases(["a", "b"], ["x=1,2", "y=u,v"], ["c,x=9", "a,x=1,y=u"])
    assert len(cases) == 9  # the last one is there already
    assert cases[0] == Case("a", {"x": 1, "y": "u"})
    assert cases[-1].title == "c x=9"
    assert Case("a", {"x": None}).title == "a no x"
    with pytest.raises(SweepError, match="more than once"):
        make_cases(["a"], ["x=1", "x=2"])
    with pytest.raises(SweepError, match="1000 launches are more"):
        make_cases(["a"], ["x=1..100", "y=1..10"])
    with pytest.raises(SweepError, match="--case"):
        parse_case("p,x")


def test_budgets() -> None:
    assert [parse_budget(text) for text in ("2h", "90m", "1h30m", "45s", "1.5h")] == [7200, 5400, 5400, 45, 5400]
    for text in ("", "2", "h", "soon"):
        with pytest.raises(SweepError, match="--budget"):
            parse_budget(text)


def test_workloads_by_name() -> None:
    assert [load.name for load in workloads("decode")] == ["decode-1", "decode-8", "decode-32"]
    assert [load.name for load in workloads("prefill,decode-1,decode-1")] == ["prefill", "decode-1"]
    assert workloads("decode-1", 0.5)[0].output_tokens == workloads("decode-1")[0].output_tokens // 2
    with pytest.raises(BenchError, match="no workload 'fast'"):
        workloads("fast")
    with pytest.raises(BenchError, match="Name a workload"):
        workloads(" , ")


# ---------------------------------------------------------------------------------------------- how it goes


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Fake:
    """A machine on which a launch takes 100 s and a knob `x` decides everything."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.log: list[str] = []
        self.alive: set[str] = set()
        self.old: list[str] = []
        self.interrupt_at: str | None = None
        self.at_wait: Callable[[], None] = lambda: None
        self.stays = ""

    def plan(self, case: Case, patient: bool) -> Plan:
        if case.knobs.get("x") == "lost":
            raise SpecdeckError("There is no such profile.")
        return Plan(False, "Will not start: -0.83 GiB.") if case.knobs.get("x") == "big" else Plan(True, "Fits.")

    def launch(self, case: Case) -> str:
        self.log.append(f"launch {case.title}")
        if case.knobs.get("x") == "refused":
            raise SpecdeckError("The port is held by another program.")
        assert not self.alive, "two servers at a time"
        run = f"run-{case.knobs.get('x')}"
        self.alive.add(run)
        self.clock.now += 100.0
        return run

    def wait(self, run: str, tick: Callable[[str], None]) -> Outcome:
        tick("loading weights")
        self.at_wait()
        tick("loading weights, 50 %")
        if run == self.interrupt_at:
            raise KeyboardInterrupt
        if run == "run-dies":
            return Outcome(ready=False, verdict="capture-oom", why="No memory for the CUDA graphs.")
        return Outcome(ready=True, kv_tokens=1000, free_gib=5.0, ready_s=100.0)

    def bench(self, run: str, workloads: Sequence[Workload], tick: Callable[[str], None]) -> tuple[BenchResult, ...]:
        if run == "run-hangs":
            raise BenchError("every request failed: timed out.")
        return (result(tok_s=float(run.removeprefix("run-"))),)

    def stop(self, run: str) -> None:
        self.log.append(f"stop {run}")
        self.alive.discard(run)
        if run == self.stays:
            raise SpecdeckError("2.0 GiB have not come back.")
        self.old = [name for name in self.old if name != run]

    def leftovers(self, case: Case, since: float) -> list[str]:
        return list(self.old)


def result(tok_s: float = 80.0, accept: float | None = None, batch: int = 1, **more: Any) -> BenchResult:
    told: dict[str, Any] = {
        "workload": f"decode-{batch}", "batch": batch, "at": 0.0, "wall_s": 10.0, "requests": 2, "failed": 0,
        "input_tokens": 128, "output_tokens": 1024, "tok_s": tok_s, "engine": "specdeck", "steady_tok_s": tok_s,
        "low": tok_s - 1, "high": tok_s + 1, "samples": 12, "accept_len": accept, **more,
    }  # fmt: skip
    return BenchResult(**told)


def begin(tmp_path: Path, *values: Any, budget_s: float | None = None) -> tuple[SweepStore, Sweep, Clock, Fake]:
    store, clock = SweepStore(tmp_path), Clock()
    return store, store.new([Case("p", {"x": value}) for value in values], {"n": 1}, budget_s), clock, Fake(clock)


def test_a_sweep_survives_everything_that_happens_to_a_case(tmp_path: Path) -> None:
    store, sweep, clock, machine = begin(tmp_path, "80", "big", "refused", "dies", "hangs", "90", "lost")
    told: list[str] = []
    done = run_sweep(sweep, store, machine, LOADS, lambda _, text: told.append(text), clock)
    assert [trial.status for trial in done.trials] == [DONE, SKIPPED, FAILED, FAILED, FAILED, DONE, FAILED]
    assert done.trials[1].why == "Will not start: -0.83 GiB."
    assert "launch p x=big" not in machine.log
    assert done.trials[2].why == "The port is held by another program."
    assert done.trials[3].verdict == "capture-oom"
    assert "the bench failed" in done.trials[4].why
    assert done.trials[6].why == "There is no such profile."
    assert machine.alive == set()
    assert done.finished
    assert replace(store.load(done.name), at=None) == done
    assert done.spent_s == 400.0
    assert [trial.speed for trial in ranked(done.trials)][:2] == [90.0, 80.0]
    lines = table_lines(done)
    assert lines[1].split()[:3] == ["1", "p", "x=90"]
    assert any("skipped: Will not start" in line for line in lines)
    assert any("failed: capture-oom: No memory" in line for line in lines)
    assert any("2 of 7: p x=big: skipped" in text for text in told)


def test_an_interrupted_sweep_stops_its_server_and_goes_on_later(tmp_path: Path) -> None:
    store, sweep, clock, machine = begin(tmp_path, "80", "85", "90")
    machine.interrupt_at = "run-85"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, store, machine, LOADS, lambda *_: None, clock)
    assert machine.alive == set()
    found = store.unfinished({"n": 1})
    assert found is not None
    assert [trial.status for trial in found.trials] == [DONE, RUNNING, PENDING]
    assert store.unfinished({"n": 2}) is None
    machine.interrupt_at = None
    machine.log.clear()
    done = run_sweep(found, store, machine, LOADS, lambda *_: None, clock)
    assert [trial.status for trial in done.trials] == [DONE, DONE, DONE]
    assert "launch p x=80" not in machine.log
    assert store.unfinished() is None


def test_what_a_killed_sweep_left_running_is_ended_first(tmp_path: Path) -> None:
    store, sweep, clock, machine = begin(tmp_path, "80", "90")
    killed = sweep.with_trial(0, Trial(case=sweep.trials[0].case, status=RUNNING, since=5.0))
    store.save(killed)  # killed between the launch and the note of its run
    machine.old = ["run-of-then"]
    done = run_sweep(store.load(sweep.name), store, machine, LOADS, lambda *_: None, clock)
    assert machine.log[0] == "stop run-of-then"
    assert [trial.status for trial in done.trials] == [DONE, DONE]


def test_what_will_be_skipped_is_known_from_the_start_and_takes_no_time(tmp_path: Path) -> None:
    store, sweep, clock, machine = begin(tmp_path, "80", "big", "90")
    seen: list[Sweep] = []
    run_sweep(sweep, store, machine, LOADS, lambda now, _: seen.append(now), clock)
    first = next(now for now in seen if now.trials[0].status == RUNNING)
    assert [trial.fits for trial in first.trials] == [True, False, True]
    assert first.trials[1].plan == "Will not start: -0.83 GiB."
    one_done = next(now for now in seen if now.trials[0].status == DONE)
    assert left_s(one_done) == 100.0


def test_the_step_of_the_case_that_runs_is_on_disk(tmp_path: Path) -> None:
    store, sweep, clock, machine = begin(tmp_path, "80")
    seen: list[str] = []
    run_sweep(sweep, store, machine, LOADS, lambda *_: seen.append(store.load(sweep.name).doing), clock)
    assert "loading weights" in seen
    assert store.load(sweep.name).doing == ""


def test_time_left_counts_what_the_running_case_has_taken() -> None:
    case = Case("p")
    done = Trial(case=case, status=DONE, seconds=100.0)
    sweep = Sweep(name="s", trials=(done, Trial(case=case, status=RUNNING, since=1000.0), Trial(case=case)), at=1030.0)
    assert left_s(sweep, now=1040.0) == 160.0
    assert left_s(sweep, now=1500.0) == 100.0  # it takes longer than usual
    assert elapsed_s(replace(sweep, spent_s=130.0), now=1040.0) == 140.0


def test_a_sweep_is_cancelled_from_another_process(tmp_path: Path) -> None:
    store, sweep, clock, machine = begin(tmp_path, "80", "90")
    machine.at_wait = lambda: store.cancel(sweep.name)
    with pytest.raises(SweepCancelled):
        run_sweep(sweep, store, machine, LOADS, lambda *_: None, clock)
    assert machine.log == ["launch p x=80", "stop run-80"]
    assert not store.cancel_asked(sweep.name)
    machine.at_wait = lambda: None
    done = run_sweep(store.load(sweep.name), store, machine, LOADS, lambda *_: None, clock)
    assert [trial.status for trial in done.trials] == [DONE, DONE]


def test_a_server_that_does_not_leave_cleanly_costs_no_measurement(tmp_path: Path) -> None:
    store, sweep, clock, machine = begin(tmp_path, "80", "90")
    machine.stays = "run-80"
    done = run_sweep(sweep, store, machine, LOADS, lambda *_: None, clock)
    assert [trial.status for trial in done.trials] == [DONE, DONE]
    assert (done.trials[0].speed, done.trials[0].why) == (80.0, "2.0 GiB have not come back.")


def test_one_sweep_at_a_time(tmp_path: Path) -> None:
    assert running(tmp_path) is None
    with SweepLock.take(tmp_path, "first"):
        assert running(tmp_path) == "first"
        with pytest.raises(SweepError, match="The sweep first is running"):
            SweepLock.take(tmp_path, "second")
    assert running(tmp_path) is None
    SweepLock.take(tmp_path, "second").release()


def test_a_budget_begins_no_case_that_would_pass_it(tmp_path: Path) -> None:
    store, sweep, clock, machine = begin(tmp_path, "80", "85", "90", budget_s=250.0)
    told: list[str] = []
    stopped = run_sweep(sweep, store, machine, LOADS, lambda _, text: told.append(text), clock)
    assert [trial.status for trial in stopped.trials] == [DONE, DONE, PENDING]
    assert not stopped.finished
    assert "1 case is left" in told[-1]
    assert usual_s(stopped) == 100.0
    assert left_s(stopped) == 100.0
    assert left_s(sweep) is None
    assert elapsed_s(stopped) == stopped.spent_s


def test_a_sweep_file_that_is_broken_is_told(tmp_path: Path) -> None:
    store, sweep, *_ = begin(tmp_path, "80")
    path = store.folder / f"{sweep.name}.json"
    for text in ("{", json.dumps({"name": 1}), json.dumps({"name": "a", "asked": {}, "trials": [7]})):
        path.write_text(text)
        with pytest.raises(SweepError, match="cannot be read"):
            store.load(sweep.name)
        assert store.unfinished() is None
    whole = {"name": "a", "asked": {}, "trials": [json.loads(json.dumps(asdict(Trial(case=Case("p")))))]}
    for change in (
        {"status": 7},
        {"seconds": None},
        {"seconds": "long"},
        {"kv_tokens": [1]},
        {"run": 3},
        {"plan": None},
    ):
        path.write_text(json.dumps({**whole, "trials": [{**whole["trials"][0], **change}]}))
        with pytest.raises(SweepError, match="cannot be read"):
            store.load(sweep.name)
    for change in ({"spent_s": "x"}, {"budget_s": -1}, {"at": 1e308}, {"asked": 7}, {"spent_s": float("nan")}):
        path.write_text(json.dumps({**whole, **change}))
        with pytest.raises(SweepError, match="cannot be read"):
            store.load(sweep.name)
    path.write_text(json.dumps(whole))
    assert store.load(sweep.name).trials[0].case == Case("p")
    with pytest.raises(SweepError, match="no sweep"):
        store.load("none")


def test_whether_speculation_pays_is_said_under_the_table() -> None:
    case = Case("p", {"port": 1, "x": 1})
    plain = Trial(case=case, status=DONE, kv_tokens=1000, fraction=0.8, results=(result(89.5), result(500.0, batch=8)))
    spec = Trial(
        case=Case("p", {"port": 1, "x": 2}), status=DONE, kv_tokens=800, fraction=0.8, algorithm="EAGLE3",
        results=(result(150.0, 2.5), result(450.0, 2.4, batch=8)),
    )  # fmt: skip
    text = "\n".join(speculation_lines([plain, spec]))
    assert "p x=2 against p x=1" in text  # the port is the same everywhere
    assert "Batch 1: pays" in text
    assert "Batch 8: does not pay" in text
    assert "It turns over at about batch" in text
    assert "200 KV tokens" in text
    assert speculation_lines([plain]) == []
    assert [duration(seconds) for seconds in (7, 95, 3725)] == ["7 s", "1 min 35 s", "1 h 02 min"]
