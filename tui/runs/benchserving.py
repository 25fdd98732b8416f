"""SGLang's own load generator, `sglang.bench_serving`, run in the server's interpreter. Its result is a JSON line."""

import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tui.runs.benches import BenchError, BenchResult, Workload

Progress = Callable[[str], None]
ENGINE = "sglang.bench_serving"
_POLL_S = 0.2
_END_S = 10.0
_ERROR = re.compile(r"[\w.]+(Error|Exception)\b")


class BenchServing:
    """Drives one server from `python`, the interpreter that has its SGLang."""

    def __init__(self, python: str, url: str, model: str, env: Mapping[str, str] | None = None) -> None:
        self._command = (python, "-m", "sglang.bench_serving")
        self._url, self._model = url, model
        self._env = dict(os.environ if env is None else env)
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = threading.Event()

    def arguments(self, workload: Workload, output: Path) -> list[str]:
        """The command line. "random-ids" needs no data set; a range ratio of 1 makes every request the same size.

        Its own warm-up would be in the server's counters and not in its result, so whoever calls warms up before.
        """
        return [
            *self._command,
            "--backend", "sglang", "--base-url", self._url, "--model", self._model, "--tokenizer", self._model,
            "--dataset-name", "random-ids", "--random-range-ratio", "1",
            "--random-input-len", str(workload.input_tokens), "--random-output-len", str(workload.output_tokens),
            "--num-prompts", str(workload.requests), "--max-concurrency", str(workload.batch),
            "--warmup-requests", "0",
            "--output-file", str(output), "--output-details", "--disable-tqdm",
        ]  # fmt: skip

    def cancel(self) -> None:
        """Interrupt it; the server sees its connections close and drops the requests."""
        self._cancelled.set()

    def run(self, workload: Workload, progress: Progress | None = None) -> BenchResult:
        """Blocks. Raises BenchError when it cannot run, fails or was cancelled."""
        with tempfile.TemporaryDirectory(prefix="specdeck-bench-") as folder:
            output, log = Path(folder) / "result.jsonl", Path(folder) / "log"
            at = time.time()
            try:
                with log.open("wb") as to:
                    self._process = subprocess.Popen(
                        self.arguments(workload, output),
                        stdin=subprocess.DEVNULL,
                        stdout=to,
                        stderr=to,
                        env=self._env,
                        start_new_session=True,
                    )
            except OSError as error:
                raise BenchError(f"{self._command[0]} cannot be started: {error.strerror or error}.") from error
            status = self._wait(workload, progress)
            if self._cancelled.is_set():
                raise BenchError("Cancelled; the server was left running, and dropped the requests.")
            return self._read(output, log, status, workload, at)

    def _wait(self, workload: Workload, progress: Progress | None) -> int:
        process, began = self._process, time.monotonic()
        assert process is not None
        try:
            while process.poll() is None:
                if self._cancelled.wait(_POLL_S):
                    break
                if progress is not None:
                    progress(f"{workload.name}: {ENGINE} has run for {time.monotonic() - began:.0f} s")
        finally:
            self._end(process)
        return process.returncode

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """It is our child, unreaped, so its group is still its own."""
        for sign in (signal.SIGINT, signal.SIGKILL):
            if process.poll() is not None:
                return
            with suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)

    def _read(self, output: Path, log: Path, status: int, workload: Workload, at: float) -> BenchResult:
        try:
            data = json.loads(output.read_text().strip().rpartition("\n")[2])
            return result_of(data, workload, at)
        except (OSError, ValueError, KeyError, TypeError) as error:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            last = next(filter(_ERROR.match, reversed(lines)), lines[-1] if lines else f"exit status {status}")
            raise BenchError(f"{ENGINE} did not work: {''.join(c for c in last if c.isprintable())}") from error


def result_of(data: Mapping[str, Any], workload: Workload, at: float) -> BenchResult:
    """Its JSON line as a result. Raises KeyError and TypeError. Each request is a sample: the batch at its pace."""
    duration, tokens = float(data["duration"]), int(data["total_output_tokens"])
    rates = [
        workload.batch * (length - 1) / sum(gaps)
        for length, gaps in zip(data.get("output_lens") or (), data.get("itls") or (), strict=False)
        if gaps and length > 1 and sum(gaps) > 0
    ]
    ordered = sorted(rates)
    accept = data.get("accept_length")
    ttft = data.get("median_ttft_ms")
    return BenchResult(
        workload=workload.name,
        batch=workload.batch,
        at=at,
        wall_s=duration,
        requests=workload.requests,
        failed=workload.requests - int(data["completed"]),
        input_tokens=int(data["total_input_tokens"]),
        output_tokens=tokens,
        tok_s=tokens / duration,
        engine=ENGINE,
        steady_tok_s=statistics.median(ordered) if ordered else None,
        low=ordered[len(ordered) // 4] if ordered else None,
        high=ordered[(3 * len(ordered)) // 4] if ordered else None,
        samples=len(ordered),
        accept_len=float(accept) if isinstance(accept, int | float) and accept else None,
        ttft_s=ttft / 1000 if isinstance(ttft, int | float) else None,
        context_tokens=workload.input_tokens + workload.output_tokens / 2,
    )
