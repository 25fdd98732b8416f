"""A forecast as the JSON that `specdeck plan --json` promises. Keys are only added, never renamed or removed."""

from collections.abc import Mapping
from typing import Any

from tui.forecast.result import FORECAST_SEGMENTS, Forecast, GpuForecast
from tui.snapshot import UNKNOWN, Amount


def to_json(found: Forecast) -> dict[str, Any]:
    """Numbers are GiB rounded to a tenth of a MiB, fractions to 6 digits; null is not known."""
    suggestion = found.suggestion
    return {
        "sglang_version": found.sglang_version,
        "era": found.era,
        "gpus": [_gpu(gpu) for gpu in found.gpus],
        "fraction": {
            "value": _fraction(found.fraction.value),
            "source": found.fraction.source,
            "floor": _fraction(found.fraction.floor),
            "first_working": found.fraction.first_working,
        },
        "free_before_gib": _gib(found.free_before.gib),
        "slack_gib": _gib(found.slack_gib),
        "kv_budget_gib": _gib(found.kv_budget_gib),
        "kv_tokens": found.kv_tokens,
        "fits": found.fits,
        "verdict": {"kind": found.verdict.kind, "text": found.verdict.text},
        "segments": _segments(found.segments),
        "suggestion": None
        if suggestion is None
        else {
            "knobs": dict(suggestion.knobs),
            "kv_tokens": suggestion.kv_tokens,
            "slack_gib": _gib(suggestion.slack_gib),
        },
        "warnings": [*found.warnings, *(f"This would help: {text}." for text in found.helps)],
    }


def _gpu(gpu: GpuForecast) -> dict[str, Any]:
    return {
        "index": gpu.bar.index,
        "name": gpu.bar.name,
        "total_gib": _gib(gpu.bar.total_gib),
        "free_before_gib": _gib(gpu.free_before.gib),
        "used": gpu.used,
        "tight": gpu.bar.tight,
        "segments": _segments(gpu.segments) if gpu.used else None,
    }


def _segments(segments: Mapping[str, Amount]) -> dict[str, Any]:
    found = {name: segments.get(name, UNKNOWN) for name in FORECAST_SEGMENTS}
    return {name: {"gib": _gib(amount.gib), "source": amount.source.value} for name, amount in found.items()}


def _gib(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _fraction(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
