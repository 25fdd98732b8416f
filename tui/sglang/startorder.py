"""The order in which a starting server takes memory, and what each step is paid from.

Sources: ModelRunner.initialize (<= 0.5.13, model_executor/model_runner.py), init_model_worker (>= 0.5.14,
managers/scheduler.py).
"""

from enum import StrEnum

from tui.frozen import frozen
from tui.sglang.speculation import has_draft_model
from tui.sglang.versions import Version, draft_counted_before_pool


class PaidFrom(StrEnum):
    """`BEFORE`: before P is measured. `STATIC`: inside the fraction. `SLACK`: P (1 - f)."""

    BEFORE = "before"
    STATIC = "static"
    SLACK = "slack"


@frozen(kw_only=False)
class StartStep:
    """One step of the start. `draft`: it exists only with a draft model."""

    name: str
    paid_from: PaidFrom
    draft: bool = False


_DISTRIBUTED = StartStep("CUDA context and communication", PaidFrom.BEFORE)
_TARGET_WEIGHTS = StartStep("target weights", PaidFrom.STATIC)
_TARGET_POOL = StartStep("target KV pool", PaidFrom.STATIC)
_REQUEST_TABLE = StartStep("request table", PaidFrom.SLACK)

# The target is finished, graphs included, before the draft begins.
_DRAFT_LAST = (
    _DISTRIBUTED,
    _TARGET_WEIGHTS,
    _TARGET_POOL,
    _REQUEST_TABLE,
    StartStep("target attention workspace", PaidFrom.SLACK),
    StartStep("target decode graphs", PaidFrom.SLACK),
    StartStep("prefill graphs", PaidFrom.SLACK),
    StartStep("draft weights", PaidFrom.SLACK, draft=True),
    StartStep("draft KV pool", PaidFrom.SLACK, draft=True),
    StartStep("draft attention workspace", PaidFrom.SLACK, draft=True),
    StartStep("draft graphs", PaidFrom.SLACK, draft=True),
    StartStep("activations", PaidFrom.SLACK),
)
_DRAFT_BEFORE_POOL = (
    _DISTRIBUTED,
    _TARGET_WEIGHTS,
    StartStep("draft weights", PaidFrom.STATIC, draft=True),
    _TARGET_POOL,
    _REQUEST_TABLE,
    StartStep("draft KV pool", PaidFrom.STATIC, draft=True),
    StartStep("attention workspaces", PaidFrom.SLACK),
    StartStep("target prefill graphs", PaidFrom.SLACK),
    StartStep("target verify or decode graphs", PaidFrom.SLACK),
    StartStep("draft graphs", PaidFrom.SLACK, draft=True),
    StartStep("activations", PaidFrom.SLACK),
)


def start_order(version: Version | None, algorithm: str | None) -> tuple[StartStep, ...] | None:
    """The steps of this version's start, without the draft's where there is none; None for an unknown version."""
    counted = draft_counted_before_pool(version)
    if counted is None:
        return None
    steps = _DRAFT_BEFORE_POOL if counted else _DRAFT_LAST
    return tuple(step for step in steps if has_draft_model(algorithm) or not step.draft)


def slack_contents(version: Version | None, algorithm: str | None) -> tuple[str, ...] | None:
    """Names of what has to fit into P (1 - f); None for an unknown version."""
    steps = start_order(version, algorithm)
    return None if steps is None else tuple(step.name for step in steps if step.paid_from is PaidFrom.SLACK)
