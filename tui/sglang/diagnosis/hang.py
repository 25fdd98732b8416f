"""The server stands still: watchdogs, and a scheduler that is dead behind a port that answers."""

from tui.facts import Evidence, Verdict
from tui.sglang.diagnosis.case import Case, Incident, When, shorten
from tui.sglang.diagnosis.making import LIKELY, Recogniser, verdict

_ENOUGH = 2  # one failed health check may be a long prefill


def watchdog(incident: Incident, case: Case) -> Verdict | None:
    """SGLang's own watchdog."""
    problem = incident.first("watchdog-timeout")
    if problem is None:
        return None
    seconds = problem.numbers.get("watchdog_timeout_s")
    after = f" for {seconds:g} s" if seconds is not None else ""
    return verdict(
        "hang",
        incident,
        "watchdog-timeout",
        title=f"A forward pass did not come back{after}",
        why="A rank stood still, so the watchdog ended the server. The stack dumps just above say what each rank was "
        "doing: the one that is not waiting in a collective is the culprit. A first kernel compilation that takes long "
        "looks the same; --watchdog-timeout gives it more time.",
        numbers=dict(problem.numbers),
    )


def silent_scheduler(case: Case) -> Verdict | None:
    """Health checks fail and no batch has come since: the scheduler behind the port is dead or stuck."""
    failed = [p for incident in case.incidents for p in incident.problems if p.code == "health-check-failed"]
    forced = case.forced_stop
    if len(failed) < _ENOUGH and forced is None:
        return None
    evidence = [Evidence(line=p.line, text=shorten(p.text)) for p in failed[:2]]
    if forced is not None:
        evidence.append(Evidence(line=forced[0], text=shorten(forced[1])))
    first = failed[0] if failed else None
    incident = Incident(
        line=first.line if first else evidence[0].line,
        last_line=evidence[-1].line,
        rank=None,
        problems=tuple(failed[:2]),
        trace=None,
        when=When.SERVING,
    )
    return verdict(
        "hang",
        incident,
        title="A scheduler is dead or stuck behind a port that still answers",
        why="Health checks fail and no batch has been logged since. Look whether every sglang::scheduler process still "
        "lives (`ps`, a zombie counts as dead) and at `dmesg -T` for the one that does not; only a restart helps.",
        confidence=LIKELY,
        numbers={"failed_health_checks": float(len(failed))},
        evidence=evidence,
    )


RECOGNISERS: tuple[Recogniser, ...] = (watchdog,)
