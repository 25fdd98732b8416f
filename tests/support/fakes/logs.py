"""Logs for the log pane."""

import tempfile
from types import SimpleNamespace

from tui.sources.lineindex import LineIndex

TRACEBACK = """Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 3030, in run_scheduler_process
    scheduler = Scheduler(
  File "/opt/sglang/srt/model_executor/model_runner.py", line 1540, in init_memory_pool
    raise RuntimeError(
RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.
"""


def log_text(kind: str) -> str:
    """The log of a server that decodes ("decode"), loads ("start") or died of eight tracebacks ("crash")."""
    if kind == "decode":
        lines = [
            f"[2026-11-29 12:{38 + at // 60}:{at % 60:02d} TP0] Decode batch, #running-req: 12, "
            f"#token: {72_100 + 90 * at}, token usage: 0.62, accept len: 2.31, cuda graph: True, "
            f"gen throughput (token/s): {89.5 + at % 7 / 10:.2f}, #queue-req: 3"
            for at in range(90)
        ]
        return "\n".join(lines) + "\n"
    stamp = "2026-11-29 12:32"
    lines = [f"[{stamp}:{at:02d} TP{at % 8}] Load weight begin. avail mem=94.08 GB" for at in range(8)]
    lines += [f"[{stamp}:{at + 9:02d} TP{at % 8}] shard {at + 20}/64 read" for at in range(40)]
    if kind == "crash":
        lines += [f"[{stamp}:50 TP{at}] Load weight end. avail mem=21.75 GB, mem usage=72.33 GB." for at in range(8)]
        lines += [f"[{stamp}:52 TP{at}] {TRACEBACK}" for at in range(8)]
        lines.append(f"[{stamp}:53] Received sigquit from a child process. It usually means the child failed.")
    return "\n".join(lines) + "\n"


def written(kind: str) -> SimpleNamespace:
    """A log for `FakeFeed.log`, in a file that has no name any more."""
    with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
        file.write(log_text(kind))
        file.flush()
        index = LineIndex.open(file.name)
    while index.grow():
        pass
    return SimpleNamespace(index=index, lines_before=0)
