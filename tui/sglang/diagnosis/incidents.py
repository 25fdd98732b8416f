"""Puts problems and the tracebacks they were said in together."""

from collections.abc import Iterable, Sequence

from tui.facts import Problem, Traceback
from tui.sglang.diagnosis.case import Incident, Seen, When

_NEAR = 3  # lines: what one message says in several lines


def group(seen: Sequence[Seen]) -> tuple[Incident, ...]:
    """The incidents in the order of their lines. What came in while the server was being stopped is left out."""
    counted = [item for item in seen if not item.stopping]
    traces = [item for item in counted if isinstance(item.fact, Traceback)]
    inside: dict[int, list[Seen]] = {index: [] for index in range(len(traces))}
    alone: list[Seen] = []
    for item in counted:
        if not isinstance(item.fact, Problem):
            continue
        home = _home(item.fact, traces)
        if home is None:
            alone.append(item)
        else:
            inside[home].append(item)
    found = [_of_trace(item, inside[index]) for index, item in enumerate(traces)]
    found += _of_problems(alone)
    return tuple(sorted(found, key=lambda incident: incident.line))


def _home(problem: Problem, traces: Sequence[Seen]) -> int | None:
    for index, item in enumerate(traces):
        trace = item.fact
        if trace.line <= problem.line <= _last(trace) and trace.rank == problem.rank:
            return index
    return None


def _last(trace: Problem | Traceback) -> int:
    return trace.last_line if isinstance(trace, Traceback) else trace.line


def _of_trace(item: Seen, inside: Iterable[Seen]) -> Incident:
    trace = item.fact
    assert isinstance(trace, Traceback)
    problems = tuple(one.fact for one in inside if isinstance(one.fact, Problem))
    when = next((one.when for one in inside), item.when)
    return Incident(
        line=trace.line, last_line=trace.last_line, rank=trace.rank, problems=problems, trace=trace, when=when
    )


def _of_problems(alone: Sequence[Seen]) -> list[Incident]:
    """Problems of one rank on neighbouring lines, or after its "hit an exception", are one incident."""
    groups: list[list[Seen]] = []
    for item in alone:
        last = groups[-1] if groups else None
        if last is not None and _belongs(item, last):
            last.append(item)
        else:
            groups.append([item])
    return [_of_group(items) for items in groups]


def _belongs(item: Seen, items: Sequence[Seen]) -> bool:
    last, new = items[-1].fact, item.fact
    assert isinstance(last, Problem)
    assert isinstance(new, Problem)
    if last.rank != new.rank:
        return False
    if new.code in ("sigquit", "process-exception", "subprocess-crashed", "shell-killed"):
        return False
    if last.code == "process-exception":
        return new.line - last.line <= 400
    return new.line - last.line <= _NEAR and last.code not in ("sigquit", "subprocess-crashed")


def _of_group(items: Sequence[Seen]) -> Incident:
    problems = tuple(item.fact for item in items if isinstance(item.fact, Problem))
    when = next((item.when for item in items if item.when is not When.UNKNOWN), When.UNKNOWN)
    return Incident(
        line=problems[0].line,
        last_line=problems[-1].line,
        rank=problems[0].rank,
        problems=problems,
        trace=None,
        when=when,
    )
