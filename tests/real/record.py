"""Record what the real server prints and answers: `.venv/bin/python tests/real/record.py [NAME...]`.

It goes into tests/fixtures/sglang-0.5.23. Without names all recordings are made anew, one server at a time, in about
fifteen minutes. Paths of this machine are replaced, so that a recording holds nothing of where it was made.
"""

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import urllib3
from layout import FIXTURES, HERE, ROOT, SERVER_ENV, models_dir, venv_dir, venv_python
from serving import Command, Server, command, free_port, get, launched, load

HOME = "/srv/specdeck"
TWO_RANKS = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
MODES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "plain": ("tiny-plain", {}, {}),
    "eagle3": ("tiny-eagle3", {}, {}),
    "standalone": ("tiny-standalone", {}, {}),
    "ngram": ("tiny-ngram", {}, {}),
    "tp2": ("tiny-plain", {"tp-size": 2}, TWO_RANKS),
    "dp2": ("tiny-plain", {"dp-size": 2}, TWO_RANKS),
}
# Each ends by itself, before or after it could serve.
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "bad-flag": ("tiny-plain", {"no-such-flag": True}),
    "bad-choice": ("tiny-plain", {"attention-backend": "nope"}),
    "renamed-flag": ("tiny-plain", {"cuda-graph-max-bs": 128}),
    "model-missing": ("tiny-plain", {"model-path": f"{HOME}/.cache/models/no-such-model"}),
    "model-missing-hub": ("tiny-plain", {"model-path": "no-such-owner/no-such-model"}),
    "wrong-draft": ("tiny-eagle3", {"speculative-draft-model-path": ".cache/models/tiny-draft"}),
    "budget-refused": ("tiny-plain", {"max-total-tokens": None, "mem-fraction-static": 0.0001}),
    "budget-refused-eagle3": ("tiny-eagle3", {"max-total-tokens": None, "mem-fraction-static": 0.01}),
    "tiny-pool": ("tiny-plain", {"max-total-tokens": 10}),
}
# A fraction of the free memory: beside the weights 2 to 4 GiB of KV cache, all of it allocated.
FRACTIONS = dict.fromkeys(("plain", "eagle3", "standalone"), (0.12, 0.15, 0.18))


def scrub(text: str) -> str:
    """`text` without the paths and the name of this machine."""
    home = Path.home()
    for here, there in (
        (str(venv_dir()), f"{HOME}/.venv-sglang"),
        (str(models_dir()), f"{HOME}/.cache/models"),
        (str(ROOT), HOME),
        (str(Path(sys.base_prefix).resolve()), "/usr/local"),
        (f"{home}/", "/home/operator/"),
        (f"'{socket.gethostname()}'", "'gpu-host'"),
    ):
        text = text.replace(here, there)
    return text


