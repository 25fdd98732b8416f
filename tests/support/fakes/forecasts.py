"""Forecasts that fit, and one that does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fakes.snapshots import gpus, many, measured
from tui.snapshot import GpuBar


@dataclass(frozen=True)
class FakeForecast:
    bars: tuple[GpuBar, ...]
    verdict: str
    fits: bool | None
    kv_tokens: int | None = None
    suggestion: Mapping[str, object] = field(default_factory=dict)
    fraction_formula: str = "(97887 - (512 constant + 12288 activations)) / 97887 = 0.869"


def fitting() -> FakeForecast:
    bars = gpus(base=72.33, draft=1.50, graphs=2.10, kv=2.94, fraction=0.80)
    return FakeForecast(bars, "Fits: 2.94 GiB of KV for 44 900 tokens, and 18.82 GiB of slack.", True)


def many_forecast() -> FakeForecast:
    bars = tuple(
        replace(bar, segments={**bar.segments, "kv": measured(2.94)}, tight=bar.index == 17) for bar in many().gpus
    )
    return FakeForecast(bars, "Fits: 2.94 GiB of KV for 44 900 tokens, and 18.82 GiB of slack.", True)


def refused() -> FakeForecast:
    bars = gpus(base=72.33, draft=1.50, graphs=2.10, kv=0.0, fraction=0.76)
    return FakeForecast(
        bars, "Will not start: 0.83 GiB are missing. The first fraction that starts is 0.769, try 0.85.", False,
        suggestion={"mem-fraction-static": 0.85},
    )  # fmt: skip
