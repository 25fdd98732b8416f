"""The memory equation applied to a failed start: the floor, a fraction to try, and what it leaves.

rest = A - P (1 - f): P GiB free before the weights, A GiB left when the pool is sized, the minimum of all ranks
(sglang-facts 1.1; `tui.sglang.budget`).
"""

import math

from tui.frozen import frozen
from tui.sglang.budget import ceil3
from tui.sglang.diagnosis.case import Case, RankMemory
from tui.sglang.diagnosis.making import GIB
from tui.wording import count

# Of what the weights leave, this share goes to KV and the rest stays slack: graphs, activations and, up to 0.5.13,
# the draft need more than KV does to begin with.
KV_SHARE = 0.35
# Below this there is no room for graphs and activations beside any KV at all.
LEAST_LEFT_GIB = 0.3
LEAST_LEFT_SHARE = 0.005
# GiB to leave free beyond what was asked for in vain, as a part of P and at least.
SPARE_SHARE = 0.03
SPARE_GIB = 2.0

# Smaller models share these class names: only where the weights of all ranks are larger is the name enough.
_LARGE_GIB = 200.0
# KV bytes per token on one rank of models whose config the log does not show: 61 layers x (512 + 64) x 2 bytes.
_KNOWN_CELLS = {
    "DeepseekV3ForCausalLM": 70272,
    "DeepseekV3ForCausalLMNextN": 70272,
    "KimiK25ForConditionalGeneration": 70272,
}


@frozen
class Equation:
    """GiB and fractions; None where the log does not tell. `cell`: KV bytes per token."""

    before: float | None = None
    left: float | None = None
    floor: float | None = None
    fraction: float | None = None
    cell: float | None = None

    @property
    def hopeless(self) -> bool:
        """No fraction leaves room for KV and for what runs beside it."""
        if self.floor is not None and 1 - self.floor < LEAST_LEFT_SHARE:
            return True
        return self.left is not None and self.left < LEAST_LEFT_GIB and self.before is not None and self.before > 8

    def kv_gib(self, fraction: float) -> float | None:
        """GiB for KV under a fraction; negative when there is none."""
        if self.before is None or self.floor is None:
            return None
        return self.before * (fraction - self.floor)

    def tokens(self, fraction: float) -> int | None:
        """KV tokens under a fraction."""
        kv = self.kv_gib(fraction)
        return None if kv is None or self.cell is None else max(0, math.floor(kv * GIB / self.cell))

    def slack_gib(self, fraction: float) -> float | None:
        """GiB outside the fraction."""
        return None if self.before is None else self.before * (1 - fraction)

    def higher(self) -> float | None:
        """A fraction above the floor that leaves slack; None when there is none or the floor is not known."""
        if self.floor is None or self.hopeless:
            return None
        wanted = ceil3(self.floor + KV_SHARE * (1 - self.floor))
        rounded = round(wanted, 2)
        return rounded if self.floor + 0.005 < rounded < 1 - LEAST_LEFT_SHARE else wanted

    def lower(self, missing_gib: float) -> float | None:
        """A smaller fraction that frees what was missing and some more; None when KV would get nothing or unknown."""
        if self.fraction is None or self.before is None:
            return None
        spare = max(SPARE_GIB, SPARE_SHARE * self.before, 0.2 * (self.kv_gib(self.fraction) or 0.0))
        spare = min(spare, 0.1 * self.before)
        wanted = math.floor((self.fraction - (max(0.0, missing_gib) + spare) / self.before) * 100) / 100
        if self.floor is not None and wanted <= self.floor + 0.002:
            middle = math.floor((self.floor + 0.5 * (self.fraction - self.floor)) * 1000) / 1000
            freed = (self.fraction - middle) * self.before
            return middle if middle > self.floor + 0.002 and freed > missing_gib else None
        return wanted if wanted > 0 else None

    def numbers(self, suggested: float | None = None) -> dict[str, float]:
        """For `Verdict.numbers`: GiB, tokens and fractions by name."""
        values = {
            "free_before_gib": self.before,
            "left_after_weights_gib": self.left,
            "floor": self.floor,
            "fraction": self.fraction,
            "cell_bytes": self.cell,
            "kv_gib": None if self.fraction is None else self.kv_gib(self.fraction),
        }
        if suggested is not None:
            values |= {
                "suggested_fraction": suggested,
                "margin": None if self.floor is None else suggested - self.floor,
                "suggested_kv_gib": self.kv_gib(suggested),
                "suggested_kv_tokens": self.tokens(suggested),
                "suggested_slack_gib": self.slack_gib(suggested),
            }
        return {name: round(float(value), 4) for name, value in values.items() if value is not None}

    def leaves(self, fraction: float) -> str:
        """What a fraction gives, in words; empty when the log does not tell."""
        kv, slack, tokens = self.kv_gib(fraction), self.slack_gib(fraction), self.tokens(fraction)
        if kv is None or slack is None:
            return ""
        many = f" (about {count(tokens)} tokens)" if tokens else ""
        return f"{max(0.0, kv):.2f} GiB for KV{many} and {slack:.2f} GiB of slack"


def equation(case: Case, floor: float | None = None, fraction: float | None = None) -> Equation:
    """The equation of the tightest rank. `floor`, `fraction`: as SGLang's own message gives them."""
    memory = list(case.memory.values())
    before = min((m.before for m in memory if m.before is not None), default=None)
    left = min((m.left for m in memory if m.left is not None), default=None)
    if floor is None and before and left is not None:
        floor = 1 - left / before
    if left is None and floor is not None and before is not None:
        left = before * (1 - floor)
    if fraction is None:
        given = case.value("mem-fraction-static")
        fraction = float(given) if isinstance(given, int | float) else None
    return Equation(before=before, left=left, floor=floor, fraction=fraction, cell=cell_bytes(memory, case))


def cell_bytes(memory: list[RankMemory], case: Case) -> float | None:
    """KV bytes per token: from a pool that was allocated, else of a model that is known."""
    for rank in memory:
        if rank.kv_gib and rank.kv_tokens and rank.kv_gib >= 0.05:
            return rank.kv_gib * GIB / rank.kv_tokens
    known = next((_KNOWN_CELLS[m.model_class] for m in memory if m.model_class in _KNOWN_CELLS), None)
    tp = case.value("tp-size")
    ranks = max(len(memory), tp if isinstance(tp, int) else 1)
    weights = max((m.base or 0.0 for m in memory), default=0.0) * ranks
    if known is None or (weights < _LARGE_GIB and weights / ranks < 60):
        return None
    dtype = str(case.value("kv-cache-dtype") or "auto")
    return known / 2 if dtype.startswith("fp8") else float(known)
