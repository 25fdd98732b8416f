"""knobs + machine + model + past runs -> Forecast: will it start, and with how much room?"""

from collections.abc import Mapping
from typing import Any

from tui.forecast.amounts import high, low
from tui.forecast.costs import free_before
from tui.forecast.judge import Judgement, first_of, floor_of, judge
from tui.forecast.machine import NOTHING_LEARNED, Gpu, Learned, Machine
from tui.forecast.model import ModelFacts
from tui.forecast.result import Forecast, ForecastVerdict, FractionFacts, GpuForecast
from tui.forecast.segments import forecast_gpu, idle_gpu
from tui.forecast.situation import Outlook, Situation, make_situation, used_gpus
from tui.forecast.suggest import suggest, what_helps
from tui.sglang.kvcell import KvKind
from tui.sglang.speculation import speculative_params
from tui.sglang.versions import Version, find_era
from tui.snapshot import Amount, Source

_CLOSE_GIB = 0.1  # P is measured a moment apart from what the log prints
_SOURCES = {"user": "given", "automatic": "auto", "fallback": "fallback"}


def forecast(
    version: Version | None,
    machine: Machine,
    model: ModelFacts,
    knobs: Mapping[str, Any],
    learned: Learned = NOTHING_LEARNED,
) -> Forecast:
    """What a start with these knobs would give; takes a few milliseconds.

    `knobs`: {flag name without dashes: value}. Raises ValueError, with a sentence that names the flag, when a value has
    the wrong type or the sizes are impossible.
    """
    finding = find_era(version)
    if version is None or finding.era is None:
        verdict = ForecastVerdict(kind="unknown", text=f"Cannot tell: {_lower(finding.reason or '')}")
        return Forecast(sglang_version=str(version) if version else None, era=None, fits=None, verdict=verdict)
    situation = make_situation(version, machine, model, knobs, learned)
    fraction = situation.fraction
    known = fraction.source != "fallback" or machine.device == "cpu"
    value = fraction.value if known else None
    verdict_now = None if value is None else judge(situation, value)
    facts = FractionFacts(
        value=value,
        source=_SOURCES.get(fraction.source, fraction.source),
        floor=floor_of(situation),
        first_working=first_of(situation),
        formula=fraction.formula() if known else "the size of the GPUs is not known",
    )
    placed = verdict_now is None or verdict_now.placed
    proposal = suggest(situation, verdict_now) if placed and situation.inputs(0.5) is not None else None
    return Forecast(
        sglang_version=str(version),
        era=finding.era.value,
        fits=verdict_now.fits if verdict_now else None,
        verdict=_verdict(situation, verdict_now, value),
        fraction=facts,
        gpus=_gpus(situation, verdict_now, value, learned),
        free_before=situation.free_before,
        available=_available(situation),
        **_numbers(situation, verdict_now),
        segments=_tight_segments(situation, verdict_now, value),
        suggestion=proposal,
        helps=what_helps(situation) if placed and verdict_now and verdict_now.kind == "does-not-fit" else (),
        warnings=tuple(dict.fromkeys(_warnings(situation, verdict_now, finding.warning))),
    )


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _verdict(situation: Situation, verdict: Judgement | None, fraction: float | None) -> ForecastVerdict:
    if verdict is not None:
        return ForecastVerdict(kind=verdict.kind, text=verdict.text)
    reasons = []
    if situation.free_before.gib is None:
        reasons.append("the memory free before the weights")
    if situation.base.gib is None:
        reasons.append("the size of the weights")
    if situation.cell is None:
        reasons.append("the KV bytes per token")
    if fraction is None:
        reasons.append("the size of the GPUs, which the automatic fraction depends on")
    if not reasons:
        reasons.append("how much memory is free at all")
    listed = " and ".join([", ".join(reasons[:-1]), reasons[-1]] if len(reasons) > 1 else reasons)
    return ForecastVerdict(
        kind="unknown", text=f"Cannot tell: {listed} {'are' if len(reasons) > 1 else 'is'} not known."
    )


def _available(situation: Situation) -> Amount:
    gib = situation.available_gib(Outlook.LIKELY)
    if gib is None:
        return Amount(why="P or the weights are not known")
    worst, best = situation.available_gib(Outlook.WORST), situation.available_gib(Outlook.BEST)
    order = list(Source)
    source = max((situation.free_before.source, situation.base.source), key=order.index)
    what = "P less weights" + (" and draft" if situation.draft_counted and situation.has_draft else "")
    return Amount(gib=gib, source=source, why=what, low_gib=worst, high_gib=best)


