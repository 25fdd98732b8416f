"""`--set KNOB=VALUE` as knobs."""

import json
from collections.abc import Iterable
from typing import Any

from tui.errors import SpecdeckError


class AssignmentError(SpecdeckError):
    """A --set that is none."""


def assignment(text: str) -> tuple[str, Any]:
    """`mem-fraction-static=0.85`; without a value the knob is taken out (None). Raises AssignmentError."""
    name, equals, value = text.partition("=")
    name = name.strip().lstrip("-").replace("_", "-")
    if not name or not equals:
        raise AssignmentError(f"--set: {text!r} is not of the form KNOB=VALUE, such as mem-fraction-static=0.85.")
    if not value:
        return name, None
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """All of them, the last one of a name counts. Raises AssignmentError."""
    return dict(assignment(text) for text in texts)
