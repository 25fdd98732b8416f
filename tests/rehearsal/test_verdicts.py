"""The doctor on servers that die as each version does; its fixes lead to a server that is ready."""

import os
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from tui.facts import Fact, Fix, Verdict
from tui.rehearsal.machine import parse_machine
from tui.rehearsal.scenarios import SCENARIOS
from tui.sglang.diagnosis import Doctor

VERSIONS = ("0.4.9", "0.5.2", "0.5.9", "0.5.12", "0.5.15", "0.5.23")


def diagnose(facts: Iterable[Fact]) -> Verdict | None:
    doctor = Doctor()
    doctor.extend(facts)
    return doctor.conclude()


def applied(flags: tuple[str, ...], fix: Fix) -> tuple[str, ...]:
    """The command line with one flag changed."""
    words, left = list(flags), []
    while words:
        word = words.pop(0)
        if word == f"--{fix.knob}":
            words.pop(0)
        else:
            left.append(word)
    return (*left, f"--{fix.knob}", str(fix.new)) if fix.new is not None else tuple(left)


def graph_flag(version: str, batch: int) -> tuple[str, str]:
    new = tuple(map(int, version.split("."))) >= (0, 5, 20)
    return ("--cuda-graph-max-bs-decode" if new else "--cuda-graph-max-bs", str(batch))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_story_from_crash_to_ready(start, eagle3, version: str) -> None:
    flags = (*eagle3, *graph_flag(version, 128))
    if version in ("0.4.9", "0.5.2", "0.5.15", "0.5.23"):
        flags = (*flags, "--mem-fraction-static", "0.76")
    server = start(version, flags)
    assert server.wait_end() == -signal.SIGKILL
    verdict = diagnose(server.read())
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("weights-over-budget", "certain")
    assert verdict.numbers["ranks"] == 8
    fix = verdict.fixes[0]
    assert fix.knob == "mem-fraction-static"
    assert verdict.numbers["floor"] + 0.02 < fix.new < 0.95
    second = start(version, applied(flags, fix))
    second.wait_ready()
    assert diagnose(second.read()) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_graphs_without_room_from_crash_to_ready(start, kimi, version: str) -> None:
    knobs: Mapping[str, Any] = SCENARIOS["capture-oom"].knobs
    flags = (*kimi, *graph_flag(version, 512), "--mem-fraction-static", str(knobs["mem-fraction-static"]))
    server = start(version, flags)
    assert server.wait_end() == -signal.SIGKILL
    verdict = diagnose(server.read())
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("capture-oom", "certain")
    fix = verdict.fixes[0]
    assert fix.knob == "mem-fraction-static"
    assert fix.new < 0.985
    second = start(version, applied(flags, fix))
    second.wait_ready()


@pytest.mark.parametrize("version", ["0.5.2", "0.5.9", "0.5.12"])
def test_a_draft_without_room(start, eagle3, version: str) -> None:
    flags = (*eagle3, *graph_flag(version, 128), "--mem-fraction-static", "0.982")
    server = start(version, flags)
    assert server.wait_end() == -signal.SIGKILL
    verdict = diagnose(server.read())
    assert verdict is not None
    assert verdict.kind == "draft-oom"
    second = start(version, applied(flags, verdict.fixes[0]))
    second.wait_ready()


@pytest.mark.parametrize("version", VERSIONS)
def test_weights_larger_than_the_gpus(start, kimi, version: str) -> None:
    server = start(version, kimi, machine=parse_machine("8x61440MiB"))
    assert server.wait_end() == -signal.SIGKILL
    verdict = diagnose(server.read())
    assert verdict is not None
    assert verdict.kind == "load-oom"


@pytest.mark.parametrize("version", ["0.5.2", "0.5.9", "0.5.23"])
def test_another_process_on_one_gpu(start, kimi, version: str) -> None:
    server = start(version, kimi, scenario="foreign")
    assert server.wait_end() == -signal.SIGKILL
    verdict = diagnose(server.read())
    assert verdict is not None
    assert verdict.kind == "gpu-shared"


