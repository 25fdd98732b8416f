"""Facts in, Snapshot out. Pure: the same facts give the same Snapshot; no clock, no I/O, no Textual."""

from tui.session.session import Session

__all__ = ["Session"]
