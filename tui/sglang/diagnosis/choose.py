"""Which of several things that went wrong is the cause (sglang-facts 2.4).

The earliest incident that a recogniser knows wins over what follows from it: SIGQUIT, kill_process_tree, "Killed", exit
137, generic advice, and the noise of peers. What SGLang marks as the end of a process beats what is only raised, and
that beats what is only mentioned.
"""

from collections.abc import Iterable
from dataclasses import replace

from tui.facts import Verdict
from tui.frozen import frozen
from tui.sglang.diagnosis import (
    draft,
    ends,
    flags,
    hang,
    host,
    kernels,
    memory_oom,
    memory_start,
    model,
    network,
    ports,
    slots,
)
from tui.sglang.diagnosis.case import Case, Incident, When
from tui.sglang.diagnosis.making import Recogniser
from tui.sglang.diagnosis.places import CONSEQUENCES, ENDS, NETWORK, WARNINGS

# The first that knows an incident speaks for it.
RECOGNISERS: tuple[Recogniser, ...] = (
    *flags.RECOGNISERS,
    *kernels.TOO_NEW,
    *host.RECOGNISERS,
    *memory_start.RECOGNISERS,
    *slots.RECOGNISERS,
    *memory_oom.RECOGNISERS,
    *ports.RECOGNISERS,
    *draft.RECOGNISERS,
    *model.RECOGNISERS,
    *kernels.RECOGNISERS,
    *hang.RECOGNISERS,
    *model.LAST,
    *flags.LAST,
    *kernels.LAST,
)
_MENTIONED, _RAISED, _MARKED = 1, 2, 3
_NEAR_LINES = 100
_AFTERMATH = frozenset(
    ("EOFError", "SystemExit", "KeyboardInterrupt", "CancelledError", "BrokenPipeError", "ConnectionResetError",
     "asyncio.exceptions.CancelledError", "ConnectionRefusedError", "ProcessLookupError")
)  # fmt: skip


@frozen(kw_only=False)
class _Found:
    strength: int
    incident: Incident
    verdict: Verdict


def choose(case: Case) -> Verdict | None:
    """The verdict on a life; None when nothing is wrong."""
    found = [item for incident in case.incidents if (item := _judge(incident, case)) is not None]
    # A mention counts only where something ended; the server goes on after most warnings.
    sure = [item for item in found if item.strength > _MENTIONED]
    if sure:
        named = any(item.strength == _MARKED or item.verdict.kind != "unknown" for item in sure)
        dead = None if named else _dead(case)
        return dead if dead is not None and "exit_code" in dead.numbers else _pick(sure, case)
    silent = hang.silent_scheduler(case)
    if silent is not None:
        return silent
    return _without_cause(case, found)


def _judge(incident: Incident, case: Case) -> _Found | None:
    if network.is_noise(incident) and not incident.codes - NETWORK - CONSEQUENCES:
        return None
    for recognise in RECOGNISERS:
        verdict = recognise(incident, case)
        if verdict is not None:
            return _Found(_strength(incident), incident, verdict)
    unknown = _unknown_exception(incident, case)
    return _Found(_strength(incident), incident, unknown) if unknown is not None else None


def _strength(incident: Incident) -> int:
    if incident.marked or incident.codes & ENDS:
        return _MARKED
    return _RAISED if incident.raised else _MENTIONED


def _unknown_exception(incident: Incident, case: Case) -> Verdict | None:
    """An exception that ended a process, of which nothing else is known."""
    trace = incident.trace
    said = incident.codes - {"process-exception"}
    if said & (NETWORK | CONSEQUENCES):
        return None
    if trace is None:
        return None
    name = (trace.exception or "").rsplit(".", 1)[-1]
    if name in _AFTERMATH or (trace.exception is None and not incident.marked):
        return None
    # A request's exception in a server that serves ends nothing, unless SGLang says so.
    if not incident.marked and case.ready and not _ended(case):
        return None
    return ends.exception(incident)


