"""The states of a server, in supervisor's words, and the one function that says which follows which."""

from enum import StrEnum

from tui.runs.store import Run
from tui.snapshot import State


class Event(StrEnum):
    """What can happen to a server."""

    LAUNCHED = "launched"
    FOUND = "found"  # running, though nobody saw it start
    READY = "ready"  # proved: its own port answers
    STOP_ASKED = "stop asked"
    ENDED_WELL = "ended well"  # exit code 0
    ENDED_BADLY = "ended badly"
    LOST = "lost"  # gone, and nobody saw how


_FROM_ANYWHERE = {Event.LAUNCHED: State.STARTING, Event.FOUND: State.UNKNOWN}
_NEXT = {
    (State.STARTING, Event.READY): State.RUNNING,
    (State.UNKNOWN, Event.READY): State.RUNNING,
    (State.STARTING, Event.STOP_ASKED): State.STOPPING,
    (State.RUNNING, Event.STOP_ASKED): State.STOPPING,
    (State.UNKNOWN, Event.STOP_ASKED): State.STOPPING,
    # An exit before ready is a failed start whatever the code.
    (State.STARTING, Event.ENDED_WELL): State.FAILED,
    (State.STARTING, Event.ENDED_BADLY): State.FAILED,
    (State.STARTING, Event.LOST): State.FAILED,
    (State.RUNNING, Event.ENDED_WELL): State.EXITED,
    (State.RUNNING, Event.ENDED_BADLY): State.FAILED,
    (State.RUNNING, Event.LOST): State.FAILED,
    (State.UNKNOWN, Event.ENDED_WELL): State.EXITED,
    (State.UNKNOWN, Event.ENDED_BADLY): State.FAILED,
    (State.UNKNOWN, Event.LOST): State.FAILED,
    (State.STOPPING, Event.ENDED_WELL): State.STOPPED,
    (State.STOPPING, Event.ENDED_BADLY): State.STOPPED,
    (State.STOPPING, Event.LOST): State.STOPPED,
}


def transition(state: State, event: Event) -> State:
    """The state after an event. One that means nothing in a state leaves it as it is."""
    return _FROM_ANYWHERE.get(event) or _NEXT.get((state, event), state)


def state_of(run: Run) -> State:
    """The state of a run as its folder and its processes tell it, with no look at the log or the endpoints."""
    state = State.UNKNOWN
    for event in _events(run):
        state = transition(state, event)
    return state


def _events(run: Run) -> list[Event]:
    if run.damaged is not None:
        return []
    events = [Event.FOUND if run.adopted else Event.LAUNCHED]
    if run.ready_at is not None:
        events.append(Event.READY)
    if run.exited is not None:
        if run.exited.requested:
            events.append(Event.STOP_ASKED)
        events.append(Event.ENDED_WELL if run.exited.code == 0 else Event.ENDED_BADLY)
    elif not run.alive:
        events.append(Event.LOST)
    return events
