"""The top line: which server, how far, how fast, how fresh."""

from tui.app.glyphs import Glyphs
from tui.app.text import DASH, count, duration, escape, fit, number, percent, width_of
from tui.app.widgets.canvas import Canvas, Line, length, spread
from tui.snapshot import ENDED, Ages, Phase, Snapshot, State

STYLE = {
    State.RUNNING: "good",
    State.STARTING: "warn",
    State.STOPPING: "warn",
    State.FAILED: "bad",
    State.EXITED: "quiet",
    State.STOPPED: "quiet",
    State.UNKNOWN: "quiet",
}
# A source that was silent for longer than this is named with its age.
STALE_S = 3.0
PROGRESS_CELLS, NARROW_CELLS = 12, 8
NARROW = 100  # cells of a screen
PHASES_WITH_A_BAR = (Phase.WEIGHTS, Phase.DRAFT_WEIGHTS, Phase.GRAPHS)


class StatusLine(Canvas):
    """One row; parts that do not fit are left out, the least important first."""

    def __init__(self) -> None:
        super().__init__(id="status")
        self._snapshot: Snapshot | None = None
        self._frozen = False
        self._owner = ""

    def show(self, snapshot: Snapshot, frozen: bool = False, owner: str = "") -> None:
        """Draw this snapshot. `owner`: who else controls the server."""
        self._snapshot, self._frozen, self._owner = snapshot, frozen, owner
        self.redraw()

    def lines(self, width: int, height: int) -> list[Line]:
        if self._snapshot is None:
            return []
        return [status(self._snapshot, width, self.glyphs, self._frozen, self._owner)]


def status(snapshot: Snapshot, width: int, glyphs: Glyphs, frozen: bool = False, owner: str = "") -> Line:
    """The status line in `width` cells."""
    right = _freshness(snapshot, frozen)
    parts = [
        (0, _name(snapshot, width)),
        (0, _state(snapshot, glyphs)),
        *_details(snapshot, glyphs, NARROW_CELLS if width < NARROW else PROGRESS_CELLS),
    ]
    if owner:
        parts.insert(2, (0, [(f"{escape(owner, 48)} controls", "warn")]))
    room = width - length(right) - 1
    shown = parts
    while len(shown) > 1 and _total(shown) > room:
        worst = max(rank for rank, _ in shown)
        last = max(i for i, (rank, _) in enumerate(shown) if rank == worst)
        shown = shown[:last] + shown[last + 1 :]
    line: Line = []
    for _, part in shown:
        line += [("  ", "plain"), *part] if line else [(" ", "plain"), *part]
    return spread(line, right, width)


def _total(parts: list[tuple[int, Line]]) -> int:
    return 1 + sum(length(part) for _, part in parts) + 2 * (len(parts) - 1)


