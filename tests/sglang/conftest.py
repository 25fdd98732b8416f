"""Generates logs as SGLang of a chosen version writes them; the forms are those of sglang-facts section 2."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest

from tui.facts import Fact, Verdict
from tui.sglang.diagnosis import Doctor
from tui.sglang.grammar import LogGrammar
from tui.sglang.ledger import Ledger, RankLedger
from tui.sglang.verdicts import KINDS

SEEN_AT = 1_800_000_000.0


def read(text: str | Iterable[str], finish: bool = True) -> list[Fact]:
    """The facts of a log."""
    grammar = LogGrammar()
    lines = text.split("\n") if isinstance(text, str) else text
    facts = [fact for number, line in enumerate(lines, 1) for fact in grammar.feed(number, line, SEEN_AT)]
    return facts + (grammar.finish(SEEN_AT) if finish else [])


def split(text: str | Iterable[str]) -> dict[str, RankLedger]:
    """The memory of each rank of a log."""
    ledger = Ledger()
    for fact in read(text):
        ledger.apply(fact)
    return {rank.rank: rank for rank in ledger.ranks()}


@dataclass(frozen=True)
class Sizes:
    """GiB of one rank."""

    before: float = 94.08
    base: float = 72.33
    draft: float = 1.50
    kv: float = 7.64
    kv_draft: float = 0.13
    table: float = 0.51
    decode: float = 2.25
    extend: float = 0.40
    draft_decode: float = 0.30
    tokens: int = 116707


class Writer:
    """Writes the start of a server of `version`, with or without an EAGLE draft, on `tp` ranks."""

    def __init__(self, version: str, tp: int = 1, spec: bool = False, sizes: Sizes | None = None) -> None:
        self.version = tuple(int(part) for part in version.split("."))
        self.tp = tp
        self.spec = spec
        self.sizes = sizes or Sizes()
        self._seconds = itertools.count()

    def since(self, version: str) -> bool:
        return self.version >= tuple(int(part) for part in version.split("."))

    def stamp(self, rank: int | None = None) -> str:
        second = next(self._seconds)
        tag = f" TP{rank}" if rank is not None and self.tp > 1 else ""
        return f"[2026-11-29 12:{second // 60 % 60:02d}:{second % 60:02d}{tag}] "

    def start(self) -> list[str]:
        """Every line from the arguments to ready; the ranks' lines interleave."""
        ranks = [list(self._rank(rank)) for rank in range(self.tp)]
        lines = [self.args()]
        for group in itertools.zip_longest(*ranks):
            lines += [line for line in group if line is not None]
        lines += [
            self.stamp() + "INFO:     Started server process [4242]",
            self.stamp() + "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
            self.stamp() + "The server is fired up and ready to roll!",
        ]
        return lines

    def args(self) -> str:
        algorithm = "'EAGLE3'" if self.spec else "None"
        draft = "'/models/draft'" if self.spec else "None"
        if self.since("0.5.19"):
            inner = (
                f"{{'model_path': '/models/base', 'mem_fraction_static': 0.85, 'tp_size': {self.tp}, 'api_key': 'k1', "
                f"'speculative_algorithm': {algorithm}, 'speculative_draft_model_path': {draft}}}"
            )
        else:
            inner = (
                f"ServerArgs(model_path='/models/base', mem_fraction_static=0.85, tp_size={self.tp}, api_key='k1', "
                f"speculative_algorithm={algorithm}, speculative_draft_model_path={draft})"
            )
        return f"{self.stamp()}server_args={inner}"

    def _rank(self, rank: int) -> Iterator[str]:
        s = self.sizes
        yield from (self.stamp(rank) + text for text in self._distributed())
        free = s.before
        yield from self._weights(rank, "KimiK25ForConditionalGeneration", free, s.base)
        free -= s.base
        if self.since("0.5.14"):
            if self.spec:
                yield from self._weights(rank, "LlamaForCausalLMEagle3", free, s.draft)
                free -= s.draft
            yield from self._pool(rank, s.kv, free - s.kv - s.table)
            free -= s.kv + s.table
            if self.spec:
                yield from self._pool(rank, s.kv_draft, free - s.kv_draft)
                free -= s.kv_draft
            graphs = [("target verify" if self.spec else "target decode", s.decode)]
            graphs += [("draft decode", s.draft_decode), ("draft extend", s.extend)] if self.spec else []
            for name, used in graphs:
                yield from self._new_graph(rank, name, free, used)
                free -= used
        else:
            yield from self._pool(rank, s.kv, free - s.kv - s.table)
            free -= s.kv + s.table
            yield from self._old_graph(rank, "", free, s.decode)
            free -= s.decode
            if self.spec:
                yield from self._weights(rank, "LlamaForCausalLMEagle3", free, s.draft)
                free -= s.draft
                yield from self._pool(rank, s.kv_draft, free - s.kv_draft)
                free -= s.kv_draft
                yield from self._old_graph(rank, "draft ", free, s.draft_decode)
                free -= s.draft_decode
                if self.since("0.4.7"):
                    yield from self._old_graph(rank, "draft extend ", free, s.extend)
                    free -= s.extend
        if rank == 0:
            tail = f", available_gpu_mem={free:.2f} GB" if self.since("0.5.2") else ""
            yield (
                f"{self.stamp(rank)}max_total_num_tokens={s.tokens}, chunked_prefill_size=8192, "
                f"max_prefill_tokens=16384, max_running_requests=48, context_len=262144{tail}"
            )

    def _distributed(self) -> list[str]:
        if self.since("0.5.21"):
            return [
                "Init parallel begin.",
                "Init parallel ends. elapsed=1.20 s",
                "Memory baseline taken. mem usage=0.60 GB",
            ]
        elapsed = "elapsed=1.20 s, " if self.since("0.5.9") else ""
        return ["Init torch distributed begin.", f"Init torch distributed ends. {elapsed}mem usage=0.60 GB"]

    def _weights(self, rank: int, name: str, free: float, used: float) -> Iterator[str]:
        yield f"{self.stamp(rank)}Load weight begin. avail mem={free:.2f} GB"
        head = "elapsed=61.20 s, " if self.since("0.5.9") else ""
        kind = "quant=compressed-tensors, " if self.since("0.5.10") else "dtype=torch.bfloat16, "
        yield (
            f"{self.stamp(rank)}Load weight end. {head}type={name}, {kind}avail mem={free - used:.2f} GB, "
            f"mem usage={used:.2f} GB."
        )

    def _pool(self, rank: int, gib: float, free: float) -> Iterator[str]:
        dtype = "dtype: torch.bfloat16, " if self.since("0.5.13") else ""
        yield f"{self.stamp(rank)}KV Cache is allocated. {dtype}#tokens: {self.sizes.tokens}, KV size: {gib:.2f} GB"
        yield f"{self.stamp(rank)}Memory pool end. avail mem={free:.2f} GB"

    def _old_graph(self, rank: int, name: str, free: float, used: float) -> Iterator[str]:
        yield (
            f"{self.stamp(rank)}Capture {name}cuda graph begin. This can take up to several minutes. "
            f"avail mem={free:.2f} GB"
        )
        usage, avail = f"mem usage={used:.2f} GB. ", f"avail mem={free - used:.2f} GB. "
        parts = usage + avail if self.since("0.4.7") else avail + usage
        yield f"{self.stamp(rank)}Capture {name}cuda graph end. Time elapsed: 7.23 s. {parts.strip()}"

    def _new_graph(self, rank: int, name: str, free: float, used: float) -> Iterator[str]:
        per = "num_tokens_per_req" if self.since("0.5.16") else "num_tokens_per_bs"
        yield (
            f"{self.stamp(rank)}Capture {name} CUDA graph begin. backend=full, {per}=4, bs=[1, 2, 4], "
            f"avail mem={free:.2f} GB"
        )
        yield (
            f"{self.stamp(rank)}Capture {name} CUDA graph end. elapsed=7.23 s, mem usage={used:.2f} GB, "
            f"avail mem={free - used:.2f} GB."
        )


