"""The forecast of a restart: a rehearsed model is known exactly, and what the running server measured counts."""

from pathlib import Path

import pytest

from tui.feed.place import RehearsalPlace, rehearsal_place
from tui.feed.planning import Planner
from tui.rehearsal.machine import Settings
from tui.runs.store import RunStore
from tui.server.profiles import find
from tui.snapshot import Knob, RankMemory, Snapshot


@pytest.fixture
def place(tmp_path: Path) -> RehearsalPlace:
    return rehearsal_place(RunStore(tmp_path), Settings())


NOTHING_YET = Snapshot(at=0.0)


def test_the_story_is_foretold_before_anything_was_launched(place: RehearsalPlace) -> None:
    refused = Planner(place).forecast(find("kimi-k2.5-eagle3"), {}, NOTHING_YET)
    assert refused is not None
    assert refused.fits is False
    assert refused.found.fraction.value == pytest.approx(0.7596, abs=5e-5)
    assert refused.found.kv_budget_gib == pytest.approx(-0.86, abs=0.01)
    assert "mem-fraction-static 0.85" in refused.verdict
    works = Planner(place).forecast(find("kimi-k2.5-eagle3"), {"mem-fraction-static": 0.85}, NOTHING_YET)
    assert works is not None
    assert works.fits is True
    assert works.found.kv_tokens == pytest.approx(116_707, abs=200)


def test_what_the_running_server_measured_beats_the_estimate(place: RehearsalPlace) -> None:
    profile = find("kimi-k2.5-base")
    rank = RankMemory(rank="TP0", free_before=90.0, base=70.0)
    running = Snapshot(
        at=0.0, ranks=(rank,), knobs=tuple(Knob(name=name, value=value) for name, value in profile.knobs.items())
    )
    found = Planner(place).forecast(profile, {"mem-fraction-static": 0.9}, running)
    assert found is not None
    assert found.found.kv_budget_gib == pytest.approx(20.0 - 90.0 * 0.1, abs=0.01)
    other_ranks = Planner(place).forecast(profile, {"mem-fraction-static": 0.9, "tp-size": 4}, running)
    assert other_ranks is not None
    assert other_ranks.found.segments["base"].gib != pytest.approx(70.0)


def test_a_value_that_is_still_being_typed_gives_no_forecast(place: RehearsalPlace) -> None:
    assert Planner(place).forecast(find("kimi-k2.5-base"), {"tp-size": "eight"}, NOTHING_YET) is None


def test_the_flags_are_those_of_the_version(place: RehearsalPlace) -> None:
    names = {flag.name for flag in Planner(place).flags(None, "0.5.9")}
    newer = {flag.name for flag in Planner(place).flags(None, "0.5.23")}
    assert "cuda-graph-max-bs" in names
    assert "cuda-graph-max-bs" not in newer
    assert "cuda-graph-max-bs-decode" in newer
