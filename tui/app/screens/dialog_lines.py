"""The paragraphs of the dialogs. Pure functions of what is shown and the width."""

from collections.abc import Mapping, Sequence

from tui.app.bars import free_gib, tightest
from tui.app.text import DASH, count, escape, fit, gib, pad, value, width_of, wrap
from tui.app.widgets.canvas import Line
from tui.port import Finding, Forecast
from tui.snapshot import Snapshot

FIT_STYLE = {True: "good", False: "bad", None: "warn"}


def paragraph(text: str, width: int, style: str) -> list[Line]:
    """Words on lines, indented by one."""
    return [[(" " + line, style)] for line in wrap(text, width - 2)]


def server_lines(snapshot: Snapshot, width: int) -> list[Line]:
    """Which server it is and who would notice."""
    rows = [
        ("server", snapshot.title or snapshot.profile or DASH),
        ("model", snapshot.model or DASH),
        ("answers at", snapshot.url or DASH),
        ("in flight", in_flight(snapshot)),
    ]
    busy = bool(snapshot.running or snapshot.queue)
    return [
        [
            (f" {pad(name, 12)}", "quiet"),
            (fit(escape(words), width - 14), "warn" if name == "in flight" and busy else "strong"),
        ]
        for name, words in rows
    ]


def in_flight(snapshot: Snapshot) -> str:
    """Requests that would be cut off, in words."""
    if snapshot.exited_at is not None:
        return "nothing, it has ended"
    if snapshot.running is None and snapshot.queue is None:
        return "not known"
    return f"{count(snapshot.running)} running, {count(snapshot.queue)} queued"


def difference(snapshot: Snapshot, pending: Mapping[str, object], width: int) -> list[Line]:
    """Old and new value of each changed knob."""
    if not pending:
        return [[(" no knob is changed: the same launch again", "quiet")]]
    old = {knob.name: knob.value for knob in snapshot.knobs}
    longest = min(max(width_of(escape(name)) for name in pending), width // 2)
    return [
        [
            (f" {pad(escape(name), longest)}  ", "quiet"),
            (fit(f"{value(old.get(name))} -> {value(new)}", width - longest - 4), "changed"),
        ]
        for name, new in pending.items()
    ]


def room_left(forecast: Forecast) -> str:
    """ "12.30 GiB stay free on the tightest GPU."; nothing where the sentence of the plan is all there is to say."""
    bar = tightest(forecast.bars)
    free = free_gib(bar) if bar is not None else None
    return f"{gib(free)} GiB stay free on the tightest GPU." if forecast.fits is not False and free is not None else ""


def forecast_lines(forecast: Forecast | None, asked: bool, width: int) -> list[Line]:
    """Will it fit, by the tightest GPU."""
    if forecast is None:
        return paragraph("No forecast can be made." if asked else "Working out whether it fits…", width, "quiet")
    lines = paragraph(escape(forecast.verdict), width, FIT_STYLE[forecast.fits])
    return lines + paragraph(room_left(forecast), width, "quiet")


def finding_lines(found: Sequence[Finding] | None, width: int, most: int = 8) -> list[Line]:
    """What stands against the launch, the fatal first; nothing while it is still looked at or all is well."""
    lines: list[Line] = []
    for finding in (found or ())[:most]:
        style = "bad" if finding.severity == "error" else "warn"
        lines += paragraph(escape(f"{finding.text} To mend it: {finding.fix}."), width, style)
    if found and len(found) > most:
        lines.append([(f" and {len(found) - most} more; `specdeck profile check` lists them all", "quiet")])
    return lines
