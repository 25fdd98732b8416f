"""A day of a busy server in minutes: millions of lines, restarts, rotations, outages, lost cards, resizes.

SOAK_LINES (10 000 000) lines are written over SOAK_S (600) seconds. The dashboard must hold what it needs and no more.
"""

import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

LINES = int(os.environ.get("SOAK_LINES", "10000000"))
SECONDS = float(os.environ.get("SOAK_S", "600"))
STEP_S = 0.25
MOST_MIB = 120
MOST_GROWTH_MIB = 6
DAY_S = 86_400
LAST = "the very last line of the day"
GPUS = "\n".join(f"gpu {i} name NVIDIA H20\ngpu {i} total 97887\ngpu {i} used {75_000 + i}" for i in range(8)) + "\n"
START = "[{stamp} TP{rank}] Load weight begin. avail mem=94.08 GB\n" \
        "[{stamp} TP{rank}] Load weight end. type=M, avail mem=21.75 GB, mem usage=72.33 GB.\n"  # fmt: skip
DECODE = (
    "[{stamp} TP0] Decode batch, #running-req: {running}, #token: {tokens}, token usage: 0.42, cuda graph: True, "
    "gen throughput (token/s): {speed:.2f}, #queue-req: 0\n"
)
NOISE = '[{stamp}] INFO:     127.0.0.1:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
ERROR = "[{stamp} TP3] Scheduler hit an exception: Traceback (most recent call last):\n" \
        '  File "scheduler.py", line 1, in run\nRuntimeError: something of its own {tokens}\n\n'  # fmt: skip


class Day:
    """The log of a simulated day, written at speed; the clock in it runs as far as its lines do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        self._random = random.Random(1)
        self._block = ""
        self._began = time.time() - DAY_S

    def stamp(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._began + DAY_S * self.written / LINES))

    def restart(self) -> None:
        with self.path.open("a") as file:
            file.write("".join(START.format(stamp=self.stamp(), rank=rank) for rank in range(8)))

    def rotate(self) -> None:
        self.path.replace(f"{self.path}.1")

    def truncate(self) -> None:
        os.truncate(self.path, 0)

    def replace(self) -> None:
        new = Path(f"{self.path}.new")
        new.write_text(f"[{self.stamp()}] another file\n")
        new.replace(self.path)

    def fail(self) -> None:
        with self.path.open("a") as file:
            file.write(ERROR.format(stamp=self.stamp(), tokens=self.written))

    def write(self, lines: int) -> None:
        pick, stamp = self._random, self.stamp()
        block = [
            (NOISE if number % 3 == 0 else DECODE).format(
                stamp=stamp, running=number % 48, tokens=self.written + number, speed=pick.uniform(900, 1100)
            )
            for number in range(min(lines, 500))
        ]
        with self.path.open("a") as file:
            for start in range(0, lines, 500):
                file.write("".join(block[: lines - start]))
        self.written += lines


def resident_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def end_in_sight(shown) -> bool:
    """Put aside what lies over the log, follow its end, have every cell sent again, until the last line is there."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        for key in ("\x1b", "\x1b"):  # a message first, then the verdict
            shown.keys(key)
            shown.read(lambda _: False, 0.4)
        before = len(shown.sent)
        shown.keys("\x0c")
        shown.read(lambda _: False, 1.5)
        if LAST.encode() in shown.sent:
            return True
        if b"PAUSED" in shown.sent[before:]:
            shown.keys("f")
    return False


@pytest.mark.soak
def test_a_day_in_minutes(screen, server, driver: Path, faults, tmp_path: Path, capsys) -> None:
    day, gpus = Day(tmp_path / "server.log"), tmp_path / "gpus"
    gpus.write_text(GPUS)
    day.restart()
    shown = screen("attach", "--log", str(day.path), "--url", server.url, size=(120, 40),
                   LD_LIBRARY_PATH=str(driver), FAKE_NVML_STATE=str(gpus))  # fmt: skip
    assert shown.shows("GPU7")

    def driver_says(text: str) -> None:
        new = tmp_path / "gpus.new"
        new.write_text(text)
        new.replace(gpus)

    def outage() -> None:
        server.reply = lambda handler: handler.answer(500, b"out of order")

    def well() -> None:
        server.reply = faults.healthy
        driver_says(GPUS)

    events: list[Callable[[], None]] = [
        day.rotate, day.restart, day.fail, outage, well, day.truncate, day.replace,
        lambda: driver_says(GPUS + "gpu 5 fail all 15\n"), lambda: driver_says("fail count 999\n"), well,
        lambda: shown.resize(80, 24), lambda: shown.resize(200, 60), lambda: shown.resize(1, 1),
        lambda: shown.resize(120, 40), lambda: shown.keys("zw"), lambda: shown.keys("ef"),
    ]  # fmt: skip
    began, samples, happened = time.monotonic(), [resident_mib(shown.pid)], 0
    while (spent := time.monotonic() - began) < SECONDS or day.written < LINES:
        due = min(LINES, int(LINES * spent / SECONDS))
        if due > day.written:
            day.write(min(due - day.written, 50_000))
        if spent > (happened + 1) * SECONDS / 200:
            events[happened % len(events)]()
            happened += 1
        shown.read(lambda _: False, STEP_S)
        shown.sent = shown.sent[-10_000:]
        samples.append(resident_mib(shown.pid))
    well()
    shown.resize(120, 40)
    with day.path.open("a") as file:
        file.write(f"{LAST}\n")
    told = end_in_sight(shown)
    quarter = len(samples) // 4
    middle, late = statistics.median(samples[quarter : 2 * quarter]), statistics.median(samples[-quarter:])
    figures = {"lines": day.written, "seconds": round(spent), "events": happened, "first_mib": samples[0],
               "second_quarter_mib": middle, "last_quarter_mib": late, "most_mib": max(samples)}  # fmt: skip
    with capsys.disabled():
        print("\n" + json.dumps(figures))
    assert told, shown.sent[-4000:]
    assert max(samples) <= MOST_MIB
    assert late - middle <= MOST_GROWTH_MIB
    shown.keys("q")
    assert shown.ended() == 0
