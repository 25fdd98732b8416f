"""A log of 1 GB: the end on the screen, the whole index, and the doctor, beside grep and lnav."""

import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.flood import STALL_S, watched
from benchmarks.peers import system
from benchmarks.pty_meter import answer, end, start, wait_for
from benchmarks.scene import Scene, log_line
from benchmarks.startup import command_s
from benchmarks.table import Row

LAST = "[2026-11-29 23:59:59] the very last line of it"


def make(scene: Scene, size: int) -> Path:
    log = scene.log("big.log")
    block = "".join(map(log_line, range(20_000))).encode()
    with log.open("ab") as file:
        for _ in range(size // len(block)):
            file.write(block)
        file.write(f"{LAST}\n".encode())
    return log


def rows(scene: Scene, quick: bool) -> Iterator[Row]:
    size = 100_000_000 if quick else 1_000_000_000
    log, environ = make(scene, size), scene.environ()
    name = f"{size // 1_000_000} MB log"
    frame, last = _end_seen(scene.attach("--log", str(log)), environ)
    lnav = system("lnav")
    peers = {"lnav": _lnav_s([lnav, "-q", str(log)], environ) if lnav else None}
    seen = last - frame if frame is not None and last is not None else None
    yield Row(f"{name}: end on the screen after the first frame", seen, "s", 0.3, peers)
    lines = int(subprocess.run(["wc", "-l", str(log)], capture_output=True, text=True, check=True).stdout.split()[0])
    whole = watched(scene, log, lines, lambda: None)
    folded = f"from the start of the program; folded after {whole['seconds']:.1f} s"
    yield Row(f"{name}: whole file indexed", whole["indexed_s"], "s", 8.0, note=folded)
    late = f"99.9 % of the loop's rounds are late by less than {whole['p999_s'] * 1000:.0f} ms"
    yield Row(f"{name}: longest stall meanwhile", whole["longest_s"] * 1000, "ms", STALL_S * 1000, note=late)
    for typed, search in whole["searches"].items():
        note = f"{search['seconds']:.1f} s for all of it"
        yield Row(
            f"{name}: longest stall while {typed} is searched",
            search["longest_s"] * 1000,
            "ms",
            STALL_S * 1000,
            note=note,
        )
    grep = command_s(["grep", "-c", "ERROR", str(log)], environ, 3)
    doctor = command_s([*scene.specdeck, "doctor", str(log)], environ, 3)
    yield Row(f"{name}: doctor", doctor / grep, "x grep -c", 3.0, note=f"{doctor:.2f} s, grep -c {grep:.2f} s")


def _end_seen(command: list[str], environ: dict[str, str]) -> tuple[float | None, float | None]:
    pid, master = start(command, 40, 120, environ)
    frame = wait_for(master, b"help", 20.0)
    last = wait_for(master, LAST[-12:].encode(), 60.0) if frame is not None else None
    end(pid, master)
    return frame, last


def _lnav_s(command: list[str], environ: dict[str, str]) -> float | None:
    """Seconds from its start until the last line is on lnav's screen."""
    began, seen = time.monotonic(), b""
    pid, master = start(command, 40, 120, environ)
    found = None
    while found is None and time.monotonic() - began < 90:
        if select.select([master], [], [], 0.1)[0]:
            with suppress(OSError):
                chunk = os.read(master, 65536)
                answer(master, chunk)
                seen = seen[-4096:] + chunk
                found = time.monotonic() - began if b"last line of it" in seen else None
    end(pid, master)
    return found
