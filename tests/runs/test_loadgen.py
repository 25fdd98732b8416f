"""The simple load generator, against a server that answers as SGLang does, and against ones that do not."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tui.runs import benches
from tui.runs.benches import BenchError, BenchResult, Workload
from tui.runs.benchserving import BenchServing, result_of
from tui.runs.loadgen import LoadGenerator, steady_rates

SMALL = Workload(name="small", batch=3, requests=7, input_tokens=5, output_tokens=20)


class Server(ThreadingHTTPServer):
    """Counts tokens and verify calls as SGLang does: a request when it has ended."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.generated = self.calls = self.at_once = self.most = self.dropped = 0
        self.step_s = 0.005
        self.mode = "well"
        self.keys: set[str | None] = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        counters = {"generation_tokens_total": server.generated, "spec_verify_calls_total": server.calls}
        text = "".join(f"sglang:{name} {value}\n" for name, value in counters.items())
        self._whole(200 if server.mode != "no metrics" else 404, text.encode())

    def do_POST(self) -> None:
        server = self.server
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.keys.add(self.headers.get("Authorization"))
        if server.mode == "refuses":
            self._whole(400, b'{"error": {"message": "too long\x1b[2J"}}')
            return
        total = asked["sampling_params"]["max_new_tokens"]
        with server.lock:
            server.at_once += 1
            server.most = max(server.most, server.at_once)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self._stream(server, len(asked["input_ids"]), total)
        except OSError:
            server.dropped += 1
        finally:
            with server.lock:
                server.at_once -= 1

    def _stream(self, server: Server, prompt: int, total: int) -> None:
        done = steps = 0
        while done < total:
            time.sleep(server.step_s)
            done, steps = min(total, done + 2), steps + 1
            meta: dict[str, Any] = {"completion_tokens": done, "prompt_tokens": prompt, "spec_verify_ct": steps}
            meta["finish_reason"] = {"type": "length"} if done == total else None
            self._chunk(f"data: {json.dumps({'text': 'x' * done, 'meta_info': meta})}\n\n".encode())
            if server.mode == "breaks" and done > total / 2:
                self.close_connection = True
                return
        with server.lock:
            server.generated += total
            server.calls += steps
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _whole(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def load(server: Server) -> LoadGenerator:
    return LoadGenerator(f"http://127.0.0.1:{server.server_port}", api_key="k1")


def test_client_and_counters_agree(server: Server, load: LoadGenerator) -> None:
    told: list[str] = []
    found = load.run(SMALL, told.append)
    assert (found.requests, found.failed, found.output_tokens, found.input_tokens) == (7, 0, 140, 35)
    assert found.counter_tok_s == pytest.approx(found.tok_s)
    assert found.accept_len == pytest.approx(2.0)
    assert server.most == 3
    assert server.keys == {"Bearer k1"}
    assert found.ttft_s is not None
    assert told[-1].startswith("small: ")


def test_without_counters_the_answers_tell(server: Server, load: LoadGenerator) -> None:
    server.mode = "no metrics"
    found = load.run(SMALL)
    assert found.counter_tok_s is None
    assert found.accept_len == pytest.approx(2.0)


def test_refused_and_broken_requests_are_told(server: Server, load: LoadGenerator) -> None:
    server.mode = "refuses"
    with pytest.raises(BenchError, match="HTTP 400") as refused:
        load.run(SMALL)
    assert "\x1b" not in str(refused.value)
    server.mode = "breaks"
    with pytest.raises(BenchError, match="every request failed"):
        load.run(SMALL)


def test_cancelling_hangs_up_and_the_server_stays_well(server: Server, load: LoadGenerator) -> None:
    server.step_s = 0.05
    long = Workload(name="long", batch=3, requests=6, input_tokens=5, output_tokens=100_000)
    timer = threading.Timer(0.6, load.cancel)
    timer.start()
    with pytest.raises(BenchError, match="Cancelled"):
        load.run(long)
    timer.join()
    deadline = time.monotonic() + 10
    while server.at_once and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.at_once == 0
    server.step_s = 0.001
    again = LoadGenerator(f"http://127.0.0.1:{server.server_port}")
    assert again.run(SMALL).failed == 0


def test_no_server_and_no_address() -> None:
    with pytest.raises(BenchError, match="every request failed"):
        LoadGenerator("127.0.0.1:9").run(Workload(name="x", batch=1, requests=1, input_tokens=1, output_tokens=1))
    with pytest.raises(BenchError, match="no address"):
        LoadGenerator("http://")


def test_steady_is_while_the_whole_batch_runs() -> None:
    """One answer from 0 to 10 s, another from 2 to 8 s, 10 tokens per second each."""
    long = [(0.1 * i, i) for i in range(101)]
    short = [(2.0 + 0.1 * i, i) for i in range(61)]
    rates = steady_rates([long, short], 2)
    assert len(rates) == 12
    assert sum(rates) / len(rates) == pytest.approx(20.0, rel=0.02)
    assert steady_rates([long], 1)[0] == pytest.approx(10.0, rel=0.15)
    lumps = [(0.095 * i, 8 * i) for i in range(66)]  # eight tokens at a time: no slice is a whole number of pieces
    assert steady_rates([lumps], 1) == pytest.approx([8 / 0.095] * 12)
    assert steady_rates([long, short], 3) == []
    assert steady_rates([], 1) == []


def test_results_are_kept_in_the_run(tmp_path: Path) -> None:
    one = BenchResult(
        workload="decode-1", batch=1, at=1.0, wall_s=2.0, requests=1, failed=0, input_tokens=3, output_tokens=40,
        tok_s=20.0, engine="specdeck", accept_len=2.0,
    )  # fmt: skip
    benches.save(tmp_path, [one])
    with (tmp_path / benches.NAME).open("a") as file:
        file.write('{"workload": "half\n[1]\n')
    benches.save(tmp_path, [one])
    assert benches.load(tmp_path) == (one, one)
    assert benches.load(tmp_path / "none") == ()
    assert "accept length 2.00" in one.line()
    assert "somebody else" not in replace(one, counter_tok_s=20.5).line()
    assert "somebody else asked too" in replace(one, counter_tok_s=30.0).line()


# ---------------------------------------------------------------------------------------------- SGLang's own

STAND_IN = """\
import json, sys, time
arguments = sys.argv[sys.argv.index("sglang.bench_serving") + 1:]
given = dict(zip(arguments[::2], arguments[1::2]))
if given["--model"] == "slow":
    time.sleep(60)
if given["--model"] == "broken":
    print("ModuleNotFoundError: No module named 'datasets'", file=sys.stderr)
    print("serving.py:1: FutureWarning: it has moved", file=sys.stderr)
    print("  warnings.warn(", file=sys.stderr)
    raise SystemExit(1)
count, length = int(given["--num-prompts"]), int(given["--random-output-len"])
with open(given["--output-file"], "w") as out:
    print(json.dumps({"duration": 10.0, "completed": count, "total_input_tokens": 5 * count,
        "total_output_tokens": count * length, "median_ttft_ms": 120.0, "accept_length": 2.5,
        "output_lens": [length] * count, "itls": [[0.02] * (length - 1)] * count}), file=out)
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter whose SGLang is a stand-in."""
    import sys

    (tmp_path / "stand_in.py").write_text(STAND_IN)
    path = tmp_path / "python3"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "stand_in.py"} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_sglangs_own_generator(python: str) -> None:
    found = BenchServing(python, "http://127.0.0.1:1", "tiny").run(SMALL)
    assert (found.tok_s, found.output_tokens, found.failed, found.samples) == (14.0, 140, 0, 7)
    assert found.steady_tok_s == pytest.approx(3 / 0.02)
    assert found.accept_len == 2.5
    assert found.ttft_s == pytest.approx(0.12)
    assert found.engine == "sglang.bench_serving"


def test_sglangs_own_generator_when_it_cannot_run(python: str) -> None:
    with pytest.raises(BenchError, match="No module named 'datasets'"):
        BenchServing(python, "http://127.0.0.1:1", "broken").run(SMALL)
    with pytest.raises(BenchError, match="cannot be started"):
        BenchServing("/nonexistent/python", "http://127.0.0.1:1", "m").run(SMALL)


def test_sglangs_own_generator_is_ended_when_cancelled(python: str) -> None:
    bench = BenchServing(python, "http://127.0.0.1:1", "slow")
    timer = threading.Timer(0.4, bench.cancel)
    timer.start()
    with pytest.raises(BenchError, match="Cancelled"):
        bench.run(SMALL)
    timer.join()


def test_a_result_without_details_has_no_spread() -> None:
    data = {"duration": 2.0, "completed": 1, "total_input_tokens": 5, "total_output_tokens": 50}
    found = result_of(data, Workload(name="x", batch=1, requests=2, input_tokens=5, output_tokens=50), 0.0)
    assert (found.tok_s, found.failed, found.samples, found.low, found.accept_len) == (25.0, 1, 0, None, None)
