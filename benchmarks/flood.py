"""A log that is written faster than anybody can read: is the screen alive, and is every line there once?"""

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.pty_meter import answer, end, start
from benchmarks.scene import LINE, Scene
from benchmarks.table import Row

STALL_S = 0.05
RATE = 5000
STEP_S = 0.01


def numbered(number: int) -> str:
    """A decode line that tells which one it is."""
    return LINE.format(
        second=number // 10 % 60,
        running=10 + number % 7,
        tokens=100_000_000 + number,
        usage=0.35 + number % 40 / 1000,
        speed=1100 + number * 31 % 97,
    )


def watched(scene: Scene, log: Path, lines: int, write: Callable[[], None], more: int = 0) -> dict[str, Any]:
    """What the app says about itself after `write` brought the log to so many lines, `more` of them `numbered`."""
    out = scene.folder / f"watched-{log.name}.json"
    ready = Path(f"{out}.ready")
    command = [sys.executable, "-m", "benchmarks.watched_app", str(log), str(out), str(lines), str(more)]
    pid, master = start(command, 40, 120, scene.environ(moves=True))
    writer, until = threading.Thread(target=write), time.monotonic() + 180
    while time.monotonic() < until and not out.exists():
        if ready.exists() and not writer.ident:
            writer.start()
        if select.select([master], [], [], 0.05)[0]:
            with suppress(OSError):
                answer(master, os.read(master, 65536))
    if writer.ident:
        writer.join()
    end(pid, master)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def rows(scene: Scene, quick: bool) -> Iterator[Row]:
    log = scene.log("burst.log")
    there = len(log.read_text().splitlines())
    block = "".join(map(numbered, range(50_000)))

    def burst() -> None:
        with log.open("a") as file:
            file.write(block)

    yield from _lines_of("a burst of 50 000 lines", watched(scene, log, there + 50_000, burst, 50_000), there + 50_000)
    seconds = 10 if quick else 60
    steady, lines = scene.log("steady.log"), seconds * RATE

    def stream() -> None:
        every, began = int(RATE * STEP_S), time.monotonic()
        with steady.open("a") as file:
            for first in range(0, lines, every):
                file.write("".join(map(numbered, range(first, first + every))))
                file.flush()
                time.sleep(max(0.0, began + (first + every) / RATE - time.monotonic()))

    found = watched(scene, steady, there + lines, stream, lines)
    yield from _lines_of(f"5 000 lines/s for {seconds} s", found, there + lines)


def _lines_of(what: str, found: dict[str, Any], lines: int) -> Iterator[Row]:
    note = f"99.9 % of the loop's rounds are late by less than {found['p999_s'] * 1000:.0f} ms"
    yield Row(f"{what}: longest stall", found["longest_s"] * 1000, "ms", STALL_S * 1000, note=note)
    lost = max(found["read_wrong"], found["indexed_wrong"], abs(lines - found["lines"]))
    lost = max(lost, abs(lines - found["folded_lines"]))
    note = "by each line's own number: read once and in order, and the same in the pane's index"
    yield Row(f"{what}: lines lost or doubled", lost, "lines", 0.0, note=note)