def decode_line(version: str = "0.5.23", rank: str = " TP0", second: int = 0, **values: object) -> str:
    """A decode line. `values` replaces fields by their names in the log, None leaves one out."""
    old = tuple(int(part) for part in version.split(".")) < (0, 5, 4)
    fields: dict[str, object] = {
        "#running-req": 9,
        "#token": 543,
        "token usage": "0.03",
        "accept len": "2.41",
        "accept rate": "0.47",
        "cuda graph": True,
        "gen throughput (token/s)": "394.28",
        "#queue-req": 2,
    }
    fields.update(values)
    pairs = ", ".join(f"{key}: {value}" for key, value in fields.items() if value is not None)
    head, tail = ("Decode batch. ", ", ") if old else ("Decode batch, ", "")
    return f"[2026-11-29 13:00:{second % 60:02d}{rank}] {head}{pairs}{tail}"


TRACEBACK = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py", line 6362, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/venv/lib/python3.11/site-packages/sglang/srt/mem_cache/pool.py", line 3050, in configure
    raise ValueError(
"""


@pytest.fixture(name="writer")
def _writer() -> type[Writer]:
    return Writer


@pytest.fixture(name="sizes")
def _sizes() -> type[Sizes]:
    return Sizes


@pytest.fixture(name="read")
def _read() -> Callable[..., list[Fact]]:
    return read


@pytest.fixture(name="split")
def _split() -> Callable[..., dict[str, RankLedger]]:
    return split


@pytest.fixture(name="decode_line")
def _decode_line() -> Callable[..., str]:
    return decode_line


@pytest.fixture(name="traceback_text")
def _traceback_text() -> str:
    return TRACEBACK


@pytest.fixture
def diagnose(read) -> Callable[[str | Iterable[str]], Verdict | None]:
    """diagnose(text or lines): the verdict on a whole log."""

    def run(text: str | Iterable[str]) -> Verdict | None:
        doctor = Doctor()
        doctor.extend(read(text))
        verdict = doctor.conclude()
        assert verdict is None or (verdict.kind in KINDS and verdict.kind != "none")
        return verdict

    return run
