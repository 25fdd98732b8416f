"""Which state of the server follows which."""

import pytest

from tui.session.states import Event, transition
from tui.snapshot import State


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], State.UNKNOWN),
        ([Event.LAUNCHED], State.STARTING),
        ([Event.LAUNCHED, Event.READY], State.RUNNING),
        ([Event.LAUNCHED, Event.ENDED_WELL], State.FAILED),
        ([Event.LAUNCHED, Event.READY, Event.ENDED_WELL], State.EXITED),
        ([Event.LAUNCHED, Event.READY, Event.ENDED_BADLY], State.FAILED),
        ([Event.LAUNCHED, Event.READY, Event.STOP_ASKED], State.STOPPING),
        ([Event.LAUNCHED, Event.STOP_ASKED, Event.ENDED_BADLY], State.STOPPED),
        ([Event.LAUNCHED, Event.STOP_ASKED, Event.READY], State.STOPPING),
        ([Event.LAUNCHED, Event.READY, Event.LOST], State.FAILED),
        ([Event.LAUNCHED, Event.STOP_ASKED, Event.LOST, Event.ENDED_BADLY, Event.READY, Event.LOST], State.STOPPED),
        ([Event.FOUND], State.UNKNOWN),
        ([Event.FOUND, Event.STARTS, Event.ENDED_WELL], State.FAILED),
        ([Event.LAUNCHED, Event.READY, Event.STARTS], State.RUNNING),
        ([Event.FOUND, Event.READY, Event.STOP_ASKED, Event.LOST], State.STOPPED),
        ([Event.LAUNCHED, Event.ENDED_BADLY, Event.LAUNCHED], State.STARTING),
    ],
)
def test_transitions(events: list[Event], state: State) -> None:
    now = State.UNKNOWN
    for event in events:
        now = transition(now, event)
    assert now is state


def test_every_state_answers_every_event() -> None:
    assert {transition(state, event) for state in State for event in Event} <= set(State)
