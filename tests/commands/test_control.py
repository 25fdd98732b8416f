"""Starting, restarting and stopping for scripts, on the rehearsal: exit codes, and what is said."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tui.cli import main
from tui.procid import alive
from tui.runs.store import STATE_DIR_VARIABLE, Run, RunStore
from tui.server.stopping import kill

LIMIT_S = 120.0
PLAY = ("--rehearsal", "--speed", "600", "--yes")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunStore]:
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    store = RunStore()
    yield store
    for run in store.active():
        list(kill(run))


def until(told: Callable[[], Any]) -> Any:
    end = time.monotonic() + LIMIT_S
    while not (found := told()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@contextmanager
def begun(store: RunStore, port: int, *words: str) -> "Iterator[tuple[subprocess.Popen[str], Run]]":
    """`specdeck run` in the background, once its server runs."""
    command = [sys.executable, "-c", "import sys; from tui.cli import main; sys.exit(main())"]
    with subprocess.Popen(
        [*command, "run", "kimi-k2.5-base", *PLAY, "--set", f"port={port}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            (run,) = until(lambda: [run for run in store.active() if alive(run.server)])
            yield process, run
        finally:
            process.kill()


def test_a_script_waits_for_the_end(store: RunStore, unused_tcp_port: int) -> None:
    with begun(store, unused_tcp_port, "--wait", "stopped") as (process, run):
        assert main(["stop", run.name, "--yes"]) == 0
        out, err = process.communicate(timeout=LIMIT_S)
        # Asked to stop before it was ready, it ends as it should all the same.
        assert process.returncode == 0, out + err


def test_waiting_for_the_end_of_one_that_fails_is_1(store: RunStore, unused_tcp_port: int) -> None:
    words = ["run", "kimi-k2.5-eagle3", *PLAY, "--set", f"port={unused_tcp_port}", "--wait", "stopped"]
    assert main(words) == 1


def test_a_stop_says_how_many_requests_are_in_flight(
    store: RunStore, unused_tcp_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "kimi-k2.5-base", *PLAY, "--set", f"port={unused_tcp_port}", "--wait", "ready"]
    assert main(words) == 0
    assert main(["stop", "--yes", "--grace", "5"]) == 0
    assert re.search(r"^\d+ requests in flight, \d+ waiting\.$", capsys.readouterr().out, re.MULTILINE)


def test_ctrl_c_while_waiting_leaves_the_server_and_says_so(store: RunStore, unused_tcp_port: int) -> None:
    with begun(store, unused_tcp_port, "--wait", "stopped") as (process, run):
        assert process.stdout is not None
        assert process.stdout.readline()  # a phase is told: it waits
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 130
        assert f"{run.name} goes on" in err
        assert "Traceback" not in err
    assert alive(run.server)


def test_a_restart_that_would_fail_for_certain_stops_nothing(
    store: RunStore, unused_tcp_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "kimi-k2.5-base", *PLAY, "--set", f"port={unused_tcp_port}"]) == 0
    (run,) = store.active()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert main(["restart", "--yes", "--set", f"port={port}"]) == 2
    told = capsys.readouterr().err
    assert "Nothing is stopped" in told
    assert f"127.0.0.1:{port} is taken by process" in told
    assert alive(run.server)
    assert main(["restart", "--yes", "--set", f"port={port}"]) == 0
    assert not alive(run.server)


def test_without_a_run_a_server_of_another_hand_is_named(
    store: RunStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    title = ["sglang::scheduler_TP0", "600"]
    with subprocess.Popen(title, executable=shutil.which("sleep")) as server:
        until(lambda: b"sglang::" in Path(f"/proc/{server.pid}/cmdline").read_bytes())
        try:
            assert main(["stop", "--yes"]) == 2
        finally:
            server.kill()
    told = capsys.readouterr().err
    assert "There is no run yet" in told
    assert "An SGLang server that no run knows is process" in told
