"""KV token slots, request slots, recurrent state and sliding-window slots (sglang-facts 1.5, 1.7)."""

from tui.facts import Fix, Verdict
from tui.sglang.diagnosis.case import Case, Incident
from tui.sglang.diagnosis.equation import equation
from tui.sglang.diagnosis.fixes import raise_fraction
from tui.sglang.diagnosis.making import Recogniser, verdict, whole
from tui.wording import count

_RUNTIME = ("kv-oom-prefill", "kv-oom-decode", "kv-oom", "req-slots-exhausted")
_START = ("pool-too-small", "no-request-slots")


def kv_runtime(incident: Incident, case: Case) -> Verdict | None:
    """SGLang's own allocator had no slots: these are KV tokens or request rows, not GPU memory."""
    problem = incident.first(*_RUNTIME)
    if problem is None:
        return None
    rows = problem.code == "req-slots-exhausted"
    what = "request slots" if rows else "KV token slots"
    tokens = next((p.numbers["tokens"] for p in incident.problems if "tokens" in p.numbers), None)
    numbers = {} if tokens is None else {"wanted_tokens": tokens}
    if case.max_total_num_tokens is not None:
        numbers["max_total_num_tokens"] = float(case.max_total_num_tokens)
    return verdict(
        "kv-exhausted",
        incident,
        *_RUNTIME,
        title=f"The pool ran out of {what}",
        why="This is SGLang's pool of slots, not the GPU's memory: fewer requests at once, a larger pool or a smaller "
        "page size help; lowering the fraction would shrink the pool.",
        numbers=numbers,
        fixes=(_fewer_requests(case), _conservative(case)),
    )


def kv_start(incident: Incident, case: Case) -> Verdict | None:
    """The pool came out too small to begin with."""
    if not incident.codes & set(_START):
        return None
    tokens = case.max_total_num_tokens
    cap = whole(case.value("max-total-tokens"))
    lever = _higher_cap(case, cap) if cap is not None else raise_fraction(case, equation(case))
    return verdict(
        "kv-exhausted",
        incident,
        *_START,
        title="The KV pool is too small to serve a request",
        why="The pool holds too few tokens: "
        + (f"--max-total-tokens {cap} caps it." if cap else "raise the fraction."),
        numbers={} if tokens is None else {"max_total_num_tokens": float(tokens)},
        fixes=(lever,),
    )


