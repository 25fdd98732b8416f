"""How many bytes a terminal program sends: `python benchmarks/pty_meter.py SECONDS WARM-UP ROWSxCOLUMNS COMMAND…`

Prints JSON: seconds to the first output, bytes until the end of the warm-up, then bytes per second, CPU percent of one
core, and resident MiB. PTY_OUT names a file for the raw bytes.
"""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

# Questions that terminals answer; a program that hears nothing may wait.
ANSWERS = ((b"\x1b[?2026$p", b"\x1b[?2026;2$y"), (b"\x1b[c", b"\x1b[?62;c"))


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> int:
    """Resident memory of a process, 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)


def start(command: list[str], rows: int, columns: int, environ: Mapping[str, str] | None = None) -> tuple[int, int]:
    """(pid, master) of the command on a pty of its own."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update(environ or {})
        os.environ.setdefault("COLORTERM", "truecolor")
        os.environ["TERM"] = os.environ.get("PTY_TERM", "xterm-256color")
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execvp(command[0], command)
    return pid, master


def answer(master: int, chunk: bytes) -> None:
    """Answer the questions in a chunk as a terminal does."""
    for question, words in ANSWERS:
        if question in chunk:
            os.write(master, words)


def end(pid: int, master: int) -> None:
    """End the program, by force after 0.4 s."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.4)
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(master)


def wait_for(master: int, wanted: bytes, limit_s: float) -> float | None:
    """The monotonic time at which `wanted` had been sent; None when it did not come in time."""
    sent, until = b"", time.monotonic() + limit_s
    while (now := time.monotonic()) < until:
        if not select.select([master], [], [], 0.05)[0]:
            continue
        try:
            chunk = os.read(master, 65536)
        except OSError:
            return None
        answer(master, chunk)
        sent = sent[-4096:] + chunk
        if wanted in sent:
            return now
    return None


def measure(
    command: list[str],
    seconds: float,
    warm_up: float,
    rows: int = 40,
    columns: int = 120,
    environ: Mapping[str, str] | None = None,
) -> tuple[dict[str, float], bytes]:
    """The figures, and all that was sent."""
    pid, master = start(command, rows, columns, environ)
    began, first, sent = time.monotonic(), None, bytearray()
    warm_bytes, warm_cpu = None, 0.0
    while (now := time.monotonic() - began) < seconds + warm_up:
        if warm_bytes is None and now >= warm_up:
            warm_bytes, warm_cpu = len(sent), cpu_s(pid)
        if not select.select([master], [], [], 0.1)[0]:
            continue
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        first = now if first is None else first
        answer(master, chunk)
        sent += chunk
    figures = {
        "first_output_s": round(first if first is not None else -1, 3),
        "startup_bytes": warm_bytes or 0,
        "bytes_per_s": round((len(sent) - (warm_bytes or 0)) / seconds),
        "cpu_percent": round(100 * (cpu_s(pid) - warm_cpu) / seconds, 2),
        "rss_mib": resident_mib(pid),
    }
    end(pid, master)
    return figures, bytes(sent)


def main() -> None:
    seconds, warm_up, size, *command = sys.argv[1:]
    rows, columns = (int(part) for part in size.split("x"))
    figures, sent = measure(command, float(seconds), float(warm_up), rows, columns)
    print(json.dumps(figures))
    if os.environ.get("PTY_OUT"):
        Path(os.environ["PTY_OUT"]).write_bytes(sent)


if __name__ == "__main__":
    main()