def _name(snapshot: Snapshot, width: int) -> Line:
    title, room = escape(snapshot.title or snapshot.profile or snapshot.url or "specdeck"), max(8, width // 4)
    if snapshot.playback and width_of(title) > room:  # the end of a run's name tells more than its date
        title = "replay …" + title[len("replay …") - room :]
    name: Line = [(fit(title, room), "title")]
    return [("REHEARSAL", "warn"), (" ", "plain"), *name] if snapshot.rehearsal else name


def _state(snapshot: Snapshot, glyphs: Glyphs) -> Line:
    state = snapshot.state
    words = state_word(snapshot)
    if state in ENDED and snapshot.state_reason:
        words += f": {escape(snapshot.state_reason, 48)}"
    dot = State.STOPPED if words == Phase.NONE.value else state
    return [(f"{glyphs.dot[dot.value]} {words}", STYLE[state])]


def state_word(snapshot: Snapshot) -> str:
    """How the server is, in a word: its phase where there is one to tell."""
    state, phase = snapshot.state, snapshot.progress.phase
    if snapshot.opening:
        return "opening"
    if state in ENDED or phase is Phase.ENDED:
        return state.value
    if phase is Phase.NONE and state is not State.UNKNOWN:
        return state.value
    return phase.value


def _details(snapshot: Snapshot, glyphs: Glyphs, cells: int) -> list[tuple[int, Line]]:
    """(rank, runs), the higher ranks first to go."""
    if snapshot.state is State.STARTING:
        return _loading(snapshot, glyphs, cells)
    if snapshot.progress.phase is Phase.NONE or snapshot.state in ENDED:
        return [(2, _version(snapshot))] if snapshot.sglang_version or snapshot.version_note else []
    serving = snapshot.ready_at or snapshot.progress.since
    parts: list[tuple[int, Line]] = []
    if serving is not None:
        parts.append((3, [(duration(snapshot.at - serving), "quiet")]))
    parts.append((0, [(number(snapshot.gen_tok_s), "strong"), (" tok/s", "quiet")]))
    if snapshot.accept_len is not None:
        parts.append((1, [("accept ", "quiet"), (number(snapshot.accept_len, 2), "strong")]))
    if snapshot.token_usage is not None:
        parts.append((1, [("KV ", "quiet"), (percent(snapshot.token_usage), "strong")]))
    parts.append((2, [(count(snapshot.running), "strong"), (" running ", "quiet"), *_queue(snapshot)]))
    parts.append((4, _version(snapshot)))
    return parts


def _queue(snapshot: Snapshot) -> Line:
    style = "warn" if snapshot.queue else "strong"
    return [(count(snapshot.queue), style), (" queued", "quiet")]


def _loading(snapshot: Snapshot, glyphs: Glyphs, cells: int) -> list[tuple[int, Line]]:
    progress = snapshot.progress
    parts: list[tuple[int, Line]] = []
    if progress.phase in PHASES_WITH_A_BAR and progress.percent is not None:
        done = round(progress.percent / 100 * cells)
        full, empty = glyphs.progress
        bar: Line = [(full * done, "speed"), (empty * (cells - done), "faint")]
        parts.append((1, [*bar, (f" {progress.percent:.0f}%", "strong")]))
    if progress.text:
        parts.append((3, [(escape(progress.text, 32), "quiet")]))
    if progress.since is not None and progress.launched_at != progress.since:
        parts.append((4, _elapsed("phase", snapshot.at - progress.since, progress.expected_phase_s)))
    if progress.launched_at is not None:
        parts.append((2, _elapsed("total", snapshot.at - progress.launched_at, progress.expected_total_s)))
    parts.append((5, _version(snapshot)))
    return parts


def _elapsed(what: str, seconds: float, expected_s: float | None) -> Line:
    late = expected_s is not None and seconds > 1.5 * expected_s
    line: Line = [(f"{what} ", "quiet"), (duration(seconds), "warn" if late else "strong")]
    return [*line, (f" of ~{duration(expected_s)}", "quiet")] if expected_s is not None else line


def _version(snapshot: Snapshot) -> Line:
    version = snapshot.sglang_version or snapshot.version_note or DASH
    return [(f"SGLang {escape(version, 40)}", "quiet")]


def _freshness(snapshot: Snapshot, frozen: bool) -> Line:
    if frozen:
        return [("FROZEN ", "warn"), ("p", "key"), (" goes on ", "warn")]
    if snapshot.playback:
        return [(snapshot.playback + " ", "changed")]
    stale = stale_sources(snapshot.ages, snapshot.state)
    if stale:
        return [(", ".join(stale) + " ", "warn")]
    known = any(age is not None for age in (snapshot.ages.log_s, snapshot.ages.gpu_s, snapshot.ages.endpoint_s))
    return [("live ", "good")] if known else []


def stale_sources(ages: Ages, state: State) -> list[str]:
    """The sources that have gone silent, with their age. A quiet log is no fault while a server has nothing to do."""
    sources = [("GPU", ages.gpu_s)]
    if state is State.RUNNING:
        sources.append(("server", ages.endpoint_s))
    return [f"{name} data {duration(age)} old" for name, age in sources if age is not None and age > STALE_S]
