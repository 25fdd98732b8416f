"""The hints of the rehearsal: each names keys that go on from what is seen."""

from dataclasses import replace

import pytest

from tui.app.text import wrap
from tui.facts import Fix, Verdict
from tui.feed.coach import BASE, EAGLE3, NOTHING_REAL, Coach
from tui.server.profiles import find
from tui.snapshot import Snapshot, State

EMPTY = Snapshot(at=0.0, state=State.STOPPED, rehearsal=True)
VERDICT = Verdict(
    kind="weights-over-budget",
    title="It died",
    why="because",
    confidence="certain",
    evidence=(),
    fixes=(Fix(knob="mem-fraction-static", old=None, new=0.85, why="starts"),),
)


def of(run, state, verdict=None, profile=BASE):
    return replace(EMPTY, run=run, state=state, verdict=verdict, profile=profile)


def test_from_an_empty_machine_to_a_fixed_crash():
    coach = Coach()
    told = [
        coach.hint(snapshot)
        for snapshot in (
            EMPTY,
            of("one", State.STARTING),
            of("one", State.RUNNING),
            of("one", State.STOPPING),
            of("one", State.STOPPED),
            of("two", State.FAILED, VERDICT),
            of("three", State.RUNNING),
        )
    ]
    assert told[0].startswith(NOTHING_REAL)
    assert "L launches" in told[0]
    assert "S stops it" in told[2]
    assert "kimi-k2.5-eagle3" in told[4]
    assert "a takes the card's fix" in told[5]
    assert told[6].startswith("Fixed")
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("verdict", [None, replace(VERDICT, fixes=())])
def test_a_death_without_a_fix_names_other_keys(verdict):
    told = Coach().hint(of("one", State.FAILED, verdict))
    assert "a takes" not in told
    assert "e goes to the error" in told


@pytest.mark.parametrize("state", list(State))
def test_a_hint_fits_two_rows_of_a_small_screen(state):
    coach = Coach()
    for run, profile in (("one", BASE), ("two", EAGLE3)):
        for verdict in (None, VERDICT):
            assert len(wrap(coach.hint(of(run, state, verdict, profile)), 76)) <= 2


def test_who_took_the_plans_advice_is_sent_to_compare():
    told = Coach().hint(of("one", State.RUNNING, profile=EAGLE3))
    assert f"L launches {BASE}" in told
    assert "H shows both" in told


def test_profiles_that_it_names_are_there():
    for name in (BASE, EAGLE3):
        assert find(name).name == name
