"""The place where all programs are measured: a simulated server, a driver with N cards, and a log that grows."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[1]
PROFILE = "kimi-k2.5-base"
LINE = (
    "[2026-11-29 12:40:{second:02d} TP0] Decode batch, #running-req: {running}, #token: {tokens}, token usage: {usage},"
    " cuda graph: True, gen throughput (token/s): {speed:.2f}, #queue-req: 0\n"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def log_line(number: int) -> str:
    """A decode line as a busy server writes them; every one differs."""
    return LINE.format(
        second=number // 10 % 60,
        running=10 + number % 7,
        tokens=41_000 + number * 37 % 5000,
        usage=0.35 + number % 40 / 1000,
        speed=1100 + number * 31 % 97,
    )


class Scene:
    """Temporary folder, environment and helpers. Everything it started ends with it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="specdeck-bench-"))
        self.specdeck = [sys.executable, "-m", "tui"]
        self.startup = ""
        self.url = ""

    def __enter__(self) -> Self:
        done = subprocess.run(
            [*self.specdeck, "run", PROFILE, "--rehearsal", "--speed", "600", "--wait", "ready", "--yes",
             "--set", f"port={free_port()}"],
            env=self.environ(), cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            self.__exit__()
            raise SystemExit(f"The rehearsal did not start: {done.stderr or done.stdout}")
        run = max((self.folder / "state" / "runs").iterdir())
        text = (run / "server.log").read_text()
        self.startup = text[: text.index("\n", text.index("ready to roll")) + 1]
        status = subprocess.run(
            [*self.specdeck, "status", "--json"], env=self.environ(), cwd=ROOT, capture_output=True, check=False
        )
        self.url = json.loads(status.stdout)["url"]
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(
            [*self.specdeck, "stop", "--yes"], env=self.environ(), cwd=ROOT, capture_output=True, check=False
        )
        shutil.rmtree(self.folder, ignore_errors=True)

    def environ(self, *, gpus: int = 8, moves: bool = False) -> dict[str, str]:
        """For any program measured here."""
        told = {
            **os.environ,
            "SPECDECK_STATE_DIR": str(self.folder / "state"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "PYTHONPATH": str(ROOT),
            "BENCH_GPUS": str(gpus),
            "BENCH_MOVES": "1" if moves else "0",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        if self.driver is not None:
            told["LD_LIBRARY_PATH"] = str(self.driver)
        return told

    @cached_property
    def driver(self) -> Path | None:
        """A folder with a libnvidia-ml.so.1, or None without a C compiler."""
        folder = self.folder / "driver"
        folder.mkdir()
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1")]
        with suppress(OSError):
            done = subprocess.run([*command, str(ROOT / "benchmarks/gpus.c"), "-lm"], capture_output=True, check=False)
            if done.returncode == 0:
                return folder
        return None

    def log(self, name: str = "server.log", ranks: int = 8) -> Path:
        """A log that holds the start of a server of so many ranks."""
        path = self.folder / name
        text = self.startup
        if ranks > 8:
            lines = text.splitlines(keepends=True)
            text = "".join(
                line.replace(" TP7]", f" TP{rank}]") if " TP7]" in line else line
                for line in lines
                for rank in (range(7, ranks) if " TP7]" in line else (7,))
            ).replace("tp_size=8", f"tp_size={ranks}")
        path.write_text(text)
        return path

    def attach(self, *more: str) -> list[str]:
        return [*self.specdeck, "attach", *more]


@contextmanager
def growing(path: Path, lines_per_s: float, burst: int = 1) -> Iterator[None]:
    """Append lines at this rate until the block ends, `burst` of them at a time."""
    stop = threading.Event()

    def write() -> None:
        with path.open("a") as file:
            number, began = 0, time.monotonic()
            while not stop.wait(max(0.0, began + number / lines_per_s - time.monotonic())):
                file.write("".join(log_line(number + i) for i in range(burst)))
                file.flush()
                number += burst

    thread = threading.Thread(target=write)
    if lines_per_s > 0:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if lines_per_s > 0:
            thread.join()