def _numbers(situation: Situation, verdict: Judgement | None) -> dict[str, Any]:
    if verdict is None:
        return {"context_len": situation.context_len}
    pool = verdict.pool
    return {
        "slack_gib": pool.slack_gib,
        "needed": verdict.needs,
        "kv_budget_gib": pool.kv_budget_gib,
        "kv_tokens": pool.tokens if pool.fits else 0,
        "kv_tokens_low": verdict.tokens_low,
        "kv_tokens_high": verdict.tokens_high,
        "max_running_requests": pool.request_slots,
        "request_table_gib": pool.request_table_gib,
        "context_len": situation.context_len,
    }


def _gpus(
    situation: Situation, verdict: Judgement | None, fraction: float | None, learned: Learned
) -> tuple[GpuForecast, ...]:
    machine = situation.machine
    used = used_gpus(machine, situation.ranks)
    per_copy = max(1, situation.knobs.tp * situation.knobs.pp)
    before = [free_before(machine, gpu, per_copy, learned) for gpu in used]
    tight = _tight_index(before)
    bars = [
        forecast_gpu(situation, gpu, own, verdict, tight=index == tight, fraction=fraction)
        for index, (gpu, own) in enumerate(zip(used, before, strict=True))
    ]
    return (*bars, *(idle_gpu(gpu) for gpu in machine.gpus if gpu not in used))


def _tight_index(before: list[Amount]) -> int:
    """The GPU that decides; of equals the first."""
    known = [(low(amount) or 0.0, index) for index, amount in enumerate(before) if amount.gib is not None]
    return min(known)[1] if known else 0


def _tight_segments(situation: Situation, verdict: Judgement | None, fraction: float | None) -> Mapping[str, Amount]:
    gpus = [gpu for gpu in _gpus(situation, verdict, fraction, situation.past) if gpu.used and gpu.bar.tight]
    if gpus:
        return gpus[0].segments
    alone = Gpu(index=0, name="not known")
    return forecast_gpu(situation, alone, situation.free_before, verdict, tight=True, fraction=fraction).segments


def _warnings(situation: Situation, verdict: Judgement | None, era_note: str | None) -> list[str]:
    found = [era_note] if era_note else []
    found += [text for text in situation.fraction.warnings if situation.machine.device != "cpu"]
    found += situation.model.notes
    if situation.cell is not None and situation.cell.note:
        found.append(situation.cell.note)
    params = speculative_params(situation.version, situation.knobs, situation.model.traits.architecture)
    if params is not None and params.warning:
        found.append(params.warning)
    if situation.has_draft and situation.cost.draft_gross.source is Source.ESTIMATED and situation.model.draft is None:
        gross = situation.cost.draft_gross
        found.append(
            f"The draft's size is not known: {gross.gib:.1f} GiB is taken ({low(gross):.1f} to {high(gross):.1f})."
        )
    if situation.model.target is not None and situation.model.target.kind is KvKind.SWA:
        found.append("Sliding-window layers have a pool of their own; the tokens counted are those of the full layers.")
    if verdict is not None:
        found += _pool_warnings(situation, verdict)
    return found


def _pool_warnings(situation: Situation, verdict: Judgement) -> list[str]:
    pool, found = verdict.pool, []
    if abs(pool.rest_gib) < _CLOSE_GIB and situation.machine.device != "cpu":
        found.append(f"It is close: {pool.rest_gib:+.2f} GiB, and free memory differs by up to 0.1 GiB between starts.")
    if not pool.fits:
        return found
    context = situation.context_len
    if context is not None and pool.tokens < context:
        found.append(
            f"The KV cache holds {pool.tokens} tokens and a request may have {context}: one of full length cannot "
            "be served; lower --context-length or make more room."
        )
    allowance = situation.allowance_gib(pool)
    if verdict.fits and pool.slack_gib < allowance:
        found.append(
            f"The slack of {pool.slack_gib:.2f} GiB is below SGLang's own allowance of {allowance:.2f} GiB: "
            "long prefills may run out of memory."
        )
    if pool.inflation_tokens:
        found.append(f"{pool.inflation_tokens} tokens for drafting come on top of the budget, out of the slack.")
    if pool.capped:
        found.append(f"--max-total-tokens caps the pool at {pool.tokens} tokens.")
    return found
