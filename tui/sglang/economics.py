"""Does speculation pay? Step times, the accept length at which it breaks even, and where it turns over. Pure.

A speculative step of a batch of B requests gives B·L tokens in T_s (L: accept length, the bonus token included), a
plain step gives B tokens in T_0. So T_s = B·L / tok/s, T_0 = B / tok/s, and it pays when L > T_s / T_0. Compare at
equal batch size and similar context: verifying costs more as the batch grows.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from tui.frozen import frozen
from tui.wording import count

ENOUGH_SAMPLES = 3
CONTEXT_RATIO = 2.0  # contexts that differ by more are not comparable
PAYS, DOES_NOT, NOT_ENOUGH = "pays", "does not pay", "not enough data"


@frozen
class BatchSpeed:
    """Throughput measured at one batch size of one rank, tokens per second. `low` and `high`: the middle half of the
    samples. `accept_len` None: without speculation. `context_tokens`: of one request, on average."""

    batch: int
    tok_s: float
    samples: int = 1
    low: float | None = None
    high: float | None = None
    accept_len: float | None = None
    context_tokens: float | None = None

    @property
    def step_s(self) -> float | None:
        """Seconds of one step; None when nothing was generated."""
        return step_time_s(self.batch, self.tok_s, self.accept_len)


@frozen
class Economy:
    """Speculation at one batch size. `verdict`: PAYS, DOES_NOT or NOT_ENOUGH; `text` is the sentence for it.

    `break_even`: the accept length from which it pays, T_s / T_0. `speed_up`: tokens per second against plain.
    """

    batch: int
    verdict: str
    text: str
    plain_step_s: float | None = None
    spec_step_s: float | None = None
    accept_len: float | None = None
    break_even: float | None = None
    speed_up: float | None = None


def step_time_s(batch: int, tok_s: float, accept_len: float | None = None) -> float | None:
    """Seconds of one decode step of `batch` requests; `accept_len` None is plain decoding."""
    if batch <= 0 or not tok_s > 0 or not math.isfinite(tok_s):
        return None
    return batch * (1.0 if accept_len is None else accept_len) / tok_s


def judge(batch: int, plain: BatchSpeed | None, spec: BatchSpeed | None) -> Economy:
    """What speculation brings at one batch size."""
    plain_s = plain.step_s if plain else None
    spec_s = spec.step_s if spec and spec.accept_len is not None else None
    accept = spec.accept_len if spec else None
    if plain is None or spec is None or plain_s is None or spec_s is None or accept is None:
        missing = "without speculation" if plain_s is None else "with speculation"
        return Economy(
            batch=batch,
            verdict=NOT_ENOUGH,
            text=f"Batch {batch}: no throughput was measured {missing}.",
            plain_step_s=plain_s,
            spec_step_s=spec_s,
            accept_len=accept,
        )
    found = _Numbers(batch, plain, spec, plain_s, spec_s, accept)
    return found.economy(*_verdict(found))


def economies(plain: Mapping[int, BatchSpeed], spec: Mapping[int, BatchSpeed]) -> tuple[Economy, ...]:
    """One for every batch size of either, ascending."""
    return tuple(judge(batch, plain.get(batch), spec.get(batch)) for batch in sorted({*plain, *spec}))


def turns_over(found: Iterable[Economy]) -> float | None:
    """The batch size at which the speed-up falls to 1, between the last that pays and the first after it that does not.

    None: it pays, or does not, at every batch size that was measured.
    """
    known = [one for one in sorted(found, key=lambda one: one.batch) if one.speed_up is not None]
    for small, large in pairwise(known):
        a, b = small.speed_up or 0.0, large.speed_up or 0.0
        if a > 1.0 >= b:
            share = (a - 1.0) / (a - b)
            low, high = math.log(small.batch), math.log(large.batch)
            return math.exp(low + share * (high - low))
    return None


def kv_cost(
    plain_tokens: int | None,
    spec_tokens: int | None,
    plain_fraction: float | None = None,
    spec_fraction: float | None = None,
) -> str:
    """What speculation took from the KV cache, in a sentence; "" when one is not known.

    With another memory fraction the pools differ for that reason, which is said instead.
    """
    if plain_tokens is None or spec_tokens is None or plain_tokens <= 0:
        return ""
    plain, spec = count(plain_tokens), count(spec_tokens)
    if plain_fraction is not None and spec_fraction is not None and abs(plain_fraction - spec_fraction) > 0.0005:
        return (
            f"KV tokens: {spec} at a fraction of {round(spec_fraction, 4):g} with, {plain} at "
            f"{round(plain_fraction, 4):g} without speculation; what it cost shows at equal fractions only."
        )
    lost = plain_tokens - spec_tokens
    if lost <= 0:
        return f"Speculation cost no KV tokens: {spec} against {plain} without."
    return f"Speculation cost {count(lost)} KV tokens ({lost / plain_tokens:.0%}): {spec} of {plain} left."


@frozen(kw_only=False)
class _Numbers:
    batch: int
    plain: BatchSpeed
    spec: BatchSpeed
    plain_s: float
    spec_s: float
    accept: float

    @property
    def break_even(self) -> float:
        return self.spec_s / self.plain_s

    @property
    def speed_up(self) -> float:
        return self.spec.tok_s / self.plain.tok_s

    def economy(self, verdict: str, text: str) -> Economy:
        return Economy(
            batch=self.batch,
            verdict=verdict,
            text=f"Batch {self.batch}: {text}",
            plain_step_s=self.plain_s,
            spec_step_s=self.spec_s,
            accept_len=self.accept,
            break_even=self.break_even,
            speed_up=self.speed_up,
        )


def _verdict(found: _Numbers) -> tuple[str, str]:
    plain, spec = found.plain, found.spec
    fewest = min(plain.samples, spec.samples)
    if fewest < ENOUGH_SAMPLES:
        return (
            NOT_ENOUGH,
            f"only {fewest} sample{'s' if fewest != 1 else ''}; {ENOUGH_SAMPLES} are needed on each side.",
        )
    if not _similar(plain.context_tokens, spec.context_tokens):
        return NOT_ENOUGH, (
            f"not comparable, requests of {plain.context_tokens:.0f} tokens without and "
            f"{spec.context_tokens:.0f} with speculation."
        )
    numbers = (
        f"accept length {found.accept:.2f} against {found.break_even:.2f} to break even "
        f"(step {found.spec_s * 1000:.1f} ms against {found.plain_s * 1000:.1f} ms)"
    )
    if _apart(plain, spec):
        if found.speed_up > 1.0:
            return PAYS, f"pays, {found.speed_up - 1:+.0%}: {numbers}."
        return DOES_NOT, f"does not pay, {found.speed_up - 1:+.0%}: {numbers}."
    return DOES_NOT, f"makes no difference beyond the spread, {found.speed_up - 1:+.0%}: {numbers}."


def _similar(one: float | None, other: float | None) -> bool:
    if not one or not other:
        return True
    return max(one, other) / min(one, other) <= CONTEXT_RATIO


def _apart(plain: BatchSpeed, spec: BatchSpeed) -> bool:
    """Whether the middle halves of the samples do not overlap."""
    slow, fast = (plain, spec) if plain.tok_s <= spec.tok_s else (spec, plain)
    return _or(slow.high, slow.tok_s) < _or(fast.low, fast.tok_s)


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