class Recording:
    """One folder of fixtures, written when its server has ended."""

    def __init__(self, name: str) -> None:
        self.folder = FIXTURES / name
        self.files: dict[str, str] = {}

    def add(self, name: str, text: str) -> None:
        self.files[name] = scrub(text)

    def add_json(self, name: str, value: object) -> None:
        self.add(name, json.dumps(value, indent=1) + "\n")

    def write(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for name, text in self.files.items():
            (self.folder / name).write_text(text)


@contextlib.contextmanager
def recorded(name: str, built: Command) -> Iterator[tuple[Recording, Server]]:
    """A server whose log and end are written to the folder `name`."""
    recording = Recording(name)
    with tempfile.TemporaryDirectory(prefix="specdeck-record-") as scratch:
        log = Path(scratch) / "server.log"
        with launched(built, log) as server:
            yield recording, server
            by_itself = server.process.poll() is not None
            ended = time.monotonic() - server.started
        status = server.process.returncode
        recording.add("server.log", server.text())
        end = {"returncode": status, "by_itself": by_itself, "after_s": round(ended, 1), "argv": list(built.argv)}
        recording.add_json("exit.json", end)
    recording.write()
    print(
        f"{name}: exit {status} after {ended:.0f} s, {sum(map(len, recording.files.values())) // 1024} KiB", flush=True
    )


def answers(recording: Recording, base_url: str) -> None:
    for path, name in (("/server_info", "server_info.json"), ("/v1/loads", "v1_loads.json")):
        recording.add_json(name, json.loads(get(base_url, path).data))
    recording.add("metrics.txt", get(base_url, "/metrics").data.decode())


def serve(name: str) -> None:
    profile, extra, env = MODES[name]
    with recorded(name, command(profile, {"port": free_port(), **extra}, env)) as (recording, server):
        server.wait_ready()
        load(server.base_url, 9, 120)
        traffic = threading.Thread(target=load, args=(server.base_url, 6, 120))
        traffic.start()
        time.sleep(6.0)
        recording.add_json("v1_loads.busy.json", json.loads(get(server.base_url, "/v1/loads").data))
        traffic.join()
        answers(recording, server.base_url)
        names = [" ".join(process.cmdline())[:120] for process in server.tree()]
        recording.add("tree.txt", "\n".join(names) + "\n")
        server.process.send_signal(signal.SIGTERM)
        server.wait_exit(60.0)


def refuse(name: str) -> None:
    profile, extra = REFUSED[name]
    with recorded(name, command(profile, {"port": free_port(), **extra})) as (_, server):
        assert server.wait_exit(120.0) is not None, f"{name} did not end by itself"


@contextlib.contextmanager
def silent_listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield int(held.getsockname()[1])


class NotFound(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def http_listener() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFound) as held:
        threading.Thread(target=held.serve_forever, daemon=True).start()
        yield held.server_port
        held.shutdown()


@contextlib.contextmanager
def other_server() -> Iterator[int]:
    with tempfile.TemporaryDirectory() as scratch:
        port = free_port()
        with launched(command("tiny-plain", {"port": port}), Path(scratch) / "log") as server:
            server.wait_ready()
            yield port


def port_in_use(name: str, holder: Callable[[], contextlib.AbstractContextManager[int]], limit_s: float) -> None:
    with holder() as port, recorded(name, command("tiny-plain", {"port": port})) as (_, server):
        server.wait_for_line("address already in use")
        server.wait_exit(limit_s)


def die(name: str, cause: Callable[[Server], None], env: Mapping[str, str] | None = None) -> None:
    """A server that is made to die while a request runs."""
    with recorded(name, command("tiny-plain", {"port": free_port()}, env)) as (_, server):
        server.wait_ready()
        with contextlib.suppress(AssertionError):
            load(server.base_url, 2, 20)
        threading.Thread(target=ask, args=(server.base_url, 400), daemon=True).start()
        time.sleep(3.0)
        cause(server)
        server.wait_exit(120.0)


def ask(base_url: str, tokens: int, words: int = 20) -> None:
    """One request that may stay unanswered."""
    sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    body = {"text": "once more " * words, "sampling_params": sampling}
    with urllib3.PoolManager(retries=False, timeout=60.0) as http, contextlib.suppress(urllib3.exceptions.HTTPError):
        http.request("POST", base_url + "/generate", json=body)


def kill_child(title: str) -> Callable[[Server], None]:
    def kill(server: Server) -> None:
        [child] = [process for process in server.tree() if title in " ".join(process.cmdline())]
        child.kill()

    return kill


def memory(mode: str, fraction: float) -> None:
    """A launch without a token cap, for the memory equation: its log until ready, and what was free before."""
    profile, extra, env = MODES[mode]
    knobs = {"port": free_port(), **extra, "max-total-tokens": None, "mem-fraction-static": fraction}
    free_gib = psutil.virtual_memory().available / 2**30
    with recorded(f"memory/{mode}-{fraction}", command(profile, knobs, env)) as (recording, server):
        server.wait_ready()
        recording.add_json("before.json", {"fraction": fraction, "available_gib": round(free_gib, 3)})


def flag_list() -> None:
    """The options of the server's own parser, one a line."""
    done = subprocess.run(
        [venv_python(), HERE / "dump_flags.py"], capture_output=True, text=True, check=True, env=os.environ | SERVER_ENV
    )
    FIXTURES.mkdir(parents=True, exist_ok=True)
    (FIXTURES / "flags.json").write_text(scrub(done.stdout))
    print(f"flags: {len(done.stdout) // 1024} KiB", flush=True)


def plans() -> dict[str, Callable[[], None]]:
    made: dict[str, Callable[[], None]] = {"flags": flag_list}
    made |= {name: lambda name=name: serve(name) for name in MODES}  # type: ignore[misc]
    made |= {name: lambda name=name: refuse(name) for name in REFUSED}  # type: ignore[misc]
    made["port-in-use-silent"] = lambda: port_in_use("port-in-use-silent", silent_listener, 20.0)
    made["port-in-use-http"] = lambda: port_in_use("port-in-use-http", http_listener, 200.0)
    made["port-in-use-sglang"] = lambda: port_in_use("port-in-use-sglang", other_server, 60.0)
    made["killed-scheduler"] = lambda: die("killed-scheduler", kill_child("sglang::scheduler"))
    made["killed-detokenizer"] = lambda: die("killed-detokenizer", kill_child("sglang::detokenizer"))
    made["terminated-busy"] = lambda: die("terminated-busy", lambda server: server.process.terminate())
    made["scheduler-exception"] = lambda: die(
        "scheduler-exception",
        lambda server: ask(server.base_url, 8, words=80),
        {"SPECDECK_STANDIN_MAX_LENGTH": "600"},
    )
    for mode, fractions in FRACTIONS.items():
        for fraction in fractions:
            made[f"memory/{mode}-{fraction}"] = lambda mode=mode, fraction=fraction: memory(mode, fraction)  # type: ignore[misc]
    return made


def main(names: list[str]) -> int:
    # Being told to end must still end the server that is being recorded.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    made = plans()
    unknown = [name for name in names if name not in made]
    if unknown:
        print(f"record: no recording is called {', '.join(unknown)}; there are {', '.join(made)}.", file=sys.stderr)
        return 2
    for name in names or made:
        made[name]()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
