"""Reads a log, or a run's, through grammar, ledger and doctor."""

import os

from tui.commands.doctor_read import LogReader
from tui.facts import DecodeBatch, Exited, Fact, Launched, LogFact, Verdict, VersionHint
from tui.frozen import frozen
from tui.runs.store import Run, RunNotFoundError, RunStore
from tui.session.lifecycle import Lifecycle
from tui.session.versions import VersionFold
from tui.sglang.diagnosis import Doctor
from tui.sglang.grammar import LogGrammar
from tui.sglang.ledger import Ledger, RankLedger
from tui.snapshot import ENDED, Phase, State

# What does not end a server by itself.
_STANDING = frozenset(("hang", "low-acceptance"))


@frozen
class Report:
    """What `doctor` found. `phase`: how far the last start came; `note`: what could not be read."""

    name: str
    lines: int
    sglang_version: str | None
    version_note: str
    state: State
    phase: Phase
    verdict: Verdict | None
    ranks: tuple[RankLedger, ...]
    note: str = ""


class _Examination:
    """Every fold that the report is made of."""

    def __init__(self) -> None:
        self.doctor, self.ledger, self.life, self.version = Doctor(), Ledger(), Lifecycle(), VersionFold()
        self.phase = Phase.NONE
        self.known = False

    @property
    def sglang_version(self) -> str | None:
        """Told by the launch, or by a log that names it."""
        case = self.doctor.case()
        if self.version.version is None and case.version_least is not None and case.version_least == case.version_most:
            return str(case.version_least)
        return self.version.version

    def apply(self, fact: Fact) -> None:
        self.doctor.apply(fact)
        self.ledger.apply(fact)
        self.life.apply(fact)
        if isinstance(fact, VersionHint):
            self.version.hint(fact)
        elif isinstance(fact, Launched):
            self.version.launched(fact)
        elif isinstance(fact, DecodeBatch):
            self.life.serving_line(fact.at)
        if isinstance(fact, LogFact):
            self.known = True
        if self.life.phase not in (Phase.STOPPING, Phase.ENDED):
            self.phase = self.life.phase


def examine(name: str) -> Report:
    """The report on a log file, standard input ("-") or a run. Raises SpecdeckError."""
    run = None if name == "-" or os.path.lexists(name) else _run(name)
    reader = LogReader(str(run.log) if run is not None else name)
    grammar, found = LogGrammar(), _Examination()
    if run is not None:
        found.apply(_launched(run))
    for number, text in reader.read():
        for fact in grammar.feed(number, text, reader.modified_at):
            found.apply(fact)
    for fact in grammar.finish(reader.modified_at):
        found.apply(fact)
    if run is not None and run.exited is not None:
        found.apply(run.exited)
    verdict = found.doctor.conclude()
    if verdict is None and not found.known:
        verdict = _nothing(reader.lines)
    return Report(
        name=run.name if run is not None else name,
        lines=reader.lines,
        sglang_version=found.sglang_version,
        version_note=found.version.note(),
        state=_state(found.life.state, verdict, run.exited if run is not None else None, found.doctor.serves),
        phase=found.phase,
        verdict=verdict,
        ranks=found.ledger.ranks(),
        note=reader.note,
    )


def _run(name: str) -> Run:
    try:
        return RunStore().find(name)
    except RunNotFoundError as error:
        raise RunNotFoundError(f"There is no file {name!r}, and no such run: {error}") from None


def _launched(run: Run) -> Launched:
    return Launched(
        at=run.started_at or 0.0,
        run=run.name,
        profile=run.profile,
        command=run.command,
        knobs=run.knobs,
        url=run.url,
        sglang_version=run.sglang_version,
        rehearsal=run.rehearsal,
    )


def _state(state: State, verdict: Verdict | None, exited: Exited | None, serves: bool) -> State:
    """A log alone may hold a failure that no line calls an end."""
    if verdict is None or exited is not None or state in ENDED or verdict.kind in _STANDING or serves:
        return state
    return State.FAILED


def _nothing(lines: int) -> Verdict:
    what = "The log is empty" if lines == 0 else "No line of this log is SGLang's"
    return Verdict(
        kind="unknown",
        title=what,
        why="Give the log that the server writes to its standard output and standard error, both.",
        confidence="unknown",
    )
