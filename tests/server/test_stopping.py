"""Stopping small servers: exactly the tree, nothing but the tree, and the proof."""

import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import pytest

from tui.facts import Exited, Fact, Launched, ProcessId, Signalled, StateChange
from tui.files import write_json
from tui.procid import alive, process_id
from tui.runs.store import Run, process_json
from tui.server import leftovers
from tui.server.lock import ControlLock
from tui.server.signals import kill_all, send_signal, server_tree, tops
from tui.server.stopping import Step, kill, stop

Wait = Callable[..., Any]
Again = Callable[[Run], Run]
FactsOf = Callable[[Run], list[Fact]]


def shape(facts: list[Fact]) -> list[str]:
    return [fact.signal if isinstance(fact, Signalled) else type(fact).__name__ for fact in facts]


def last(steps: list[Step]) -> Step:
    assert [step.kind for step in steps].count("done") == 1
    assert steps[-1].kind == "done"
    return steps[-1]


def test_a_polite_stop(world: Any, again: Again, facts_of: FactsOf, wait: Wait) -> None:
    run = world.launch(children=2, listen=True)
    tree = server_tree(run.server, run.keeper)
    assert len(tree) == 3
    done = last(list(stop(run, 60)))
    assert done.ok
    assert done.run is not None
    assert done.run.exited is not None
    assert (done.run.exited.code, done.run.exited.requested) == (0, True)
    assert not any(map(alive, tree))
    assert shape(facts_of(run)) == ["Launched", "StateChange", "SIGTERM", "Exited"]
    wait(lambda: not alive(run.keeper))


def test_one_that_ignores_sigterm_is_killed_with_its_whole_tree(world: Any, facts_of: FactsOf) -> None:
    run = world.launch(children=2, detached=2, ignore_term=True)
    tree = server_tree(run.server, run.keeper)
    assert len(tree) == 5
    steps = list(stop(run, 1.0, "a test"))
    assert last(steps).ok
    assert any(step.kind == "waiting" and step.left_s == 1.0 for step in steps)
    assert "SIGKILL to 5 processes." in [step.text for step in steps]
    assert not any(map(alive, tree))
    facts = facts_of(run)
    killed = {pid for fact in facts if isinstance(fact, Signalled) and fact.signal == "SIGKILL" for pid in fact.pids}
    assert run.server.pid in killed
    assert killed <= {process.pid for process in tree}
    assert [fact.signal for fact in facts if isinstance(fact, Exited)] == ["SIGKILL"]
    change = next(fact for fact in facts if isinstance(fact, StateChange))
    assert (change.state, change.reason) == ("stopping", "a test; SIGKILL after 1 s")


def test_kill_now_ends_the_countdown(world: Any) -> None:
    run = world.launch(ignore_term=True)
    steps = stop(run, 600)
    assert next(steps).kind == "waiting"
    assert last(list(kill(run))).ok
    assert last(list(steps)).ok


def test_a_second_stop_shortens_the_wait(world: Any) -> None:
    run = world.launch(ignore_term=True)
    next(stop(run, 600))
    assert last(list(stop(run, 0.3))).ok
    assert not alive(run.server)


@pytest.mark.parametrize("ignore", [False, True])
def test_without_its_keeper_a_server_goes_on_and_can_be_stopped(
    world: Any, wait: Wait, again: Again, facts_of: FactsOf, ignore: bool
) -> None:
    run = world.launch(children=1, detached=1, ignore_term=ignore)
    os.kill(run.keeper.pid, signal.SIGKILL)
    wait(lambda: not alive(run.keeper))
    tree = server_tree(run.server)
    assert len(tree) == 3
    assert [found.name for found in world.store.active()] == [run.name]
    steps = list(stop(run, 1.0 if ignore else 60))
    assert steps[0].text == "The keeper is gone; the server is stopped directly."
    assert last(steps).ok
    assert not any(map(alive, tree))
    exited = again(run).exited
    assert exited is not None
    assert (exited.code, exited.signal, exited.requested) == (None, None, True)  # nobody was there to be told how
    expected = ["Launched", "StateChange", "SIGTERM", "SIGKILL", "Exited"]
    assert shape(facts_of(run)) == [word for word in expected if ignore or word != "SIGKILL"]


