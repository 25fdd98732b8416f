"""Which group of the knobs pane a flag belongs to, and how it steps."""

GROUPS = ("memory", "speculation", "graphs", "batching", "parallel", "rest")

_MEMORY = frozenset(
    ("mem-fraction-static", "max-total-tokens", "kv-cache-dtype", "page-size", "context-length", "quantization",
     "dtype", "swa-full-tokens-ratio", "mamba-full-memory-ratio", "max-mamba-cache-size", "enable-memory-saver",
     "enable-symm-mem")
)  # fmt: skip
_BATCHING = frozenset(
    ("max-running-requests", "max-queued-requests", "chunked-prefill-size", "max-prefill-tokens",
     "enable-mixed-chunk", "disable-radix-cache", "disable-overlap-schedule", "stream-interval",
     "num-continuous-decode-steps", "enable-dynamic-chunking")
)  # fmt: skip
# (how a name begins or ends or what it holds, group): the first that fits counts.
_HOLDS = (
    ("speculative", "speculation"),
    ("cuda-graph", "graphs"),
    ("torch-compile", "graphs"),
    ("offload", "memory"),
    ("mamba", "memory"),
    ("hicache", "memory"),
    ("schedule", "batching"),
    ("prefill", "batching"),
)
_PARALLEL_ENDS = ("tp-size", "dp-size", "pp-size", "ep-size", "cp-size", "parallel-size", "nnodes", "node-rank",
                  "all-reduce", "dp-attention", "a2a-backend", "moe-runner-backend", "gpu-id-step")  # fmt: skip

# Flags whose sensible values are powers of two; every other whole number steps by one.
_DOUBLES = ("cuda-graph-max-bs", "max-running-requests", "chunked-prefill-size", "max-prefill-tokens", "page-size",
            "context-length", "max-total-tokens", "max-mamba-cache-size", "tp-size", "dp-size", "ep-size",
            "pp-size")  # fmt: skip


def group_of(name: str) -> str:
    """The group of a flag, one of GROUPS."""
    if name in _MEMORY:
        return "memory"
    if name in _BATCHING:
        return "batching"
    if name.endswith(_PARALLEL_ENDS) or name == "base-gpu-id":
        return "parallel"
    return next((group for part, group in _HOLDS if part in name), "rest")


def doubles(name: str) -> bool:
    """Whether + and - double and halve the value."""
    return name.startswith(_DOUBLES) or name.endswith(("tp-size", "dp-size"))
