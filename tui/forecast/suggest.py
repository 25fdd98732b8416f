"""The fraction to try: the most KV that leaves what lives in the slack its place, and what helps when none does."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tui.forecast.amounts import high
from tui.forecast.judge import Judgement, judge
from tui.forecast.result import Suggestion
from tui.forecast.situation import Outlook, Situation, with_knobs
from tui.sglang.tiers import chunked_prefill_size
from tui.snapshot import Source

_ENOUGH_TOKENS = 8192
_WORTH_A_CHANGE = 1.03
_CHUNKS = (4096, 2048)
_MOST = 0.97


def suggest(situation: Situation, now: Judgement | None) -> Suggestion | None:
    """Knobs to start with; None when nothing works, or when what is set is as good."""
    best: Suggestion | None = None
    for changes in _variants(situation):
        found = _best_fraction(with_knobs(situation, changes), changes)
        if found is not None and (best is None or found.kv_tokens > best.kv_tokens):
            best = found
        if best is not None and best.kv_tokens >= min(situation.context_len or _ENOUGH_TOKENS, _ENOUGH_TOKENS):
            break
    if best is not None and now is not None and now.fits and _as_good(situation, now, best):
        return None
    return best


def _as_good(situation: Situation, now: Judgement, best: Suggestion) -> bool:
    safe = now.pool.slack_gib >= situation.allowance_gib(now.pool)
    return safe and best.kv_tokens <= now.pool.tokens * _WORTH_A_CHANGE


def _variants(situation: Situation) -> Iterator[Mapping[str, Any]]:
    """The operator's own knobs first, then smaller prefills, which need less working memory."""
    yield {}
    chunk = chunked_prefill_size(situation.version, situation.gpu_mem_mib, situation.knobs)
    for smaller in _CHUNKS:
        if chunk > smaller:
            yield {"chunked-prefill-size": smaller}


def _best_fraction(situation: Situation, changes: Mapping[str, Any]) -> Suggestion | None:
    """The highest fraction whose slack holds the allowance: by hundredths, then by thousandths."""
    for step in (100, 1000):
        found: tuple[float, Judgement, float] | None = None
        for count in range(math.floor(_MOST * step), 0, -1):
            set_to = count / step
            verdict, needed = _verdict(situation, set_to)
            if verdict is None or verdict.pool.rest_gib <= 0:
                break
            if not verdict.fits or verdict.pool.slack_gib < needed:
                continue
            if found is not None and verdict.pool.tokens < found[1].pool.tokens:
                break
            # Under a token cap more fraction gives nothing: the lowest that reaches it leaves the most slack.
            found = (set_to, verdict, needed)
            if not verdict.pool.capped:
                break
        if found is not None:
            return _suggestion(situation, changes, *found)
    return None


def _verdict(situation: Situation, set_to: float) -> tuple[Judgement | None, float]:
    factor = 1.0
    for name, value in situation.fraction.factors:
        # What SGLang multiplies even the operator's own value with; the vision factor is not of that kind.
        factor *= value if name == "aiter" else 1.0
    verdict = judge(situation, set_to * factor)
    return verdict, 0.0 if verdict is None else situation.allowance_gib(verdict.pool)


def _suggestion(
    situation: Situation, changes: Mapping[str, Any], fraction: float, verdict: Judgement, needed: float
) -> Suggestion:
    slack = verdict.pool.slack_gib
    work = situation.cost.activations
    per = "measured" if work.source is Source.LEARNED else "SGLang's own allowance"
    parts = [f"{high(work) or 0.0:.1f} activations ({per})", f"{situation.cost.graphs.gib or 0.0:.2f} graphs"]
    table = situation.request_table_gib(verdict.pool)
    parts.append(f"{table:.2f} request table")
    if situation.has_draft and not situation.draft_counted:
        draft = (situation.cost.draft_net.gib or 0.0) + (situation.draft_kv(verdict.pool).gib or 0.0)
        parts.append(f"{draft:.2f} draft")
    why = (
        f"leaves {slack:.2f} GiB of slack for {needed:.2f} GiB of needs ({', '.join(parts)}): "
        f"a margin of {slack - needed:.2f} GiB"
    )
    return Suggestion(
        knobs={"mem-fraction-static": fraction, **changes},
        kv_tokens=verdict.pool.tokens,
        slack_gib=slack,
        needed_gib=needed,
        why=why,
    )


def what_helps(situation: Situation) -> tuple[str, ...]:
    """Changes that would make room where no fraction does, with what each brings; the largest first."""
    base, available = situation.base.gib, situation.available_gib(Outlook.LIKELY)
    if base is None or available is None:
        return ()
    knobs, found = situation.knobs, []
    double = knobs.tp * 2
    found.append((base / 2, f"--tp-size {double} on {double} GPUs: about {base / 2:.1f} GiB less weights on each"))
    if situation.model.quantization is None and situation.raw_knobs.get("quantization") is None:
        text = f"--quantization fp8, or an FP8 checkpoint: about {base * 0.45:.1f} GiB less weights"
        found.append((base * 0.45, text))
    else:
        found.append((base * 0.4, "a smaller checkpoint, or one quantised further"))
    if situation.has_draft:
        draft = situation.cost.draft_gross.gib or 0.0
        found.append((draft, f"no draft model: about {draft:.1f} GiB"))
    work = situation.cost.activations.gib or 0.0
    chunk = chunked_prefill_size(situation.version, situation.gpu_mem_mib, knobs)
    if chunk > 2048:
        saved = work * (1 - 2048 / chunk)
        found.append((saved, f"--chunked-prefill-size 2048: about {saved:.1f} GiB less working memory"))
    graph = situation.cost.graphs.gib or 0.0
    if graph > 0.05:
        name = "cuda-graph-max-bs" if situation.version.before(0, 5, 14) else "cuda-graph-max-bs-decode"
        found.append((graph / 2, f"a smaller --{name}: up to {graph:.2f} GiB"))
    return tuple(text for _, text in sorted(found, reverse=True))
