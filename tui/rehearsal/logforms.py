"""SGLang's log lines in the words of each version (sglang-facts 2). Pure: numbers in, text out; sizes are GiB."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tui.frozen import frozen
from tui.rehearsal.launch import Rank
from tui.sglang.versions import Version

GRAPH_PHASES = ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")


@frozen
class DecodeFields:
    """What a decode line tells. `usage`: 0 to 1. `accept_len` None without speculation."""

    running: int
    tokens: int
    usage: float
    tok_s: float
    queue: int
    graph: bool
    accept_len: float | None = None
    steps: int = 0
    draft_tokens: int = 1


class LogForms:
    """The lines of one version."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self._since = version.at_least

    def stamped(self, message: str, rank: Rank | None, at: float) -> str:
        """A whole log record; the main process has no rank."""
        tags = "".join(f" {name}{number}" for name, number in rank.tags) if rank else ""
        return f"[{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}{tags}] {message}"

    def server_args(self, args: Mapping[str, Any]) -> str:
        """One line with every argument: a call up to 0.5.18, a dict of resolved values later."""
        if self._since(0, 5, 19):
            return f"server_args={dict(args)!r}"
        return f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in args.items())})"

    def dist_begin(self) -> str:
        return "Init parallel begin." if self._since(0, 5, 21) else "Init torch distributed begin."

    def dist_end(self, elapsed_s: float, used_gib: float) -> tuple[str, ...]:
        if self._since(0, 5, 21):
            return (
                f"Init parallel ends. elapsed={elapsed_s:.2f} s",
                f"Memory baseline taken. mem usage={used_gib:.2f} GB",
            )
        if self._since(0, 5, 9):
            return (f"Init torch distributed ends. elapsed={elapsed_s:.2f} s, mem usage={used_gib:.2f} GB",)
        return (f"Init torch distributed ends. mem usage={used_gib:.2f} GB",)

    def weights_begin(self, avail_gib: float) -> str:
        return f"Load weight begin. avail mem={avail_gib:.2f} GB"

    def weights_end(
        self, elapsed_s: float, model_class: str, quant: str | None, avail_gib: float, used_gib: float
    ) -> str:
        elapsed = f"elapsed={elapsed_s:.2f} s, " if self._since(0, 5, 9) else ""
        if self._since(0, 5, 10):
            kind = f"quant={quant}, " if quant else ""
        else:
            kind = "dtype=torch.bfloat16, "
        return (
            f"Load weight end. {elapsed}type={model_class}, {kind}avail mem={avail_gib:.2f} GB, "
            f"mem usage={used_gib:.2f} GB."
        )

    def shards(self, done: int, total: int, elapsed_s: float) -> str:
        """The bar of tqdm on stderr, without its carriage return."""
        what = "Multi-thread loading shards" if self._since(0, 5, 5) else "Loading safetensors checkpoint shards"
        rate = "?it/s" if not done else _rate(done, elapsed_s)
        left = (total - done) * elapsed_s / done if done else None
        clock = f"{_clock(elapsed_s)}<{_clock(left) if left is not None else '?'}"
        return f"{what}: {100 * done // total:3d}% Completed | {done}/{total} [{clock}, {rate}]"

    def kv_dtype(self) -> str | None:
        """Rank 0, 0.5.3 – 0.5.12."""
        return (
            "Using KV cache dtype: torch.bfloat16" if self._since(0, 5, 3) and self.version.before(0, 5, 13) else None
        )

    def kv_pool(self, tokens: int, gib: float, latent: bool) -> str:
        """`latent`: MLA has one pool, others K and V."""
        dtype = "dtype: torch.bfloat16, " if self._since(0, 5, 13) else ""
        size = f"KV size: {gib:.2f} GB" if latent else f"K size: {gib / 2:.2f} GB, V size: {gib / 2:.2f} GB"
        return f"KV Cache is allocated. {dtype}#tokens: {tokens}, {size}"

    def pool_end(self, avail_gib: float) -> str:
        return f"Memory pool end. avail mem={avail_gib:.2f} GB"

    def graph_begin(self, name: str, avail_gib: float, sizes: Sequence[int], per_request: int) -> str:
        """`name` in the words of 0.5.14 and later: "target decode", "target prefill", "draft extend"…"""
        if not self._since(0, 5, 14):
            if name == "target prefill":
                return f"Capture piecewise CUDA graph begin. avail mem={avail_gib:.2f} GB"
            return (
                f"Capture {_old_name(name)}cuda graph begin. This can take up to several minutes. "
                f"avail mem={avail_gib:.2f} GB"
            )
        backend = "breakable" if name == "target prefill" and self._since(0, 5, 15) else "full"
        if name == "target prefill":
            sized = f"num_tokens={list(sizes)}, avail mem={avail_gib:.2f} GB"
            return f"Capture {name} CUDA graph begin. backend={backend}, {sized}"
        count = "num_tokens_per_req" if self._since(0, 5, 16) else "num_tokens_per_bs"
        listed = f"bs={list(sizes)}, " if not self._sizes_at_end(name) else ""
        return (
            f"Capture {name} CUDA graph begin. backend={backend}, {count}={per_request}, {listed}"
            f"avail mem={avail_gib:.2f} GB"
        )

    def graph_end(self, name: str, elapsed_s: float, used_gib: float, avail_gib: float, sizes: Sequence[int]) -> str:
        if self._since(0, 5, 14):
            listed = f"bs={list(sizes)}, " if self._sizes_at_end(name) else ""
            return (
                f"Capture {name} CUDA graph end. {listed}elapsed={elapsed_s:.2f} s, mem usage={used_gib:.2f} GB, "
                f"avail mem={avail_gib:.2f} GB."
            )
        used, avail = f"mem usage={used_gib:.2f} GB.", f"avail mem={avail_gib:.2f} GB."
        if name == "target prefill":
            return f"Capture piecewise CUDA graph end. Time elapsed: {elapsed_s:.2f} s. {used} {avail}"
        order = f"{used} {avail}" if self._since(0, 4, 7) else f"{avail} {used}"
        return f"Capture {_old_name(name)}cuda graph end. Time elapsed: {elapsed_s:.2f} s. {order}"

    def graph_sizes(self, name: str, sizes: Sequence[int]) -> str | None:
        """Rank 0 names the sizes up to 0.5.13."""
        if self._since(0, 5, 14) or name.startswith("draft"):
            return None
        what = "num tokens" if name == "target prefill" else "bs"
        return f"Capture cuda graph {what} {list(sizes)}"

    def capturing(self, name: str, size: int, avail_gib: float, done: int, total: int, elapsed_s: float) -> str:
        """The bar of tqdm on stderr, without its carriage return."""
        if name == "target prefill":
            inside = f"Capturing num tokens (num_tokens={size} avail_mem={avail_gib:.2f} GB)"
        elif self._since(0, 4, 7):
            inside = f"Capturing batches (bs={size} avail_mem={avail_gib:.2f} GB)"
        else:
            inside = f"Capturing batches (avail_mem={avail_gib:.2f} GB)"
        filled = 10 * done // total
        rate = _rate(done, elapsed_s) if done else "?it/s"
        left = _clock((total - done) * elapsed_s / done) if done else "?"
        bar = "█" * filled + " " * (10 - filled)
        return f"{inside}: {100 * done // total:3d}%|{bar}| {done}/{total} [{_clock(elapsed_s)}<{left}, {rate}]"

    def summary(
        self, tokens: int, chunk: int, prefill_tokens: int, requests: int, context_len: int, avail_gib: float
    ) -> str:
        avail = f", available_gpu_mem={avail_gib:.2f} GB" if self._since(0, 5, 2) else ""
        return (
            f"max_total_num_tokens={tokens}, chunked_prefill_size={chunk}, max_prefill_tokens={prefill_tokens}, "
            f"max_running_requests={requests}, context_len={context_len}{avail}"
        )

    def startup_timings(self, seconds: Mapping[str, float], graphs: Mapping[str, float]) -> str | None:
        """The main process, as recorded from 0.5.23; when it came in was not read."""
        if self.version.before(0, 5, 23):
            return None
        phases = ", ".join(f"{name}={graphs.get(name, 0.0):.2f}" for name in GRAPH_PHASES)
        before = ", ".join(
            f"{name}={seconds[name]:.2f}" for name in ("load_weight", "kv_cache_allocation", "scheduler_e2e")
        )
        after = f"tokenizer_e2e={seconds['tokenizer_e2e']:.2f}"
        return f"Engine startup timings (s): {before}, cuda_graph={{{phases}}}, {after}"

    def _sizes_at_end(self, name: str) -> bool:
        return name.startswith("target") and name != "target prefill" and self._since(0, 5, 20)

    def decode(self, fields: DecodeFields) -> str:
        """One decode line; `accept rate` by the version's own definition."""
        accept = ""
        if fields.accept_len is not None:
            accept = f"accept len: {fields.accept_len:.2f}, "
            rate = self.accept_rate(fields.accept_len, fields.steps, fields.draft_tokens)
            if rate is not None:
                accept += f"accept rate: {rate:.2f}, "
        comma = "," if self._since(0, 5, 4) else "."
        tail = ", " if self._since(0, 5, 2) and self.version.before(0, 5, 6) else ""
        return (
            f"Decode batch{comma} #running-req: {fields.running}, #token: {fields.tokens}, "
            f"token usage: {fields.usage:.2f}, {accept}cuda graph: {fields.graph}, "
            f"gen throughput (token/s): {fields.tok_s:.2f}, #queue-req: {fields.queue}{tail}"
        )

    def accept_rate(self, accept_len: float, steps: int, draft_tokens: int) -> float | None:
        """0.5.3 – 0.5.7 L / (steps + 1); 0.5.8 – 0.5.10 L / draft tokens; later (L - 1) / (draft tokens - 1)."""
        if not self._since(0, 5, 3):
            return None
        if not self._since(0, 5, 8):
            return accept_len / (steps + 1)
        if not self._since(0, 5, 11):
            return accept_len / draft_tokens
        return (accept_len - 1) / max(1, draft_tokens - 1)

    def prefill(
        self, seqs: int, tokens: int, cached: int, usage: float, running: int, queue: int, graph: bool, tok_s: float
    ) -> str:
        comma = "," if self._since(0, 5, 4) else "."
        pending = "#pending-token: 0, " if self._since(0, 5, 11) else ""
        tail = f"cuda graph: {graph}, input throughput (token/s): {tok_s:.2f}" if self._since(0, 5, 9) else ""
        if not tail:
            pending = pending.removesuffix(", ")
        queue_end = ", " if tail or (self._since(0, 5, 2) and self.version.before(0, 5, 6)) else ""
        return (
            f"Prefill batch{comma} #new-seq: {seqs}, #new-token: {tokens}, #cached-token: {cached}, "
            f"token usage: {usage:.2f}, #running-req: {running}, #queue-req: {queue}{queue_end}{pending}{tail}"
        )

    def retracted(self, requests: int, gained: int, before: float, after: float) -> str:
        """KV slots ran out and requests went back into the queue."""
        what = "KV cache pool is full. Retract requests." if self._since(0, 5, 0) else "Decode out of memory happened."
        tokens = f"#new_tokens_gained: {gained}, " if self._since(0, 5, 6) else ""
        return f"{what} #retracted_reqs: {requests}, {tokens}#new_token_ratio: {before:.4f} -> {after:.4f}"


def _old_name(name: str) -> str:
    return {"draft decode": "draft ", "draft extend": "draft extend "}.get(name, "")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"


def _rate(done: int, elapsed_s: float) -> str:
    if elapsed_s <= 0:
        return "?it/s"
    rate = done / elapsed_s
    return f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"
