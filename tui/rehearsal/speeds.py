"""How fast a rehearsed server decodes, by its knobs. Pure; seconds and tokens.

Made so that the story holds: one request without speculation gives 82 tok/s with graphs for up to 512 requests and 89.5
with 128; a draft tree of 2 steps, top-k 4, 4 tokens pays for one request and stops paying at some thirty.
"""

import math

from tui.frozen import frozen
from tui.rehearsal.launch import Launch

_AT_128, _PER_DOUBLING = 1.0, 3.75 / 89.5  # what each doubling of the graph size costs
_FASTEST, _SLOWEST = 1.012, 0.88
_NO_GRAPH = 2.3
_BATCH, _BATCH_POWER = 0.06, 0.85  # what further requests add to a step
_DRAFT_TOKEN = 0.95  # a token to verify weighs almost what a request does
_HEAD_STEP, _MODEL_STEP, _EXTEND = 0.06, 0.25, 0.05  # drafting, in parts of a plain step
_FIRST_TOKEN, _DEPTH_DECAY, _WIDTH_POWER = 0.62, 0.93, 0.6
_NGRAM_HIT = 0.38
PREFILL_TOK_S = 26_000.0


@frozen(kw_only=False)
class Speeds:
    """`graph_max`: the largest captured batch, 0 without graphs. `acceptance` scales how often a draft is right."""

    tok_s: float
    graph_max: int
    configured_max: int
    algorithm: str | None = None
    steps: int = 0
    topk: int = 1
    draft_tokens: int = 1
    acceptance: float = 1.0

    def has_graph(self, batch: int) -> bool:
        """Whether a decode batch of this size runs in a CUDA graph."""
        return batch <= self.graph_max

    def plain_step_s(self, batch: int) -> float:
        """One decode step of `batch` requests without speculation."""
        return self._base_s(batch) * self._load(batch)

    def step_s(self, batch: int) -> float:
        """One step as configured: draft and verify, or plain."""
        if self.algorithm is None:
            return self.plain_step_s(batch)
        verify = self._load(batch * (1 + _DRAFT_TOKEN * (self.draft_tokens - 1)))
        return self._base_s(batch) * (verify + self._drafting())

    def accept_len(self) -> float:
        """Mean tokens per verify pass, the bonus token included; 1 without speculation."""
        if self.algorithm is None:
            return 1.0
        if self.algorithm == "NGRAM":
            return 1 + self.acceptance * _NGRAM_HIT * math.log2(self.draft_tokens)
        width = max(1.0, min(self.topk, (self.draft_tokens - 1) / max(1, self.steps)))
        first = _FIRST_TOKEN if self.algorithm != "STANDALONE" else 0.74
        right = (1 - (1 - first) * width**-_WIDTH_POWER) * self.acceptance
        expected, reached = 1.0, 1.0
        for depth in range(self.steps):
            reached *= right * _DEPTH_DECAY**depth
            expected += reached
        return expected

    def _base_s(self, batch: int) -> float:
        factor = _AT_128 - _PER_DOUBLING * math.log2(max(1, self.configured_max) / 128)
        factor = min(_FASTEST, max(_SLOWEST, factor))
        return (1.0 if self.has_graph(batch) else _NO_GRAPH) / (self.tok_s * factor)

    def _load(self, requests: float) -> float:
        return 1 + _BATCH * math.pow(max(0.0, requests - 1), _BATCH_POWER)

    def _drafting(self) -> float:
        if self.algorithm == "NGRAM":
            return 0.03
        return self.steps * (_MODEL_STEP if self.algorithm == "STANDALONE" else _HEAD_STEP) + _EXTEND


def speeds_of(launch: Launch, sizes: tuple[int, ...], configured_max: int | None) -> Speeds:
    """The speeds of a started server. `sizes`: what was captured; `configured_max`: what the knob asks for."""
    params = launch.params
    largest = max(sizes, default=0)
    return Speeds(
        tok_s=launch.model.tok_s,
        graph_max=largest,
        configured_max=configured_max or largest or 128,
        algorithm=launch.algorithm,
        steps=params.num_steps if params else 0,
        topk=params.eagle_topk if params else 1,
        draft_tokens=launch.verify_tokens,
        acceptance=launch.settings.plot.acceptance,
    )
