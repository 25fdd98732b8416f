import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tui.procid import (
    ProcessStat,
    alive,
    boot_id,
    command_line,
    descendants,
    process_id,
    process_stat,
    process_table,
)

NAME = "a) R (b 1 2"
CHILD = f"""
import sys
open("/proc/self/comm", "w").write({NAME!r})
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()


def test_this_process_is_alive_and_has_a_boot() -> None:
    me = process_id(os.getpid())
    assert me is not None
    assert me.pid == os.getpid()
    assert me.start_ticks > 0
    assert me.boot_id == boot_id() != ""
    assert alive(me)


def test_a_recycled_pid_is_another_process() -> None:
    me = process_id(os.getpid())
    assert me is not None
    assert not alive(replace(me, start_ticks=me.start_ticks - 1))
    assert not alive(replace(me, boot_id="another boot"))
    assert not alive(None)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 7])
def test_no_such_pid(pid: int) -> None:
    assert process_id(pid) is None
    assert process_stat(pid) is None
    assert command_line(pid) == ()


def test_a_zombie_is_dead(child: "subprocess.Popen[bytes]") -> None:
    known = process_id(child.pid)
    assert alive(known)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, but nobody has reaped it
    stat = process_stat(child.pid)
    assert stat is not None
    assert stat.dead
    assert not alive(known)
    assert process_id(child.pid) is None


def test_a_name_with_spaces_and_parentheses(child: "subprocess.Popen[bytes]") -> None:
    stat = process_stat(child.pid)
    assert stat is not None
    assert stat.name == NAME
    assert stat.parent == os.getpid()


def test_command_line_and_table(child: "subprocess.Popen[bytes]") -> None:
    assert command_line(child.pid)[0] == sys.executable
    table = process_table()
    assert child.pid in table
    assert child.pid in [stat.pid for stat in descendants([os.getpid()], table)]


def test_descendants_nearest_first_and_without_strangers() -> None:
    def stat(pid: int, parent: int) -> ProcessStat:
        return ProcessStat(pid=pid, name="x", state="S", parent=parent, group=1, session=1, start_ticks=pid)

    table = {s.pid: s for s in (stat(1, 0), stat(10, 1), stat(11, 10), stat(12, 11), stat(13, 10), stat(20, 1))}
    assert [s.pid for s in descendants([10], table)] == [11, 13, 12]
    assert descendants([99], table) == []
