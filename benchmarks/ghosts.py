"""From the key that changes a knob to the forecast's bars on the screen."""

import os
import statistics
import time
from collections.abc import Iterator

from benchmarks.pty_meter import end, start, wait_for
from benchmarks.scene import Scene
from benchmarks.table import Row

PLAN = b"plan"  # the word before a forecast's bar, and nowhere else on the screen
PANES = 6
UNDO, REDO = b"u", b"\x12"


def rows(scene: Scene, quick: bool) -> Iterator[Row]:
    pid, master = start(scene.specdeck, 40, 120, scene.environ())
    wait_for(master, b"help", 20.0)
    wait_for(master, b"never sent", 3.0)
    took = _times(master, 10 if quick else 40) if _knob_changed(master) else []
    end(pid, master)
    worst = f"at worst {max(took) * 1000:.0f} ms" if took else "no knob was changed"
    yield Row("knob changed -> forecast's bars, median", statistics.median(took) * 1000 if took else None, "ms", 100.0,
              note=worst)  # fmt: skip


def _knob_changed(master: int) -> bool:
    """Step a knob, in whichever pane has them."""
    for _ in range(PANES):
        os.write(master, b"+")
        if wait_for(master, PLAN, 2.0) is not None:
            return True
        os.write(master, b"\t")
        wait_for(master, b"never sent", 0.5)
    return False


def _times(master: int, count: int) -> list[float]:
    took = []
    for number in range(count):
        os.write(master, UNDO)
        wait_for(master, b"never sent", 0.4 + number % 7 * 0.03)
        began = time.monotonic()
        os.write(master, REDO)
        seen = wait_for(master, PLAN, 10.0)
        took.append(seen - began if seen is not None else 10.0)
    return took