def test_what_a_dead_keeper_saw_is_ended_though_the_server_is_gone_too(world: Any, wait: Wait, again: Again) -> None:
    run = world.launch(detached=1)
    wait(lambda: len(again(run).tree) == 2)  # the keeper has looked
    (orphan,) = set(again(run).tree) - {run.server}
    os.kill(run.keeper.pid, signal.SIGKILL)
    os.kill(run.server.pid, signal.SIGKILL)
    wait(lambda: not alive(run.keeper) and not alive(run.server))
    assert alive(orphan)
    assert last(list(stop(run, 20))).ok
    assert not alive(orphan)


def stale_run(world: Any, server: ProcessId) -> Run:
    run = world.store.create("stale", {"command.json": json.dumps({"argv": ["sglang"], "port": None})})
    identities = {
        "server": process_json(server),
        "keeper": process_json(server),
        "tree": [process_json(server)],
    }
    write_json(run.path / "keeper.json", identities)
    found: Run = world.store.load(run.name)
    return found


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot_id": "an earlier boot"}])
def test_a_recycled_pid_gets_no_signal(world: Any, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    process, stranger = world.sleeper()
    run = stale_run(world, replace(stranger, **change))
    sent: list[Any] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *args: sent.append(args))
    monkeypatch.setattr(os, "kill", lambda *args: sent.append(args))
    assert not run.alive
    for steps in (stop(run, 0.2), kill(run)):
        done = last(list(steps))
        assert done.ok
    assert sent == []
    monkeypatch.undo()
    assert process.poll() is None


