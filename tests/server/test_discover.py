"""Servers started by hand: found, described, taken over, stopped."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tui.procid import alive, process_id
from tui.runs.store import RunStore
from tui.server import control
from tui.server.adopt import AdoptError, adopt, adopted_profile
from tui.server.discover import FoundServer, find_servers, is_main
from tui.server.stopping import stop

SERVER = """
import signal, socket, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
words = sys.argv if "--port" in sys.argv else open("c.yaml").read().replace("port:", "--port").split()
port = int(words[words.index("--port") + 1])
rank = subprocess.Popen(["sglang::scheduler_TP0", "600"], executable="/bin/sleep")
listener = socket.create_server(("127.0.0.1", port))
print("up", flush=True)
signal.sigwait([signal.SIGTERM])
rank.kill()
"""


@pytest.fixture
def flags(port: int) -> list[str]:
    return ["--port", str(port)]


@pytest.fixture
def by_hand(tmp_path: Path, flags: list[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """A server as somebody starts one in a shell: `python …/sglang serve …`, output to a file."""
    program = tmp_path / "sglang"
    program.write_text(SERVER)
    log = tmp_path / "by-hand.log"
    words = [sys.executable, "./sglang", "serve", "--model-path", "./m", *flags, "--api-key", "s3cret-key"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "3", "HF_TOKEN": "s3cret-token", "UNRELATED": "x"}
    with log.open("wb") as out, subprocess.Popen(words, cwd=tmp_path, stdout=out, stderr=out, env=env) as process:
        while b"up" not in log.read_bytes():
            assert process.poll() is None
        yield process
        for child in (process_id(int(pid)) for pid in _children(process.pid)):
            if child is not None:
                os.kill(child.pid, 9)
        process.kill()


def _children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def find(pid: int, store: RunStore | None = None) -> FoundServer | None:
    return next((found for found in find_servers(store) if found.process.pid == pid), None)


def test_a_server_started_by_hand_is_found(by_hand: Any, port: int, tmp_path: Path) -> None:
    found = find(by_hand.pid)
    assert found is not None
    assert (found.port, found.url, found.ranks, found.listening) == (port, f"http://127.0.0.1:{port}", 1, True)
    assert found.log == tmp_path / "by-hand.log"
    assert "s3cret-key" not in " ".join(found.command)
    assert "s3cret-key" not in found.title
    assert found.command[1:3] == ("./sglang", "serve")
    assert found.run is None
    assert find(os.getpid()) is None


@pytest.mark.parametrize(
    ("words", "main"),
    [
        (("python3", "-m", "sglang.launch_server"), True),
        (("/venv/bin/python3", "/venv/bin/sglang", "serve", "m"), True),
        (("docker", "run", "image", "sglang", "serve"), False),
        (("bash", "-c", "sglang serve m"), False),
        (("sglang::scheduler_TP0",), False),
        (("python3", "-c", "from multiprocessing.spawn import spawn_main"), False),
        (("vim", "sglang"), False),
        ((), False),
    ],
)
def test_which_process_is_a_server(words: tuple[str, ...], main: bool) -> None:
    assert is_main(words) is main


def test_adopt_and_stop(by_hand: Any, world: Any, port: int, tmp_path: Path) -> None:
    process = process_id(by_hand.pid)
    assert process is not None
    run = adopt(process, world.store)
    assert run.damaged is None
    assert (run.adopted, run.server, run.keeper, run.port) == (True, process, None, port)
    assert run.log.read_text() == "up\n"
    assert run.env["CUDA_VISIBLE_DEVICES"] == "3"
    assert "UNRELATED" not in run.env
    for file in run.path.iterdir():
        assert "s3cret" not in file.read_text(), file.name
    assert adopt(process, world.store) == run
    found = find(by_hand.pid, world.store)
    assert found is not None
    assert found.run == run

    steps = list(stop(run, 60))
    assert steps[-1].ok
    assert "keeper" not in " ".join(step.text for step in steps)
    assert not alive(process)
    ended = world.store.load(run.name).exited
    assert ended is not None
    assert ended.requested


class TestConfigFile:
    @pytest.fixture
    def flags(self, tmp_path: Path, port: int) -> list[str]:
        (tmp_path / "c.yaml").write_text(f"port: {port}\ndevice: cpu\n")
        return ["--config", "c.yaml"]

    def test_found_and_adopted_by_the_port_in_it(self, by_hand: Any, world: Any, port: int, tmp_path: Path) -> None:
        found = find(by_hand.pid)
        assert found is not None
        assert (found.port, found.listening, found.device) == (port, True, "cpu")
        process = process_id(by_hand.pid)
        assert process is not None
        assert adopt(process, world.store).port == port

    def test_adopting_with_a_malformed_one_is_refused(self, by_hand: Any, world: Any, tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text("port\n")
        process = process_id(by_hand.pid)
        assert process is not None
        with pytest.raises(AdoptError, match=r"c\.yaml, line 1 is no `flag: value`\.$"):
            adopt(process, world.store)
        assert world.store.names() == []


def test_an_adopted_server_can_be_started_again_from_its_own_command_line(
    by_hand: Any, world: Any, tmp_path: Path
) -> None:
    process = process_id(by_hand.pid)
    assert process is not None
    profile = adopted_profile(process)
    assert profile.text.startswith("# Adopted from a running server.")
    assert profile.command == (sys.executable, "./sglang", "serve")
    assert profile.cwd == str(tmp_path)
    assert profile.knobs["api-key"] == "s3cret-key"
    assert profile.env["HF_TOKEN"] == "s3cret-token"
    run = adopt(process, world.store)
    done = list(control.restart(run, profile, world.store, grace_s=60))[-1]
    assert done.ok, done.text
    assert done.run is not None
    assert alive(done.run.keeper)
    world.wait_up(done.run)
    assert list(stop(done.run, 60))[-1].ok


def test_what_cannot_be_adopted(world: Any, by_hand: Any) -> None:
    _, sleeper = world.sleeper()
    with pytest.raises(AdoptError, match="does not tell the command"):
        adopt(sleeper, world.store)
    process = process_id(by_hand.pid)
    assert process is not None
    with pytest.raises(AdoptError, match="does not run any more"):
        adopt(replace(process, start_ticks=1), world.store)
    assert world.store.names() == []
