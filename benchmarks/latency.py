"""From a line in the file to the same line, or its verdict, on the screen."""

import hashlib
import statistics
import time
from collections.abc import Iterator

from benchmarks.pty_meter import end, start, wait_for
from benchmarks.scene import Scene
from benchmarks.table import Row

DEATH = """[2026-11-29 12:50:00 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl/scheduler.py", line 2700, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, dp_rank)
  File "/sgl/model_runner.py", line 1300, in init_memory_pool
    raise RuntimeError(
RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.

"""


def rows(scene: Scene, quick: bool) -> Iterator[Row]:
    log, environ = scene.log("latency.log"), scene.environ()
    pid, master = start(scene.attach("--log", str(log)), 40, 120, environ)
    wait_for(master, b"help", 20.0)
    wait_for(master, b"never sent", 3.0)
    took = []
    for number in range(10 if quick else 40):
        # Lines come seldom here, so the pane shows each at once and scrolls for none.
        wait_for(master, b"never sent", 0.2 + number % 7 * 0.03)
        # Only cells that changed are sent: words that share letters with the row's old text would come in pieces.
        word = hashlib.sha256(str(number).encode()).hexdigest()[:16]
        began = time.monotonic()
        with log.open("a") as file:
            file.write(f"[2026-11-29 12:41:00] {word}\n")
        seen = wait_for(master, word[5:11].encode(), 10.0)
        took.append(seen - began if seen is not None else 10.0)
    end(pid, master)
    yield Row("line written -> on the screen, median", statistics.median(took) * 1000, "ms", 100.0)
    verdicts = [_verdict_s(scene, environ) for _ in range(3 if quick else 7)]
    yield Row("line written -> verdict, median", statistics.median(verdicts) * 1000, "ms", 150.0)


def _verdict_s(scene: Scene, environ: dict[str, str]) -> float:
    log = scene.log("death.log")
    loading = log.read_text().partition("KV Cache is allocated")[0].rpartition("\n")[0]
    log.write_text(loading + "\n")
    pid, master = start(scene.attach("--log", str(log)), 40, 120, environ)
    wait_for(master, b"help", 20.0)
    wait_for(master, b"never sent", 2.5)
    began = time.monotonic()
    with log.open("a") as file:
        file.write("".join(DEATH.format(rank=rank) for rank in range(8)))
        file.write("[2026-11-29 12:50:00] Received sigquit from a child process. It usually means the child failed.\n")
    seen = wait_for(master, b"leave no memory", 10.0)
    end(pid, master)
    return seen - began if seen is not None else 10.0
