"""What the forecast says. GiB per rank of the tightest GPU unless said otherwise; None is not known."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tui.frozen import frozen
from tui.snapshot import UNKNOWN, Amount, GpuBar

# The segments of one forecast bar, left to right; they sum to the GPU's total.
FORECAST_SEGMENTS = ("base", "draft", "graphs", "kv_base", "kv_draft", "state", "other", "free")


@frozen
class ForecastVerdict:
    """`kind`: a verdict kind, "none" when it fits and "unknown" when it cannot be told. `text`: one sentence."""

    kind: str
    text: str


@frozen
class FractionFacts:
    """The memory fraction in force. `source`: "given", "auto" or "fallback" (the size of the GPUs is not known).

    `floor`: leaves nothing for KV. `first_working`: the smallest of 3 digits that starts. `formula`: with its numbers.
    """

    value: float | None = None
    source: str = "auto"
    floor: float | None = None
    first_working: float | None = None
    formula: str = ""


@frozen
class Suggestion:
    """Knobs that start with the most KV while the slack holds `needed_gib`; the rest of the slack is the margin."""

    knobs: Mapping[str, Any]
    kv_tokens: int
    slack_gib: float
    needed_gib: float
    why: str

    @property
    def margin_gib(self) -> float:
        return self.slack_gib - self.needed_gib


@frozen
class GpuForecast:
    """One GPU. `used`: the server puts a rank on it. `segments`: keys of FORECAST_SEGMENTS."""

    bar: GpuBar
    segments: Mapping[str, Amount]
    free_before: Amount = UNKNOWN
    used: bool = True


@frozen
class Forecast:
    """Whether a server will start, and with how much room. `fits` None: it cannot be told, `verdict.text` says why.

    `kv_budget_gib` may be negative: by how much the weights exceed the budget. `kv_tokens_low` and `_high`: with the
    interval of everything estimated. `helps`: what would help where no fraction does.
    """

    sglang_version: str | None
    era: str | None
    fits: bool | None
    verdict: ForecastVerdict
    fraction: FractionFacts = FractionFacts()
    gpus: tuple[GpuForecast, ...] = ()
    free_before: Amount = UNKNOWN
    available: Amount = UNKNOWN
    slack_gib: float | None = None
    needed: Amount = UNKNOWN  # of the slack; `high_gib` is the allowance that suggestions leave
    kv_budget_gib: float | None = None
    kv_tokens: int | None = None
    kv_tokens_low: int | None = None
    kv_tokens_high: int | None = None
    max_running_requests: int | None = None
    request_table_gib: float | None = None
    context_len: int | None = None
    segments: Mapping[str, Amount] = field(default_factory=dict)  # of the tightest GPU
    suggestion: Suggestion | None = None
    helps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
