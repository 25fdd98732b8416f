"""The keeper with small servers: what it starts, what it survives, what it writes down."""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tui.facts import Exited, Fact, Launched, Signalled
from tui.procid import alive, descendants, process_stat, process_table
from tui.runs.store import Run
from tui.server import control, wire
from tui.server.control import LaunchError
from tui.server.signals import server_tree

Wait = Callable[..., Any]
Again = Callable[[Run], Run]
FactsOf = Callable[[Run], list[Fact]]


def told(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.log.read_text().splitlines()[0])
    return found


def keeper_says(run: Run) -> dict[str, Any]:
    return wire.ask(run.path, {"do": "status"}, timeout_s=2.0)


def test_a_server_runs_in_a_session_of_its_own_with_what_it_was_told(world: Any) -> None:
    run = world.launch(tell=True, env={"SOME_VARIABLE": "some value"})
    assert run.server is not None
    assert run.keeper is not None
    seen = told(run)
    assert seen["sid"] == seen["pgid"] == run.server.pid
    keeper = process_stat(run.keeper.pid)
    assert keeper is not None
    assert keeper.session not in (run.server.pid, os.getsid(0))
    assert keeper.group not in (run.server.pid, os.getpgid(0))
    assert seen["cwd"] == str(world.folder)
    assert seen["stdin"] == "/dev/null"
    assert seen["sigint"] is True
    assert seen["env"]["SOME_VARIABLE"] == "some value"
    assert "PYTHONPATH" not in seen["env"] or seen["env"]["PYTHONPATH"] == os.environ.get("PYTHONPATH")
    assert seen["umask"] == control._umask()
    assert seen["fds"] == ["0", "1", "2", "3"]  # 3 is the listing itself
    assert seen["argv"] == list(run.command[2:])


def test_a_server_that_ends_is_written_down_and_the_keeper_goes(
    world: Any, wait: Wait, again: Again, facts_of: FactsOf
) -> None:
    run = world.launch(end=True, code=3, say="the reason why \x1b[31mred\x1b[0m")
    wait(lambda: not alive(run.keeper))
    exited = again(run).exited
    assert exited is not None
    assert (exited.code, exited.signal, exited.requested) == (3, None, False)
    kept = json.loads((run.path / "exit.json").read_text())
    assert kept["last_lines"][-2:] == ["the reason why red", "up"]
    launched, *rest = facts_of(run)
    assert isinstance(launched, Launched)
    assert (launched.server, launched.keeper, launched.run) == (run.server, run.keeper, run.name)
    assert rest == [exited]
    assert not (run.path / wire.SOCKET).exists()
    assert world.store.active() == []


def test_a_killed_server_is_noticed_with_its_signal(world: Any, wait: Wait, again: Again) -> None:
    run = world.launch()
    os.kill(run.server.pid, signal.SIGKILL)
    exited = wait(lambda: again(run).exited)
    assert (exited.code, exited.signal, exited.requested) == (None, "SIGKILL", False)


def test_secrets_are_in_no_file_but_reach_the_server(world: Any, wait: Wait) -> None:
    secret = "s3cret-value"
    profile = world.profile(api_key=secret, tell=True, env={"HF_TOKEN": secret}, end=True)
    run = control.launch(profile, world.store)
    wait(lambda: not alive(run.keeper))
    seen = told(run)
    assert seen["env"]["HF_TOKEN"] == secret
    assert secret in seen["argv"]
    for file in run.path.iterdir():
        if file.name != "server.log":  # the server's own words
            assert secret not in file.read_text(), file.name
        assert file.stat().st_mode & 0o077 == 0


def test_hangups_and_interrupts_do_not_reach_the_keeper_nor_the_server(world: Any) -> None:
    run = world.launch(children=1)
    for _ in range(20):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTSTP):
            os.kill(run.keeper.pid, number)
    assert keeper_says(run)["server_alive"] is True
    os.killpg(run.server.pid, signal.SIGKILL)  # as SGLANG_KILLPG_ON_SCHEDULER_EXCEPTION does
    assert alive(run.keeper) or (run.path / "exit.json").exists()


def test_a_launcher_that_is_killed_leaves_server_and_keeper(world: Any, wait: Wait) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from tui.server import control, profiles; "
        "from tui.runs.store import RunStore; "
        "control.launch(profiles.load(Path(sys.argv[1])), RunStore(Path(sys.argv[2]))); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    profile = world.profile()
    Path(profile.path).write_text(profile.text)
    launcher = subprocess.run([sys.executable, "-c", script, profile.path, world.store.root], check=False)
    assert launcher.returncode == -signal.SIGKILL
    (run,) = world.store.active()
    assert alive(run.server)
    assert alive(run.keeper)
    assert keeper_says(run)["ok"] is True


