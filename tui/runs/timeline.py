"""A run as the stream of facts that its dashboard heard, or would have heard: the one form that everything else reads.

What was recorded comes in its recorded order, with the log's facts put where the log had been read so far. What nobody
watched follows: the rest of the log and of the keeper's journal, by their times.
"""

from collections.abc import Iterable, Iterator

from tui.factlines import FactLineError, dump_fact, load_fact
from tui.facts import Exited, Fact, Launched, LogFact, LogTail, Traceback
from tui.frozen import frozen
from tui.runs import recording
from tui.runs.logread import LogReader
from tui.runs.recording import JOURNAL, LogEnds
from tui.runs.store import Run
from tui.session.lifecycle import Lifecycle
from tui.snapshot import Phase


@frozen(kw_only=False)
class Moment:
    """One fact when it became known. `at` never falls; `log_bytes`: how far the log had been read then."""

    at: float
    fact: Fact
    log_bytes: int = 0


@frozen(kw_only=False)
class Landmark:
    """A place to jump to. `kind`: "phase", "mark" or "crash"; `index` counts the moments before it."""

    at: float
    index: int
    kind: str
    name: str


def facts_of(run: Run) -> Iterator[Fact]:
    """Every fact of a run in the order it became known. Raises RecordingError."""
    return (moment.fact for moment in moments(run))


def moments(run: Run) -> Iterator[Moment]:
    """`facts_of` with the times. Raises RecordingError."""
    at = 0.0
    for moment in _moments(run):
        at = max(at, moment.at)
        yield moment if moment.at == at else Moment(at, moment.fact, moment.log_bytes)


def landmarks(stream: Iterable[Moment]) -> tuple[Landmark, ...]:
    """Where phases begin, marks stand and the server fell, in order."""
    life = Lifecycle()
    found: list[Landmark] = []
    phase, marks = Phase.NONE, 0
    for index, moment in enumerate(stream, 1):
        life.apply(moment.fact)
        if life.phase is not phase:
            phase = life.phase
            found.append(Landmark(moment.at, index, "phase", phase.value))
        if len(life.marks) > marks:
            found.append(Landmark(moment.at, index, "mark", life.marks[-1].text))
        marks = len(life.marks)
        if isinstance(moment.fact, Traceback) or (isinstance(moment.fact, Exited) and life.state.value == "failed"):
            name = type(moment.fact).__name__.lower()
            found.append(Landmark(moment.at, index, "crash", name))
    return tuple(found)


def _moments(run: Run) -> Iterator[Moment]:
    log = LogReader(run.log) if recording.log_is_beside(run.path) else None
    heard: set[str] = set()
    launched = ended = False
    last = run.started_at or 0.0
    for line in recording.read(run.path):
        entry = line.entry
        if isinstance(entry, LogEnds):
            if log is not None:
                yield from (Moment(last, fact, log.bytes) for fact in log.settle())
        elif entry is not None:
            last = entry.at
            if isinstance(entry, LogFact) and log is not None:  # of a line that was not finished then
                yield from (Moment(last, fact, log.bytes) for fact in log.until(entry.line - 1, last))
            if isinstance(entry, LogTail) and log is not None:
                yield from (Moment(last, fact, log.bytes) for fact in log.until(entry.lines, last))
                if entry.reset is not None:
                    yield from (Moment(last, fact, log.bytes) for fact in log.finish(last))
            launched = launched or isinstance(entry, Launched)
            ended = ended or isinstance(entry, Exited)
            if isinstance(entry, JOURNAL):
                heard.add(dump_fact(entry))
            yield Moment(last, entry, log.bytes if log is not None else 0)
    journal = [fact for fact in _journal(run) if dump_fact(fact) not in heard]
    if not launched and not any(isinstance(fact, Launched) for fact in journal):
        journal.insert(0, _launched(run))
    if run.exited is not None and not ended and not any(isinstance(fact, Exited) for fact in journal):
        journal.append(run.exited)
    yield from _unwatched(journal, log, last)


def _unwatched(journal: list[Fact], log: LogReader | None, last: float) -> Iterator[Moment]:
    """Log lines have whole seconds, so the launch goes before them and the end after them, whatever the clocks say."""
    end = [fact for fact in journal if isinstance(fact, Exited)]
    begin = [fact for fact in journal if isinstance(fact, Launched)]
    between = [fact for fact in journal if not isinstance(fact, Exited | Launched)]
    yield from (Moment(fact.at, fact) for fact in begin)
    last = max([last, *(fact.at for fact in begin)])
    first_line = log.lines if log is not None else 0
    told = last
    while log is not None and (facts := log.next(last)) is not None:
        for fact in facts:
            while between and between[0].at <= fact.at:
                yield Moment(between[0].at, between.pop(0), log.bytes)
            yield Moment(fact.at, fact, log.bytes)
            last = max(last, fact.at)
        if last > told:
            told = last
            yield Moment(last, LogTail(at=last, lines=log.lines, bytes=log.bytes), log.bytes)
    yield from (Moment(fact.at, fact, log.bytes if log else 0) for fact in between)
    if log is None:
        yield from (Moment(fact.at, fact) for fact in end)
        return
    if log.lines > first_line:
        yield Moment(last, LogTail(at=last, lines=log.lines, bytes=log.bytes), log.bytes)
    if end:
        yield from (Moment(last, fact, log.bytes) for fact in log.finish(last))
    yield from (Moment(fact.at, fact, log.bytes) for fact in end)


def _journal(run: Run) -> list[Fact]:
    """What the keeper wrote; lines that a full disk cut are left out."""
    facts: list[Fact] = []
    try:
        text = run.control.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return facts
    for line in text.split("\n"):
        try:
            fact = load_fact(line) if line else None
        except FactLineError:
            continue
        if fact is not None:
            facts.append(fact)
    return facts


def _launched(run: Run) -> Launched:
    """Of a run whose keeper could not write its journal."""
    return Launched(
        at=run.started_at or 0.0,
        run=run.name,
        profile=run.profile,
        command=run.command,
        knobs=run.knobs,
        env=run.env,
        server=run.server,
        keeper=run.keeper,
        url=run.url,
        sglang_version=run.sglang_version,
        rehearsal=run.rehearsal,
    )