def _pick(found: Iterable[_Found], case: Case) -> Verdict:
    items = list(found)
    strongest = max(item.strength for item in items)
    first = min((item for item in items if item.strength == strongest), key=lambda item: item.incident.line)
    return _folded(first, items)


def _folded(first: _Found, items: list[_Found]) -> Verdict:
    """Other ranks' copies of the same error are one error."""
    ranks = {item.incident.rank for item in items if item.verdict.kind == first.verdict.kind}
    ranks.discard(None)
    if len(ranks) < 2:
        return first.verdict
    verdict = first.verdict
    return replace(
        verdict,
        why=f"{verdict.why} {len(ranks)} ranks, same error.",
        numbers={**verdict.numbers, "ranks": float(len(ranks))},
    )


def _ended(case: Case) -> bool:
    exited = case.exited is not None and not case.exited.requested
    return exited or any(incident.codes & CONSEQUENCES - {"health-check-failed"} for incident in case.incidents)


def _without_cause(case: Case, mentioned: list[_Found]) -> Verdict | None:
    """Nothing was raised that is known: a network failure, a bare mention, the exit code, or just the end."""
    for incident in case.incidents:
        trouble = network.network(incident, case)
        if trouble is not None and (incident.raised or _ended(case)):
            return trouble
    if not _ended(case):
        return _still_there(case, mentioned)
    words = [item for item in mentioned if not item.incident.codes <= WARNINGS and _near_the_end(item.incident, case)]
    if words:
        said = words[0].verdict
        return replace(said, confidence="likely") if said.kind != "unknown" else said
    if _killed_while_loading(case):
        return ends.killed_while_loading(next(i for i in case.incidents if "shell-killed" in i.codes))
    dead = _dead(case)
    if dead is not None:
        return dead
    if case.exited is not None and not any(i.codes & CONSEQUENCES for i in case.incidents):
        return None if _clean(case) else ends.exited(case.exited, case)
    noisy = next((incident for incident in case.incidents if network.is_noise(incident)), None)
    if noisy is not None:
        return ends.noise(noisy)
    last = next((i for i in case.incidents if i.codes & CONSEQUENCES - {"health-check-failed"}), None)
    return ends.ended(last) if last is not None else None


def _near_the_end(incident: Incident, case: Case) -> bool:
    """Whether a mere mention came shortly before the end: earlier ones the server survived."""
    ends_at = [i.line for i in case.incidents if i.codes & CONSEQUENCES - {"health-check-failed"}]
    return incident.last_line >= (min(ends_at) if ends_at else case.last_line) - _NEAR_LINES


def _killed_while_loading(case: Case) -> bool:
    """Only the shell's "Killed", and nothing of SGLang's that would have done it."""
    said = frozenset(code for incident in case.incidents for code in incident.codes)
    moments = {incident.when for incident in case.incidents}
    return said <= {"shell-killed", *WARNINGS} and "shell-killed" in said and moments <= {When.LOAD, When.DRAFT_LOAD}


def _dead(case: Case) -> Verdict | None:
    """The first process that vanished; an "Exit code:" line of its own follows it."""
    deaths = [
        i for i in case.incidents if i.codes & {"rank-died", "rank-dead", "subprocess-crashed", "process-terminated"}
    ]
    if not deaths:
        return None
    first = deaths[0]
    codes = [p for i in case.incidents for p in i.problems if p.code == "exit-code" and p.line >= first.line]
    if codes and not any("exit_code" in problem.numbers for problem in first.problems):
        first = replace(first, problems=(*first.problems, codes[0]))
    return ends.death(first, case)


def _still_there(case: Case, mentioned: list[_Found]) -> Verdict | None:
    """Nothing says that the server ended: only what is worth a verdict by itself."""
    leak = next((item for item in mentioned if item.verdict.kind == "pool-accounting"), None)
    if leak is not None:
        return replace(leak.verdict, confidence="likely")
    noisy = next((i for i in case.incidents if network.is_noise(i) and i.raised and i.marked), None)
    return ends.noise(noisy) if noisy is not None else None


def _clean(case: Case) -> bool:
    exited = case.exited
    return exited is None or exited.requested or (exited.code == 0 and case.ready)
