"""The pool could not be sized: the weights are over the budget, or nothing fits (sglang-facts 1.7, 1.8)."""

from dataclasses import replace

from tui.facts import Evidence, Fix, Verdict
from tui.sglang.diagnosis.case import Case, Incident
from tui.sglang.diagnosis.equation import Equation, equation
from tui.sglang.diagnosis.fixes import raise_fraction
from tui.sglang.diagnosis.making import GIB, LIKELY, Recogniser, gib, verdict, whole
from tui.wording import count

_REFUSED = ("budget-refused", "not-enough-memory", "profiled-negative")
_UNDECIDED_GIB = 0.1  # P in the log is another moment's than SGLang's own


def over_budget(incident: Incident, case: Case) -> Verdict | None:
    """SGLang found no room for KV under the fraction."""
    said = [problem for problem in incident.problems if problem.code in _REFUSED]
    if not said:
        return None
    numbers: dict[str, float] = {}
    for other in case.incidents:
        for part in other.problems:
            if part.code in _REFUSED:
                numbers = {**part.numbers, **numbers}
    for problem in said:
        numbers = {**numbers, **problem.numbers}
    eq = equation(case, floor=numbers.get("floor"), fraction=numbers.get("fraction"))
    eq = _fraction_in_force(eq, numbers, given="fraction" in numbers)
    if eq.hopeless or numbers.get("advised", 0.0) >= 1.0:
        return _hopeless(incident, case, eq)
    capped = _cap_is_empty(incident, case, eq)
    return capped if capped is not None else _raise(incident, case, eq, numbers)


def _fraction_in_force(eq: Equation, numbers: dict[str, float], given: bool) -> Equation:
    """A negative profile times the cell says which fraction SGLang really used, whatever was typed."""
    profiled = numbers.get("profiled")
    if given or profiled is None or profiled >= 0 or eq.cell is None or eq.before is None or eq.left is None:
        return eq
    rest = profiled * eq.cell / GIB
    return replace(eq, fraction=round(1 - (eq.left - rest) / eq.before, 3))


def _raise(incident: Incident, case: Case, eq: Equation, numbers: dict[str, float]) -> Verdict:
    found = eq.numbers(eq.higher())
    found |= {name: numbers[name] for name in ("profiled", "max_total_tokens") if name in numbers}
    under = f" of {eq.fraction:g}" if eq.fraction is not None else ""
    parts = []
    if eq.before is not None and eq.left is not None:
        parts.append(f"Of {gib(eq.before)} free before the weights {gib(eq.left)} is left after them.")
    if eq.floor is not None:
        parts.append(f"The fraction has to be above {eq.floor:.4f} (1 - left/free).")
    kv = eq.kv_gib(eq.fraction) if eq.fraction is not None else None
    if kv is not None and kv < 0:
        parts.append(f"With {eq.fraction:g} KV gets {kv:.2f} GiB.")
    if "profiled" in numbers:
        parts.append(f"SGLang profiled {count(numbers['profiled'])} tokens: less than none.")
    parts.append("Lowering the fraction makes it worse." + _draft_note(case))
    if eq.floor is None:
        parts.append("The log lacks the lines of the weights, so the floor is not known.")
    return verdict(
        "weights-over-budget",
        incident,
        *_REFUSED,
        title=f"The weights leave no memory for KV under the fraction{under}",
        why=" ".join(parts),
        numbers=found,
        fixes=(raise_fraction(case, eq),),
        evidence=_weights_line(case),
    )


def _draft_note(case: Case) -> str:
    if case.speculative in (None, "NGRAM"):
        return ""
    if case.at_least(0, 5, 14):
        return " The draft's weights are counted too."
    if case.at_least(0, 5, 14) is False:
        return " The draft is loaded after the pool and comes out of the slack."
    return ""


def _hopeless(incident: Incident, case: Case, eq: Equation) -> Verdict:
    left = f"{gib(max(0.0, eq.left))} is left after the weights" if eq.left is not None else "The weights fill the GPU"
    before = f" of {gib(eq.before)}" if eq.before is not None else ""
    return verdict(
        "does-not-fit",
        incident,
        *_REFUSED,
        title="The weights fill the GPU: no fraction works",
        why=f"{left}{before}. A fraction above 1 is impossible, so the printed advice to raise it cannot help: "
        "it takes "
        "more or larger GPUs, or a smaller (quantised) checkpoint.",
        numbers=eq.numbers(),
        evidence=_weights_line(case),
    )


def _cap_is_empty(incident: Incident, case: Case, eq: Equation) -> Verdict | None:
    """The budget is there, but the token cap holds less than one page."""
    cap = whole(case.value("max-total-tokens"))
    kv = eq.kv_gib(eq.fraction) if eq.fraction is not None else None
    if cap is None or cap > 1024 or kv is None or kv < _UNDECIDED_GIB or incident.first("budget-refused"):
        return None
    page = whole(case.value("page-size")) or 1
    new = min(eq.tokens(eq.fraction or 0.0) or 8192, 65536)
    return verdict(
        "kv-exhausted",
        incident,
        *_REFUSED,
        title=f"The token cap of {cap} leaves no page of the KV pool",
        why=f"The budget would hold {gib(kv)} of KV, but --max-total-tokens {cap} is less than a page of {page}.",
        confidence=LIKELY,
        numbers=eq.numbers() | {"max_total_tokens": cap},
        fixes=(
            Fix(knob="max-total-tokens", old=case.old("max-total-tokens"), new=max(new, page), why="room for requests"),
        ),
    )


def _weights_line(case: Case) -> tuple[Evidence, ...]:
    tight = min((m for m in case.memory.values() if m.left is not None), key=lambda m: m.left or 0.0, default=None)
    if tight is None or tight.left_line is None:
        return ()
    used = f", mem usage={tight.left_used:.2f} GB" if tight.left_used is not None else ""
    return (Evidence(line=tight.left_line, text=f"Load weight end. avail mem={tight.left:.2f} GB{used}"),)


RECOGNISERS: tuple[Recogniser, ...] = (over_budget,)