def test_no_zombies_are_left_to_the_subreaper(world: Any, wait: Wait) -> None:
    orphans = (
        "import os, time\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        os.fork()\n"  # a grandchild whose parent is gone at once: the keeper inherits it
        "        os._exit(0)\n"
        "    os.wait()\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    run = control.launch(world.profile(command=[sys.executable, "-c", orphans]), world.store)
    world.wait_up(run)

    def only_the_server() -> bool:
        return [stat.pid for stat in descendants([run.keeper.pid], process_table())] == [run.server.pid]  # type: ignore[union-attr]

    wait(only_the_server)


@pytest.mark.parametrize("code", [1, 0])
def test_what_a_server_leaves_running(world: Any, wait: Wait, again: Again, facts_of: FactsOf, code: int) -> None:
    control_plan = world.profile(detached=1, end=True, code=code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control, "ORPHAN_GRACE_S", 0.5)
        run = control.launch(control_plan, world.store)
    wait(lambda: again(run).exited)
    survivors = json.loads((run.path / "exit.json").read_text())["survivors"]
    assert len(survivors) == 1
    if code:  # a fallen server's remains are ended
        wait(lambda: not alive(run.keeper))
        killed = facts_of(run)[-1]
        assert isinstance(killed, Signalled)
        assert killed.pids == (survivors[0]["pid"],)
    else:  # a launcher script that ended well keeps what it started, and it can still be stopped
        assert alive(run.keeper)
        (left,) = server_tree(run.server, run.keeper)
        assert left.pid == survivors[0]["pid"]
        assert [found.name for found in world.store.active()] == [run.name]
        assert wire.ask(run.path, {"do": "stop", "grace_s": 20})["ok"] is True
        wait(lambda: not alive(left) and not alive(run.keeper))


def test_a_full_disk_harms_no_server_and_is_made_up_for(
    world: Any, wait: Wait, again: Again, facts_of: FactsOf
) -> None:
    run = world.launch()
    limit = resource.prlimit(run.keeper.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(run.keeper.pid, resource.RLIMIT_FSIZE, (0, limit[1]))
    os.kill(run.server.pid, signal.SIGTERM)
    wait(lambda: keeper_says(run)["exit"])
    assert again(run).exited is None
    assert alive(run.keeper)
    resource.prlimit(run.keeper.pid, resource.RLIMIT_FSIZE, limit)
    wait(lambda: not alive(run.keeper))
    exited = again(run).exited
    assert exited is not None
    assert exited.code == 0
    assert [type(fact) for fact in facts_of(run)] == [Launched, Exited]


def test_nonsense_and_silence_on_the_socket(world: Any) -> None:
    run = world.launch()
    assert (run.path / wire.SOCKET).stat().st_mode & 0o777 == 0o600
    handle = os.open(run.path, os.O_RDONLY)
    silent = socket.socket(socket.AF_UNIX)
    silent.connect(f"/proc/self/fd/{handle}/{wire.SOCKET}")
    os.close(handle)
    with contextlib.closing(silent):
        for request in ({}, {"do": "explode"}, {"do": "stop", "grace_s": "x"}, {"do": "stop"}, {"do": ["stop"]}):
            assert wire.ask(run.path, request)["ok"] is False
        silent.sendall(b"[1]\n")
        assert json.loads(silent.makefile("rb").readline())["ok"] is False
    with pytest.raises(wire.KeeperUnreachableError):
        wire.ask(run.path, {"do": "status", "more": "x" * (wire.LONGEST_REQUEST * 2)})
    assert keeper_says(run)["stopping"] is None
    assert alive(run.server)


def test_a_run_folder_with_a_long_path_has_a_socket_too(world: Any) -> None:
    world.store = type(world.store)(world.folder / ("d" * 120) / ("e" * 60))
    run = world.launch()
    assert len(str(run.path)) > 107
    assert keeper_says(run)["server_alive"] is True


def test_what_cannot_run_leaves_no_folder(world: Any, port: int) -> None:
    program = world.folder / "program"
    program.write_bytes(b"\x7fELF not really")
    program.chmod(0o755)
    with pytest.raises(LaunchError, match=r"program cannot be run: Exec format error"):
        control.launch(world.profile(command=[str(program)]), world.store)
    assert world.store.names() == []


def test_a_held_port_is_told_before_the_launch(world: Any, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)), pytest.raises(LaunchError) as caught:
        control.launch(world.profile(port=port), world.store)
    assert f"Port {port} is held by process {os.getpid()} (" in str(caught.value)
    assert world.store.names() == []