def test_send_signal_checks_after_it_holds_the_process(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    process, stranger = world.sleeper()
    assert not send_signal(replace(stranger, start_ticks=1), signal.SIGKILL)
    assert not send_signal(replace(stranger, pid=2**22 + 1), signal.SIGKILL)
    assert process.poll() is None

    def no_pidfd(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", no_pidfd)
    assert not send_signal(replace(stranger, start_ticks=1), signal.SIGKILL)
    assert process.poll() is None
    assert send_signal(stranger, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not send_signal(stranger, signal.SIGKILL)


def test_a_tree_is_never_this_process(world: Any) -> None:
    me = process_id(os.getpid())
    assert me is not None
    tree = server_tree(me)
    assert me not in tree
    _, other = world.sleeper()
    assert other in server_tree(me)
    assert tops([other]) == [other]
    assert server_tree(None) == []


def test_kill_all_names_what_it_cannot_end(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, hung = world.sleeper()
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)
    assert kill_all(lambda: [hung], 0.2) == ([hung], [hung])


def test_survivors_and_a_held_port_are_named(
    world: Any, wait: Wait, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.launch(listen=True)
    monkeypatch.setattr("tui.server.stopping._GONE_LIMIT_S", 0.5)
    monkeypatch.setattr(
        "tui.server.stopping.wire.ask", lambda *_, **__: {"ok": True, "tree": []}
    )  # it says so and does nothing
    steps = list(stop(run, 0.2))
    assert not last(steps).ok
    problems = [step.text for step in steps if step.kind == "problem"]
    assert any(f"Process {run.server.pid} (" in text and "still runs" in text for text in problems)
    assert any(f"Port {run.port} is held by process {run.server.pid}" in text for text in problems)
    assert alive(run.server)


def test_memory_that_does_not_come_back_is_named(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.server.stopping.MEMORY_LIMIT_S", 0.1)
    run = world.launch()
    steps = list(stop(run, 60, memory_back=lambda: "GPU 0 is short of 3.0 GiB, held by process 7"))
    assert not last(steps).ok
    assert "GPU 0 is short of 3.0 GiB, held by process 7." in [step.text for step in steps if step.kind == "problem"]
    answers = iter(["still 3 GiB", None])
    again_run = world.launch()
    monkeypatch.setattr("tui.server.stopping.MEMORY_LIMIT_S", 30.0)
    assert last(list(stop(again_run, 60, memory_back=lambda: next(answers)))).ok


def test_a_full_disk_keeps_nothing_from_being_stopped(world: Any, wait: Wait, again: Again) -> None:
    run = world.launch()
    os.kill(run.keeper.pid, signal.SIGKILL)
    wait(lambda: not alive(run.keeper))
    run.control.unlink()
    run.control.mkdir()  # no line can be appended
    assert last(list(stop(run, 60))).ok
    assert not alive(run.server)


def test_a_server_whose_run_folder_was_removed_is_stopped_and_its_keeper_ends(world: Any, wait: Wait) -> None:
    run = world.launch(children=1)
    shutil.rmtree(run.path)
    with ControlLock.take(run) as lock:
        assert isinstance(lock, ControlLock)
        steps = list(stop(run, 60))
    assert steps[-1].ok
    assert "is gone and its keeper cannot be asked" in steps[0].text
    assert not alive(run.server)
    wait(lambda: not alive(run.keeper))


def test_a_keeper_that_has_not_told_its_server_yet_is_asked_to_stop_it(world: Any, again: Again) -> None:
    run = world.launch()
    told = json.loads((run.path / "keeper.json").read_text())
    write_json(run.path / "keeper.json", {**told, "server": None, "tree": []})
    steps = list(stop(again(run), 60))
    assert last(steps).ok
    assert not alive(run.server)


def test_stopping_twice_says_so(world: Any) -> None:
    run = world.launch()
    assert last(list(stop(run, 60))).ok
    steps = list(stop(run, 60))
    assert [step.kind for step in steps] == ["done"]
    assert steps[0].ok


def test_shared_memory_and_sockets_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    memory = shared_memory.SharedMemory(f"sgl_shm_mq_{os.getpid()}_{os.urandom(4).hex()}", create=True, size=64)
    file = Path("/dev/shm") / memory.name.lstrip("/")
    path = tmp_path / "tmpsocket"
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen()
        held = leftovers.held_files([os.getpid()])
        assert {str(file), str(path)} <= held
        ours = {str(file), str(path)}
        assert leftovers.leftovers(ours, [os.getpid()]) == []  # in use
        memory.close()
        listener.close()
        assert leftovers.leftovers({str(path)}, [os.getpid()]) == sorted(ours)  # the memory by its stamp
        assert leftovers.remove(sorted(ours)) == []
        assert not file.exists()
        assert not path.exists()
    finally:
        listener.close()
        memory.close()
        if file.exists():
            memory.unlink()
        else:
            from multiprocessing import resource_tracker

            resource_tracker.unregister(f"/{file.name}", "shared_memory")


def test_files_of_other_kinds_are_never_leftovers(tmp_path: Path) -> None:
    model = Path("/dev/shm") / f"model-{os.getpid()}.safetensors"
    model.write_bytes(b"weights")
    regular = tmp_path / "tmpabc"
    regular.write_text("not a socket")
    try:
        assert leftovers.leftovers({str(model), str(regular), "/nonexistent"}, [os.getpid()]) == []
    finally:
        model.unlink()


def test_stop_from_two_sides_at_once(world: Any) -> None:
    run = world.launch(children=1)
    done: list[Step] = []
    threads = [threading.Thread(target=lambda: done.append(list(stop(run, 60))[-1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [step.ok for step in done] == [True] * 4


def test_launched_is_the_first_fact(world: Any, facts_of: FactsOf) -> None:
    run = world.launch()
    (first,) = facts_of(run)
    assert isinstance(first, Launched)
    assert first.url == run.url


def test_what_a_main_process_did_not_take_with_it_is_not_waited_for_long(
    world: Any, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.launch(detached=1)
    os.kill(run.keeper.pid, signal.SIGKILL)
    wait(lambda: not alive(run.keeper))
    tree = server_tree(run.server)
    (orphan,) = set(tree) - {run.server}
    monkeypatch.setattr("tui.server.stopping.ORPHAN_GRACE_S", 0.3)
    # Only the main process gets to hear of it, and it goes without its child.
    monkeypatch.setattr("tui.server.stopping.terminate", lambda _: os.kill(run.server.pid, signal.SIGKILL) or [])
    steps = list(stop(run, 3600))
    assert last(steps).ok
    assert not alive(orphan)