def warm_up_too_long(incident: Incident, case: Case) -> Verdict | None:
    """The warm-up request itself did not fit: the server cannot become ready."""
    if "input-too-long" not in incident.codes or "warmup-failed" not in incident.codes:
        return None
    said = incident.first("input-too-long")
    numbers = dict(said.numbers) if said else {}
    cap = whole(case.value("max-total-tokens"))
    pool = case.max_total_num_tokens
    if pool is not None:
        numbers["max_total_num_tokens"] = float(pool)
    why = (
        f"The warm-up request of {count(numbers['tokens'])} tokens is longer" if "tokens" in numbers else "It is longer"
    )
    why += f" than the {count(numbers['allowed'])} tokens that one request may have" if "allowed" in numbers else ""
    why += f"; the pool holds {count(pool)} tokens." if pool is not None else "."
    if cap is not None and (pool is None or pool >= cap // 2):
        why += f" --max-total-tokens {cap} caps the pool."
        lever: Fix | None = _higher_cap(case, cap)
    else:
        context = whole(case.value("context-length"))
        short = context is not None and pool is not None and context < pool
        lever = (
            Fix(knob="context-length", old=context, new=None, why="the model's own context length")
            if short
            else raise_fraction(case, equation(case))
        )
    return verdict(
        "kv-exhausted",
        incident,
        "input-too-long",
        title="One request does not fit into the KV pool",
        why=why,
        numbers=numbers,
        fixes=(lever,),
    )


def pool_leak(incident: Incident, case: Case) -> Verdict | None:
    """SGLang checks its own bookkeeping when idle."""
    if "pool-leak" not in incident.codes:
        return None
    return verdict(
        "pool-accounting",
        incident,
        "pool-leak",
        title="SGLang's bookkeeping of its memory pool does not add up",
        why="The idle self-check counted more or fewer slots than the pool has. This is a bug of SGLang, not a "
        "matter of "
        "sizes: another version, or another page size, is what helps. A 'Killed' after it is SGLang ending its "
        "own tree.",
    )


def state(incident: Incident, case: Case) -> Verdict | None:
    """Recurrent (mamba, linear attention) state."""
    problem = incident.first("state-no-memory", "state-too-small", "state-slots-exhausted")
    if problem is None:
        return None
    if problem.numbers.get("rest_gib", 1.0) <= 0:
        eq = equation(case)
        return verdict(
            "weights-over-budget",
            incident,
            problem.code,
            title="The weights leave no memory for state and KV under the fraction",
            why=f"{problem.numbers['rest_gib']:.2f} GiB is left for recurrent state and KV together. Raise the "
            "fraction.",
            numbers=eq.numbers(eq.higher()) | dict(problem.numbers),
            fixes=(raise_fraction(case, eq),),
        )
    return verdict(
        "state-exhausted",
        incident,
        problem.code,
        title="The recurrent-state slots ran out",
        why="Linear-attention layers keep one state per request, in a pool of its own that is taken out of the "
        "KV budget. "
        "Raise its share or size, halve the state's type, or let fewer requests run.",
        numbers=dict(problem.numbers),
        fixes=(_state_share(case), _fewer_requests(case)),
    )


def sliding_window(incident: Incident, case: Case) -> Verdict | None:
    """The sliding-window pool is too small."""
    if "swa-too-small" not in incident.codes:
        return None
    said = incident.first("swa-too-small")
    ratio = case.value("swa-full-tokens-ratio")
    new = 1.0 if not isinstance(ratio, int | float) or ratio >= 0.5 else round(float(ratio) * 2, 2)
    fix = None
    if not isinstance(ratio, int | float) or ratio < 1:
        fix = Fix(
            knob="swa-full-tokens-ratio",
            old=case.old("swa-full-tokens-ratio"),
            new=new,
            why="a larger share of the budget for the sliding-window layers",
        )
    return verdict(
        "state-exhausted",
        incident,
        "swa-too-small",
        title="The sliding-window pool cannot hold one request",
        why="The budget is divided between full-attention and sliding-window layers; raise the latter's share, or the "
        "fraction.",
        numbers=dict(said.numbers) if said else {},
        fixes=(fix, raise_fraction(case, equation(case))),
    )


def _fewer_requests(case: Case) -> Fix | None:
    slots = whole(case.value("max-running-requests")) or case.max_running_requests
    if slots is None or slots < 2:
        return None
    knob = "max-running-requests"
    return Fix(knob=knob, old=case.old(knob), new=max(1, slots // 2), why="half as many requests share the pool")


def _conservative(case: Case) -> Fix:
    knob = "schedule-conservativeness"
    value = case.value(knob)
    now = float(value) if isinstance(value, int | float) and value > 0 else 1.0
    return Fix(knob=knob, old=case.old(knob), new=round(now + 0.3, 2), why="new requests are let in more slowly")


def _higher_cap(case: Case, cap: int | None) -> Fix:
    context = whole(case.value("context-length")) or 8192
    new = max(8192, min(context, 65536), 2 * (cap or 0))
    return Fix(knob="max-total-tokens", old=case.old("max-total-tokens"), new=new, why="the pool holds whole requests")


def _state_share(case: Case) -> Fix | None:
    size = whole(case.value("max-mamba-cache-size"))
    if case.knobs is not None and "max-mamba-cache-size" in case.knobs and size is not None:
        return Fix(knob="max-mamba-cache-size", old=size, new=2 * size, why="twice as many state slots")
    knob = "mamba-full-memory-ratio"
    value = case.value(knob)
    now = float(value) if isinstance(value, int | float) and value > 0 else 0.9
    return Fix(knob=knob, old=case.old(knob), new=round(now * 2, 2), why="state gets a larger share of the KV budget")


RECOGNISERS: tuple[Recogniser, ...] = (state, sliding_window, kv_runtime, kv_start, warm_up_too_long, pool_leak)
