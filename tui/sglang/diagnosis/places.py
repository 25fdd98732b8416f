"""Which reports mean what by themselves: certain ends, warnings, noise of dying peers."""

from tui.facts import DecodeBatch, Fact, LogFact, PrefillBatch, Problem, ServerReady, Traceback

# A process ends with these, whatever comes after.
STICKY = frozenset(("process-exception", "sigquit", "subprocess-crashed", "rank-died", "rank-dead", "bad-flag"))

# SGLang goes on after these; they speak only when it ends and nothing else does.
WARNINGS = frozenset(
    (
        "profiled-smaller", "pool-below-context", "kv-retracted", "kv-aborted", "input-too-long", "state-capped",
        "requests-reduced", "nccl-warn", "capture-advice", "stack-dump", "health-check-failed",
    )
)  # fmt: skip

# What follows from a death, or announces one, without saying why.
CONSEQUENCES = frozenset(
    (
        "sigquit", "init-failed", "warmup-failed", "exit-code", "process-exception", "process-terminated",
        "shell-killed", "rank-died", "rank-dead", "subprocess-crashed", "segfault", "aborted", "stack-dump",
        "capture-advice", "peer-closed", "health-check-failed",
    )
)  # fmt: skip

NETWORK = frozenset(("nccl-timeout", "nccl-error", "gloo-error", "store-error", "dns-failed", "nccl-warn"))

# These end the server even where only the bare words are left of them.
ENDS = frozenset(
    (
        "bad-flag", "budget-refused", "not-enough-memory", "profiled-negative", "port-in-use", "port-forbidden",
        "gpu-unbalanced", "watchdog-timeout", "oom-killer", "capture-failed", "prefill-capture-failed", "bus-error",
        "kv-oom-prefill", "kv-oom-decode", "state-too-small", "state-no-memory", "pool-too-small",
        "no-request-slots", "swa-too-small", "host-cache-refused", "ptxas",
    )
)  # fmt: skip


def dismissed_by(trouble: Problem | Traceback, progress: Fact) -> bool:
    """Whether the server, or the rank, demonstrably went on after that report."""
    if isinstance(trouble, Problem) and trouble.code in STICKY:
        return False
    if not isinstance(progress, LogFact) or progress.line <= trouble.line:
        return False
    serving = isinstance(progress, DecodeBatch | PrefillBatch)
    if isinstance(trouble, Problem) and trouble.code in ("port-in-use", "port-forbidden"):
        return serving  # "ready" may have been answered by the program that holds the port
    if isinstance(progress, ServerReady):
        return True
    return progress.rank == trouble.rank or (serving and trouble.rank is None)
