"""How long `specdeck doctor` takes on a large serving log, beside `grep -c`.

    python benchmarks/doctor_big_log.py [MILLIONS_OF_DECODE_LINES]

The log (8 million lines, 1.2 GB by default) is generated in the temporary folder: a start, decode lines, one failure
near the end, access lines. It is deleted afterwards. Both programs read it from the page cache. `grep -c` is asked for
a word of every line, as the doctor must look at every line, and for one of none, which is a mere search.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START = """[2026-11-29 12:00:00] Init parallel begin.
[2026-11-29 12:00:01] Load weight begin. avail mem=78.00 GB
[2026-11-29 12:00:31] Load weight end. elapsed=30.00 s, type=LlamaForCausalLM, avail mem=62.00 GB, mem usage=16.00 GB.
[2026-11-29 12:00:32] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 393216, K size: 24.00 GB, V size: 24.00 GB
[2026-11-29 12:00:32] Memory pool end. avail mem=13.00 GB
[2026-11-29 12:00:40] The server is fired up and ready to roll!
"""
FAILURE = """[2026-11-29 14:00:00] Scheduler hit an exception: Traceback (most recent call last):
  File "/srv/sglang/srt/managers/scheduler.py", line 2410, in run_scheduler_process
    scheduler.event_loop_overlap()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.25 GiB is free.

[2026-11-29 14:00:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.
"""  # noqa: E501
ACCESS = '[2026-11-29 14:00:01] INFO:     127.0.0.1:1234 - "GET /health HTTP/1.1" 503 Service Unavailable\n'


def write_log(path: Path, millions: int) -> None:
    with path.open("w") as file:
        file.write(START)
        for thousand in range(millions * 1000):
            file.writelines(
                f"[2026-11-29 {thousand // 3600 % 24:02d}:{thousand // 60 % 60:02d}:{thousand % 60:02d}] Decode batch, "
                f"#running-req: 8, #token: {line * 90}, token usage: 0.{line % 90:02d}, cuda graph: True, "
                f"gen throughput (token/s): {700 + line % 99}.55, #queue-req: 0\n"
                for line in range(1000)
            )
        file.write(FAILURE + ACCESS * 20_000)


def measure(command: list[str], expected: int) -> tuple[float, float]:
    """Best wall seconds of three, and the peak memory in MiB."""
    best, peak = float("inf"), 0.0
    for _ in range(3):
        started = time.perf_counter()
        # Into a file: grep does less when it sees that its output goes to /dev/null.
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        best = min(best, time.perf_counter() - started)
        peak = max(peak, usage.ru_maxrss / 1024)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != expected:
            sys.exit(f"{command[0]} ended with {process.returncode}")
    return best, peak


def main() -> None:
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    with tempfile.TemporaryDirectory(prefix="specdeck-doctor-") as folder:
        log = Path(folder) / "server.log"
        write_log(log, millions)
        subprocess.run(["cat", str(log)], stdout=subprocess.DEVNULL, check=True)
        grep, _ = measure(["grep", "-c", "Decode", str(log)], 0)
        none, _ = measure(["grep", "-c", "no such word", str(log)], 1)
        doctor, peak = measure([sys.executable, "-m", "tui", "doctor", str(log)], 1)
        print(f"{log.stat().st_size / 1e9:.2f} GB, {millions} M decode lines")
        print(f"grep -c          {grep:6.2f} s, {none:.2f} s for a word that is in no line")
        print(
            f"specdeck doctor  {doctor:6.2f} s  {doctor / grep:.1f} x and {doctor / none:.1f} x, {peak:.0f} MiB at most"
        )


if __name__ == "__main__":
    main()
