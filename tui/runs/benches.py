"""Measurements with a fixed load: what was asked, what came of it, and where a run keeps it."""

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError
from tui.files import append_lines
from tui.frozen import frozen
from tui.runs.checks import is_number
from tui.sglang.economics import BatchSpeed

NAME = "bench.jsonl"
DISTURBED = 1.05  # counters by client: of undisturbed loads on a real 0.5.23 they differed by less than 0.03


class BenchError(SpecdeckError):
    """A measurement that could not be made."""


@frozen
class Workload:
    """A fixed load: `batch` requests at a time, `requests` in all, of so many tokens in and out."""

    name: str
    batch: int
    requests: int
    input_tokens: int
    output_tokens: int


def _decode(batch: int) -> Workload:
    return Workload(name=f"decode-{batch}", batch=batch, requests=2 * batch, input_tokens=64, output_tokens=512)


WORKLOADS = {
    workload.name: workload
    for workload in (
        _decode(1),
        _decode(8),
        _decode(32),
        Workload(name="prefill", batch=4, requests=16, input_tokens=4096, output_tokens=16),
    )
}
SUITES = {"decode": ("decode-1", "decode-8", "decode-32"), "all": tuple(WORKLOADS), "quick": ("decode-1", "decode-8")}


def workloads(names: str, scale: float = 1.0) -> tuple[Workload, ...]:
    """The workloads of a list such as "decode-1,prefill" or of a suite; `scale` shortens the outputs.

    Raises BenchError.
    """
    found: list[Workload] = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        for each in SUITES.get(name, (name,)):
            if each not in WORKLOADS:
                known = ", ".join((*SUITES, *WORKLOADS))
                raise BenchError(f"There is no workload {each!r}: known are {known}.")
            base = WORKLOADS[each]
            length = max(8, round(base.output_tokens * scale)) if base.output_tokens > 64 else base.output_tokens
            found.append(Workload(**{**asdict(base), "output_tokens": length}))
    if not found:
        raise BenchError(f"Name a workload: {', '.join((*SUITES, *WORKLOADS))}.")
    return tuple(dict.fromkeys(found))


@frozen
class BenchResult:
    """One workload's outcome. `tok_s`: generated tokens per second of the whole load, as the client counted them;
    `counter_tok_s`: as the server's counters did. `steady_tok_s` with `low`, `high` and `samples`: while all requests
    of the batch ran. `accept_len`: generated tokens by verify calls, from the counters. `engine`: who made the load."""

    workload: str
    batch: int
    at: float
    wall_s: float
    requests: int
    failed: int
    input_tokens: int
    output_tokens: int
    tok_s: float
    engine: str
    steady_tok_s: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    counter_tok_s: float | None = None
    accept_len: float | None = None
    ttft_s: float | None = None
    context_tokens: float | None = None

    @property
    def speed(self) -> BatchSpeed | None:
        """Decode throughput for comparisons; None of a workload that is mostly prefill."""
        if self.output_tokens < self.input_tokens / 4:
            return None
        return BatchSpeed(
            batch=self.batch,
            tok_s=self.tok_s if self.steady_tok_s is None else self.steady_tok_s,
            samples=max(1, self.samples),
            low=self.low,
            high=self.high,
            accept_len=self.accept_len,
            context_tokens=self.context_tokens,
        )

    @property
    def typical_tok_s(self) -> float:
        """What is shown and ranked by: while all requests ran, else of the whole load."""
        return self.steady_tok_s or self.tok_s

    @property
    def disturbed(self) -> bool:
        """Whether the server made more tokens meanwhile than this load asked for."""
        return self.counter_tok_s is not None and self.counter_tok_s > DISTURBED * self.tok_s

    def line(self) -> str:
        """One line for a person."""
        speed = f"{self.typical_tok_s:.1f} tok/s"
        parts = [f"{self.workload}: batch {self.batch}, {speed}"]
        if self.accept_len is not None:
            parts.append(f"accept length {self.accept_len:.2f}")
        parts.append(f"{self.requests - self.failed} of {self.requests} requests in {self.wall_s:.1f} s")
        if self.counter_tok_s is not None:
            parts.append(f"client {self.tok_s:.1f}, counters {self.counter_tok_s:.1f} tok/s overall")
        if self.disturbed:
            parts.append("somebody else asked too, so it is not the speed of this load alone")
        return "; ".join(parts)


_FIELDS = tuple(field.name for field in fields(BenchResult))
_TEXTS = ("workload", "engine")


def save(folder: Path, results: Iterable[BenchResult]) -> None:
    """Add results to a run. Raises StoreError."""
    append_lines(folder / NAME, [json.dumps(asdict(result)) for result in results])


def load(folder: Path) -> tuple[BenchResult, ...]:
    """The results of a run, oldest first; broken lines are left out."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(result for line in lines if (result := _result(line)) is not None)


def from_json(data: Any) -> BenchResult | None:
    """A result of its JSON object; None for anything else."""
    try:
        found = BenchResult(**{key: value for key, value in data.items() if key in _FIELDS})
        numbers = all(is_number(getattr(found, name)) for name in _FIELDS if name not in _TEXTS)
        sure = found.batch >= 1 and found.wall_s > 0 and found.tok_s >= 0
        return found if numbers and sure and isinstance(found.workload, str) else None
    except (TypeError, AttributeError):
        return None


def _result(line: str) -> BenchResult | None:
    try:
        return from_json(json.loads(line))
    except ValueError:
        return None
