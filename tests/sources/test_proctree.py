import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tui.procid import process_table
from tui.sources.proctree import (
    alive,
    environ_value,
    process_id,
    process_title,
    server_members,
    server_tree,
)

# A server and two levels below it, as SGLang's controller and schedulers; each tells its pid and waits for its end.
SERVER = """
import os, subprocess, sys
code = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"
if len(sys.argv) > 1:
    print(os.getpid(), flush=True)
    subprocess.run([sys.executable, "-c", code])
else:
    print(os.getpid(), flush=True)
    subprocess.run([sys.executable, sys.argv[0], "controller", "--api-key", "hush"])
"""

Started = Callable[..., tuple["subprocess.Popen[str]", list[int]]]


@pytest.fixture
def start(tmp_path: os.PathLike[str]) -> Iterator[Started]:
    script = os.path.join(tmp_path, "serve.py")
    with open(script, "w") as file:
        file.write(SERVER)
    everything: list[int] = []
    processes: list[subprocess.Popen[str]] = []

    def go(**env: str) -> tuple["subprocess.Popen[str]", list[int]]:
        process = subprocess.Popen(
            [sys.executable, script],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **env},
        )
        processes.append(process)
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(3)]
        everything.extend(pids)
        return process, pids

    yield go
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_tree_holds_children_and_grandchildren(start: Started) -> None:
    process, pids = start()
    server = process_id(process.pid)
    assert server is not None

    fact = server_tree(server, now=12.5, visible_uuids=("GPU-a",))

    assert fact.at == 12.5
    assert fact.pids[0] == process.pid
    assert sorted(fact.pids) == sorted(pids)
    assert set(fact.names) == {str(pid) for pid in pids}
    assert fact.names[str(process.pid)].endswith("serve.py")
    assert fact.visible_uuids == ("GPU-a",)
    assert fact.rss_gib is not None
    assert 0.001 < fact.rss_gib < 1


def test_arguments_stay_out_of_the_titles(start: Started) -> None:
    _process, pids = start()
    titles = [process_title(pid) or "" for pid in pids]
    assert any("serve.py" in title for title in titles)
    assert not any("hush" in title for title in titles)


def test_children_that_outlive_the_server_stay_in_the_tree(start: Started) -> None:
    process, pids = start()
    server = process_id(process.pid)
    assert server is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    assert not alive(server)
    assert sorted(server_tree(server).pids) == sorted(pids[1:])


def test_zombie_is_no_member(start: Started) -> None:
    process, pids = start()
    server = process_id(process.pid)
    assert server is not None
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, not yet reaped

    assert process.pid in process_table()
    assert process.pid not in server_tree(server).pids
    assert not alive(server)
    assert sorted(server_tree(server).pids) == sorted(pids[1:])


def test_recycled_pid_is_a_stranger(start: Started) -> None:
    process, _pids = start()
    server = process_id(process.pid)
    assert server is not None

    earlier = replace(server, start_ticks=server.start_ticks - 100)
    other_boot = replace(server, boot_id="00000000-0000-0000-0000-000000000000")

    assert server_members(earlier) == ()
    assert server_members(other_boot) == ()
    assert server_tree(earlier).pids == ()
    assert server_tree(earlier).rss_gib is None
    assert not alive(earlier)
    assert not alive(other_boot)


def test_members_have_identities_that_hold(start: Started) -> None:
    process, _pids = start()
    server = process_id(process.pid)
    assert server is not None
    members = server_members(server)
    assert len(members) == 3
    assert all(alive(member) for member in members)


def test_environ_value(start: Started) -> None:
    process, _pids = start(CUDA_VISIBLE_DEVICES="3,1", EMPTY_ONE="")
    assert environ_value(process.pid, "CUDA_VISIBLE_DEVICES") == "3,1"
    assert environ_value(process.pid, "EMPTY_ONE") == ""
    assert environ_value(process.pid, "VISIBLE_DEVICES") is None
    assert environ_value(2**22 + 1, "PATH") is None


def _titled(*argv: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(argv, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("argv", "title"),
    [
        (("sglang::scheduler_TP0", "-c", "print(1, flush=True); input()"), "sglang::scheduler_TP0"),
        (("/opt/v/bin/python3", "-c", "print(1, flush=True); input()"), "python3 -c"),
        (
            ("/usr/bin/python3", "-c", "# resource_tracker\nprint(1, flush=True); input()"),
            "python3 resource_tracker",
        ),
        (("evil\x1b[31m\rname", "-c", "print(1, flush=True); input()"), "evil�[31m�name"),
    ],
)
def test_titles(argv: tuple[str, ...], title: str) -> None:
    with _titled(*argv) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process_title(process.pid) == title
        process.kill()


def test_title_of_no_process() -> None:
    assert process_title(2**22 + 1) is None
