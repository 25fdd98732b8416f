"""Changes of knobs that several recognisers propose, under the names of the SGLang at hand."""

from tui.facts import Fix
from tui.sglang.diagnosis.case import Case
from tui.sglang.diagnosis.equation import Equation
from tui.sglang.diagnosis.making import whole
from tui.wording import count

FRACTION = "mem-fraction-static"
_CHUNK = "chunked-prefill-size"
_CAP = "max-total-tokens"


def raise_fraction(case: Case, eq: Equation) -> Fix | None:
    """Above the floor, with room on both sides."""
    new = eq.higher()
    if new is None or eq.floor is None:
        return None
    leaves = eq.leaves(new)
    room = f": it leaves {leaves}" if leaves else ""
    return Fix(
        knob=FRACTION,
        old=case.old(FRACTION),
        new=new,
        why=f"{new - eq.floor:.3f} above the floor of {eq.floor:.4f}{room}",
    )


def lower_fraction(case: Case, eq: Equation, missing_gib: float) -> Fix | None:
    """Below the present fraction, above the floor; None when nothing there works or is known."""
    new = eq.lower(missing_gib)
    if new is None or eq.fraction is None or eq.before is None:
        return None
    freed = (eq.fraction - new) * eq.before
    leaves = eq.leaves(new)
    room = f", and leaves {leaves}" if leaves else ""
    return Fix(knob=FRACTION, old=case.old(FRACTION), new=new, why=f"it frees {freed:.2f} GiB{room}")


def graph_knob(case: Case, phase: str = "decode") -> str:
    """The flag that limits the graphs: it got another name in 0.5.14, and the old one went in 0.5.20."""
    if phase == "prefill":
        return "cuda-graph-max-bs-prefill"
    new = case.at_least(0, 5, 14)
    old_given = case.knobs is not None and "cuda-graph-max-bs" in case.knobs
    if new is None:
        new = not old_given and "cuda_graph_max_bs" not in case.args
    if new and old_given and case.at_least(0, 5, 20) is not True:
        new = False  # 0.5.14 - 0.5.19 take both names, and the operator's is kept
    return "cuda-graph-max-bs-decode" if new else "cuda-graph-max-bs"


def graph_limit(case: Case, phase: str = "decode") -> int | None:
    """The largest batch (decode) or number of tokens (prefill) that is captured."""
    knob = graph_knob(case, phase)
    found = whole(case.value(knob, "cuda-graph-max-bs") if phase == "decode" else case.value(knob))
    if found is not None:
        return found
    config = case.args.get("cuda_graph_config")
    part = config.get(phase) if isinstance(config, dict) else None
    return whole(part.get("max_bs")) if isinstance(part, dict) else None


def smaller_graphs(case: Case, phase: str = "decode") -> Fix | None:
    """Half the largest graph; None when there is nothing to halve or it is not known."""
    limit = graph_limit(case, phase)
    if limit is None or limit < 2:
        return None
    knob = graph_knob(case, phase)
    new = limit // 2
    slots = case.max_running_requests
    if phase == "decode" and slots is not None and slots < new:
        new = max(1, slots // 2)
    what = "batches" if phase == "decode" else "prefills"
    return Fix(knob=knob, old=case.old(knob), new=new, why=f"fewer and smaller graphs; larger {what} run without one")


def smaller_chunk(case: Case) -> Fix | None:
    """Half the prefill chunk, not below 1024 tokens."""
    chunk = whole(case.value(_CHUNK))
    if chunk is None or chunk < 2048:
        return None
    return Fix(
        knob=_CHUNK,
        old=case.old(_CHUNK),
        new=chunk // 2,
        why=f"a prefill step needs about half the working memory it needs with {chunk} tokens",
    )


def capped_tokens(case: Case) -> int | None:
    """The token cap, when it is what decided the size of the pool."""
    cap = whole(case.value(_CAP))
    pools = [m.kv_tokens for m in case.memory.values() if m.kv_tokens is not None]
    if cap is None or cap <= 0:
        return None
    if pools:
        return cap if max(pools) >= 0.98 * cap else None
    return cap


def lower_cap(case: Case, eq: Equation, missing_gib: float) -> Fix | None:
    """A smaller token cap, when the cap and not the fraction decides the pool."""
    cap = capped_tokens(case)
    if cap is None:
        return None
    spare = missing_gib + max(1.0, 0.01 * (eq.before or 0.0))
    fewer = int(spare * 2**30 / eq.cell) if eq.cell else cap // 5
    new = max(cap - fewer, cap // 2)
    new -= new % 64
    if new <= 0 or new >= cap:
        return None
    return Fix(
        knob=_CAP,
        old=case.old(_CAP),
        new=new,
        why=f"the cap decides the pool, not the fraction: {count(cap - new)} tokens less free the room",
    )