@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_more_ranks_than_gpus(start, kimi, version: str) -> None:
    server = start(version, kimi, machine=parse_machine("4x97887MiB"))
    server.wait_end()
    verdict = diagnose(server.read())
    assert verdict is not None
    assert verdict.kind == "bad-flag"
    assert "GPU" in verdict.title


@pytest.mark.parametrize(("version", "kind"), [("0.5.9", "host-memory"), ("0.5.12", "host-memory")])
def test_a_scheduler_killed_during_the_start(start, kimi, child: Callable[..., int], version: str, kind: str) -> None:
    server = start(version, kimi, speed=100)
    server.wait_for_text("Load weight begin")
    os.kill(child(server, "scheduler_TP5"), signal.SIGKILL)
    assert server.wait_end() == 1
    verdict = diagnose(server.read())
    assert verdict is not None
    assert verdict.kind == kind
    assert verdict.confidence != "certain"


@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_a_scheduler_killed_while_serving(start, kimi, child: Callable[..., int], version: str) -> None:
    server = start(version, (*kimi, *graph_flag(version, 8), "--mem-fraction-static", "0.85"))
    server.wait_for_text("Decode batch")
    os.kill(child(server, "scheduler_TP2"), signal.SIGKILL)
    if version == "0.5.9":  # it stands there, and says nothing until it is stopped
        server.stop()
        kind = "hang"
    else:
        server.wait_end()
        kind = "unknown"
    verdict = diagnose(server.read())
    assert verdict is not None
    assert verdict.kind == kind
    assert "dmesg" in verdict.why


@pytest.mark.parametrize(
    ("version", "flags", "new"),
    [
        ("0.5.9", ("--no-such-flag",), None),
        ("0.5.9", ("--cuda-graph-max-bs-decode", "8"), "cuda-graph-max-bs"),
        ("0.5.23", ("--cuda-graph-max-bs", "8"), "cuda-graph-max-bs-decode"),
        ("0.5.23", ("--tp-size", "many"), None),
    ],
)
def test_flags_that_the_version_does_not_take(start, version: str, flags: tuple[str, ...], new: str | None) -> None:
    server = start(version, ("--model-path", "m", *flags))
    assert server.wait_end() == 2
    verdict = diagnose(server.read())
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("bad-flag", "certain")
    assert flags[0] in verdict.title
    if new is not None:
        assert f"--{new}" in " ".join((verdict.why, *(fix.why for fix in verdict.fixes)))


def test_the_port_is_taken(start, kimi) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = start("0.5.9", (*kimi, "--mem-fraction-static", "0.85"), port=port)
        assert server.wait_end() == 1
    verdict = diagnose(server.read())
    assert verdict is not None
    assert verdict.kind == "port-in-use"
    assert verdict.numbers["port"] == port


@pytest.mark.parametrize("version", ["0.5.9"])
def test_a_prefill_that_finds_no_memory(start, kimi, version: str) -> None:
    server = start(version, (*kimi, *graph_flag(version, 512), "--mem-fraction-static", "0.9745"))
    assert server.wait_end() == -signal.SIGKILL
    verdict = diagnose(server.read())
    assert verdict is not None
    assert verdict.kind == "runtime-oom"
    assert [fix.knob for fix in verdict.fixes][:2] == ["mem-fraction-static", "chunked-prefill-size"]
    assert verdict.fixes[0].new < 0.9745


@pytest.mark.parametrize("version", VERSIONS)
def test_a_healthy_server_is_left_alone(start, kimi, version: str) -> None:
    server = start(version, (*kimi, *graph_flag(version, 8), "--mem-fraction-static", "0.85"))
    server.wait_for_text("Decode batch")
    assert diagnose(server.read()) is None
    server.stop()
    assert diagnose(server.read()) is None


@pytest.fixture
def child() -> Callable[..., int]:
    def find(server: Any, title: str) -> int:
        with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as children:
            for pid in map(int, children.read().split()):
                with open(f"/proc/{pid}/cmdline") as cmdline:
                    if cmdline.read().startswith(f"sglang::{title}"):
                        return pid
        pytest.fail(f"no child {title}")

    return find
