"""A log that is written faster than anybody can read: is the screen alive, and is every line counted?"""

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.pty_meter import answer, end, start
from benchmarks.scene import Scene, growing, log_line
from benchmarks.table import Row

STALL_S = 0.05


def watched(scene: Scene, log: Path, lines: int, write: Callable[[], None]) -> dict[str, float]:
    """What the app says about itself after `write` brought the log to so many lines."""
    out = scene.folder / f"watched-{log.name}.json"
    ready = Path(f"{out}.ready")
    command = [sys.executable, "-m", "benchmarks.watched_app", str(log), str(out), str(lines)]
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
    found: dict[str, float] = json.loads(out.read_text())
    return found


def rows(scene: Scene, quick: bool) -> Iterator[Row]:
    log = scene.log("burst.log")
    there = len(log.read_text().splitlines())

    def burst() -> None:
        with log.open("a") as file:
            file.write("".join(map(log_line, range(50_000))))

    yield from _lines_of("a burst of 50 000 lines", watched(scene, log, there + 50_000, burst), there + 50_000)
    seconds = 10 if quick else 60
    steady = scene.log("steady.log")
    total = there + seconds * 5000

    def stream() -> None:
        with growing(steady, 5000.0, burst=50):
            while len(steady.read_bytes().splitlines()) < total - 15_000:
                time.sleep(0.5)
        left = total - len(steady.read_bytes().splitlines())
        with steady.open("a") as file:
            file.write("".join(map(log_line, range(left))))

    yield from _lines_of(f"5 000 lines/s for {seconds} s", watched(scene, steady, total, stream), total)


def _lines_of(what: str, found: dict[str, float], lines: int) -> Iterator[Row]:
    note = f"99.9 % of the loop's rounds are late by less than {found['p999_s'] * 1000:.0f} ms"
    yield Row(f"{what}: longest stall", found["longest_s"] * 1000, "ms", STALL_S * 1000, note=note)
    yield Row(f"{what}: lines lost", max(lines - found["lines"], lines - found["folded_lines"]), "lines", 0.0)
