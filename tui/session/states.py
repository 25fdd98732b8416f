"""The states of a server, in supervisor's words, and the one function that says which follows which."""

from enum import StrEnum

from tui.snapshot import State


class Event(StrEnum):
    """What can happen to a server."""

    LAUNCHED = "launched"
    FOUND = "found"  # there, though nobody saw it start
    STARTS = "starts"  # it was found while it was starting
    READY = "ready"
    STOP_ASKED = "stop asked"
    ENDED_WELL = "ended well"  # exit code 0
    ENDED_BADLY = "ended badly"
    LOST = "lost"  # gone, and nobody saw how


_FROM_ANYWHERE = {Event.LAUNCHED: State.STARTING, Event.FOUND: State.UNKNOWN}
_NEXT = {
    (State.UNKNOWN, Event.STARTS): State.STARTING,
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
