"""How long until something is seen: the first frame, and the commands that need no screen."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.peers import program
from benchmarks.pty_meter import end, start, wait_for
from benchmarks.scene import PROFILE, Scene
from benchmarks.table import Row


def command_s(command: list[str], environ: dict[str, str], times: int) -> float:
    """Seconds of the fastest of so many runs: everything slower is another program's doing."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run(command, env=environ, capture_output=True, check=False)
        found.append(time.perf_counter() - began)
    return min(found)


def first_frame_s(command: list[str], environ: dict[str, str], wanted: bytes, times: int) -> float | None:
    """Seconds until `wanted` is on the screen, the fastest of so many starts."""
    found = []
    for _ in range(times):
        began = time.monotonic()
        pid, master = start(command, 40, 120, environ)
        seen = wait_for(master, wanted, 20.0)
        end(pid, master)
        if seen is not None:
            found.append(seen - began)
    return min(found, default=None)


def rows(scene: Scene, quick: bool) -> Iterator[Row]:
    times, environ = (3 if quick else 10), scene.environ()
    bare = statistics.median(command_s([sys.executable, "-c", "pass"], environ, 3) for _ in range(3))
    nvitop = program("nvitop")
    nvitop_s = command_s([str(nvitop), "--once"], environ, times) if nvitop else None
    frames = {"nvitop": first_frame_s([str(nvitop)], environ, b"GPU", times) if nvitop else None}
    log = scene.log("start.log")
    frame = first_frame_s(scene.attach("--log", str(log)), environ, b"help", times)
    yield Row("first painted frame", frame, "s", 0.35, frames)
    commands = (
        ("--help", ["--help"], 0.10),
        ("plan", ["plan", PROFILE, "--gpus", "8x97887MiB", "--json"], 0.25),
        ("status --json", ["status", "--json"], 0.25),
    )
    for name, arguments, limit in commands:
        took = command_s([*scene.specdeck, *arguments], environ, times)
        note = f"{took / bare:.1f} x python -c pass ({bare * 1000:.0f} ms)"
        if nvitop_s:
            note += f", {took / nvitop_s:.1f} x nvitop --once"
        yield Row(name, took, "s", limit, {"nvitop --once": nvitop_s} if name.startswith("status") else {}, note)
