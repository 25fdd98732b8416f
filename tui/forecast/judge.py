"""Will it start with this fraction? The worst and the best case must agree, or it cannot be told."""

from tui.forecast.amounts import high, low
from tui.forecast.situation import Outlook, Situation, used_gpus
from tui.frozen import frozen
from tui.sglang.budget import PoolBudget, first_working_fraction, floor_fraction
from tui.snapshot import Amount
from tui.wording import count

_BALANCE = 0.9  # SGLang refuses when one GPU has less than this share of another's free memory


@frozen
class Judgement:
    """`pool`: the likely one. `needs`: of the slack. `kind` and `text` as in a verdict.

    `placed`: the ranks can be put on the GPUs as they are; if not, no fraction matters.
    """

    fits: bool | None
    kind: str
    text: str
    pool: PoolBudget
    needs: Amount
    tokens_low: int
    tokens_high: int
    placed: bool = True


def judge(situation: Situation, fraction: float) -> Judgement | None:
    """The verdict on one fraction; None while a number of the equation is not known."""
    likely = situation.pool(fraction)
    worst, best = situation.pool(fraction, Outlook.WORST), situation.pool(fraction, Outlook.BEST)
    if likely is None or best is None:
        return None
    needs = situation.needs(likely)
    misplaced = _too_few_gpus(situation) or _unequal(situation)
    fits, kind, text = (
        misplaced
        or _over_budget(situation, fraction, likely, worst, best)
        or _slack(situation, likely, needs)
        or (True, "none", _fits_text(likely))
    )
    return Judgement(
        fits=fits,
        kind=kind,
        text=text,
        pool=likely,
        needs=needs,
        tokens_low=max(0, worst.tokens) if worst and worst.fits else 0,
        tokens_high=max(0, best.tokens) if best.fits else 0,
        placed=misplaced is None,
    )


Answer = tuple[bool | None, str, str]


def _too_few_gpus(situation: Situation) -> Answer | None:
    have = len(situation.machine.visible_gpus())
    if situation.machine.device == "cpu" or not situation.machine.gpus or situation.ranks <= have:
        return None
    knobs = situation.knobs
    sizes = f"tp {knobs.tp}" + (f" x pp {knobs.pp}" if knobs.pp > 1 else "")
    if situation.ranks > knobs.tp * knobs.pp:
        sizes += f" x dp {situation.ranks // (knobs.tp * knobs.pp)}"
    text = f"Will not start: {sizes} needs {situation.ranks} GPUs and there {'is' if have == 1 else 'are'} {have}."
    return False, "does-not-fit", text


def _unequal(situation: Situation) -> Answer | None:
    """ModelRunner.init_torch_distributed: one GPU far below another is refused with tp > 1."""
    gpus = used_gpus(situation.machine, situation.ranks)
    known = [(gpu.free_gib_now, gpu.index) for gpu in gpus if gpu.free_gib_now is not None]
    if situation.knobs.tp <= 1 or len(known) < 2 or situation.machine.device == "cpu":
        return None
    (least, index), (most, _) = min(known), max(known)
    if least >= _BALANCE * most:
        return None
    text = (
        f"Will not start: GPU {index} has {least:.2f} GiB free and another {most:.2f}, and SGLang refuses less than "
        "90 %: free that GPU first."
    )
    return False, "gpu-shared", text


def _over_budget(
    situation: Situation, fraction: float, likely: PoolBudget, worst: PoolBudget | None, best: PoolBudget
) -> Answer | None:
    if likely.state is not None and not likely.state.fits and likely.rest_gib > 0:
        text = f"Will not start: the {likely.rest_gib:.2f} GiB behind the weights hold no recurrent state of a request."
        return False, "state-exhausted", text
    if best.fits and worst is not None and worst.fits:
        return None
    floor, first = floor_of(situation), first_of(situation)
    if best.fits:
        text = (
            f"Cannot tell: {likely.rest_gib:+.2f} GiB are left for KV at {fraction:.4g}, and the sizes behind it are "
            f"estimates; the floor is about {floor:.4f}."
        )
        return None, "unknown", text
    if first is None or _no_room(situation):
        return False, "does-not-fit", "Will not start with any fraction: " + _too_large(situation)
    text = (
        f"Will not start: the weights leave {likely.rest_gib:+.2f} GiB for KV at {fraction:.4g}; "
        f"the floor is {floor:.4f}, the first fraction that starts {first:.3f}."
    )
    return False, "weights-over-budget", text


def floor_of(situation: Situation) -> float | None:
    """1 - A/P, the fraction that leaves nothing for KV."""
    available, before = situation.available_gib(Outlook.LIKELY), situation.free_before.gib
    if available is None or before is None or before <= 0:
        return None
    return floor_fraction(before, available, situation.reservation_gib)


def first_of(situation: Situation, outlook: Outlook = Outlook.LIKELY) -> float | None:
    """The smallest fraction of 3 digits that starts."""
    inputs = situation.inputs(0.5, outlook)
    return None if inputs is None else first_working_fraction(inputs)


def _no_room(situation: Situation) -> bool:
    """Whether even the least that has to fit beside the weights does not."""
    first = first_of(situation, Outlook.BEST)
    pool = None if first is None else situation.pool(first, Outlook.BEST)
    return pool is None or pool.slack_gib < (low(situation.needs(pool)) or 0.0)


def _too_large(situation: Situation) -> str:
    before, base = situation.free_before.gib or 0.0, situation.base.gib or 0.0
    left = before - base
    if left <= 0:
        return f"the weights take {base:.2f} GiB of the {before:.2f} GiB free on each GPU."
    return f"the weights leave {left:.2f} GiB of {before:.2f}, too little for graphs, activations and a KV cache."


def _slack(situation: Situation, pool: PoolBudget, needs: Amount) -> Answer | None:
    """What lives in the slack, in the order in which it is taken: the first that does not fit is named."""
    slack, least, likely = pool.slack_gib, low(needs) or 0.0, needs.gib or 0.0
    if slack >= likely:
        return None
    kind, what = _first_to_fail(situation, pool)
    room = f"the slack is {slack:.2f} GiB, and {what} need about {likely:.2f} GiB (at least {least:.2f})"
    if slack < least:
        if _no_room(situation):
            return False, "does-not-fit", "Will not start with any fraction: " + _too_large(situation)
        return False, kind, f"Will run out of memory: {room}; lower the fraction."
    return None, kind, f"Cannot tell: {room}; a lower fraction leaves more."


def _first_to_fail(situation: Situation, pool: PoolBudget) -> tuple[str, str]:
    early = (situation.cost.graphs.gib or 0.0) + situation.request_table_gib(pool)
    if pool.slack_gib < early:
        return "capture-oom", "graphs, request table and activations"
    if situation.has_draft and not situation.draft_counted:
        drafted = early + (situation.cost.draft_net.gib or 0.0) + (situation.draft_kv(pool).gib or 0.0)
        if pool.slack_gib < drafted:
            return "draft-oom", "graphs, draft and activations"
        return "runtime-oom", "graphs, draft and activations"
    return "runtime-oom", "graphs and activations"


def _fits_text(pool: PoolBudget) -> str:
    return (
        f"Fits: {pool.kv_budget_gib:.2f} GiB of KV for {count(pool.tokens)} tokens, "
        f"and {pool.slack_gib:.2f} GiB of slack."
    )


def interval_of(amount: Amount) -> tuple[float, float] | None:
    """(least, most), None when the amount is exact or not known."""
    least, most = low(amount), high(amount)
    return None if least is None or most is None or least == most else (least, most)
