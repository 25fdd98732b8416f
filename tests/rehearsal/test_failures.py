"""A rehearsed server dies as SGLang dies: texts, ranks, exit."""

import os
import re
import signal
import socket
from collections.abc import Callable

import pytest

from tui.facts import Fact, KvPool, Problem, Traceback
from tui.rehearsal.machine import parse_machine
from tui.rehearsal.scenarios import SCENARIOS

Graphs = Callable[[str, int], tuple[str, str]]


def problems(facts: list[Fact]) -> list[Problem]:
    return [fact for fact in facts if isinstance(fact, Problem)]


def tracebacks(facts: list[Fact]) -> list[Traceback]:
    return [fact for fact in facts if isinstance(fact, Traceback)]


def test_the_story_is_refused(start, eagle3) -> None:
    server = start("0.5.9", (*eagle3, "--cuda-graph-max-bs", "128"))
    assert server.wait_end() == -signal.SIGKILL
    facts = server.read()
    refused = [problem for problem in problems(facts) if problem.code == "not-enough-memory"]
    assert {problem.rank for problem in refused} == {f"TP{i}" for i in range(8)}
    assert refused[0].numbers["fraction"] == pytest.approx(0.7596, abs=0.0001)
    found = tracebacks(facts)
    assert len(found) == 8
    assert {trace.exception for trace in found} == {"RuntimeError"}
    assert all("init_memory_pool" in trace.where[-1] for trace in found)
    codes = [problem.code for problem in problems(facts)]
    assert codes[-1] == "sigquit"
    assert not [fact for fact in facts if isinstance(fact, KvPool)]


def test_refusal_in_the_words_of_the_version(start, eagle3, graphs: Graphs) -> None:
    words = {
        "0.5.2": r"--mem-fraction-static\.$",
        "0.5.12": r"Current value: mem_fraction_static=0\.74",
        "0.5.23": r"under --mem-fraction-static=0\.7642\. Raise --mem-fraction-static above 0\.786 .* = 0\.7858",
    }
    servers = {version: start(version, (*eagle3, *graphs(version, 128))) for version in words}
    for version, server in servers.items():
        assert server.wait_end() == -signal.SIGKILL
        assert len(re.findall(words[version], server.text(), re.MULTILINE)) == 8, version
        last = server.text().rstrip().split("\n")[-1]
        assert ("kill_process_tree called" in last) == (version == "0.5.23")


@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_capture_runs_out(start, kimi, graphs: Graphs, version: str) -> None:
    knobs = SCENARIOS["capture-oom"].knobs
    flags = (*kimi, *graphs(version, 512), "--mem-fraction-static", str(knobs["mem-fraction-static"]))
    server = start(version, flags)
    assert server.wait_end() == -signal.SIGKILL
    facts = server.read()
    codes = {problem.code for problem in problems(facts)}
    assert "cuda-oom" in codes
    assert codes & {"capture-failed", "prefill-capture-failed"}
    assert len(tracebacks(facts)) == 8
    assert all(trace.chain for trace in tracebacks(facts))
    oom = next(problem for problem in problems(facts) if problem.code == "cuda-oom")
    assert oom.numbers["free_gib"] < oom.numbers["tried_gib"]


def test_the_draft_does_not_fit_into_the_slack(start, eagle3) -> None:
    server = start("0.5.12", (*eagle3, "--cuda-graph-max-bs", "128", "--mem-fraction-static", "0.982"))
    assert server.wait_end() == -signal.SIGKILL
    assert server.text().count("Load weight begin") == 16
    assert server.text().count("Load weight end") == 8
    found = tracebacks(server.read())
    assert len(found) == 8
    assert all(any("eagle_worker.py" in frame for frame in trace.where) for trace in found)


def test_weights_larger_than_the_gpus(start, kimi) -> None:
    server = start("0.5.9", kimi, machine=parse_machine("8x61440MiB"))
    assert server.wait_end() == -signal.SIGKILL
    assert "Load weight end" not in server.text()
    assert {problem.numbers["gpu"] for problem in problems(server.read()) if problem.code == "cuda-oom"} == set(
        range(8)
    )


def test_another_process_on_one_gpu(start, kimi) -> None:
    server = start("0.5.9", kimi, scenario="foreign")
    assert server.wait_end() == -signal.SIGKILL
    unbalanced = [problem for problem in problems(server.read()) if problem.code == "gpu-unbalanced"]
    assert {problem.rank for problem in unbalanced} == {f"TP{i}" for i in range(8) if i != 3}
    assert unbalanced[0].numbers["min_per_gpu_gib"] == pytest.approx(82.1, abs=0.1)


def test_more_ranks_than_gpus(start, kimi) -> None:
    server = start("0.5.9", kimi, machine=parse_machine("4x97887MiB"))
    assert server.wait_end() == -signal.SIGKILL
    assert {problem.code for problem in problems(server.read())} >= {"cuda-missing", "sigquit"}


@pytest.mark.parametrize("version", ["0.5.9", "0.5.12"])
def test_a_scheduler_killed_during_the_start(start, kimi, version: str) -> None:
    server = start(version, kimi, speed=100)
    server.wait_for_text("Load weight begin")
    os.kill(child(server, "scheduler_TP5"), signal.SIGKILL)
    assert server.wait_end() == 1
    codes = [problem.code for problem in problems(server.read())]
    assert codes[0] == ("rank-dead" if version == "0.5.9" else "rank-died")


@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_a_scheduler_killed_while_serving(start, kimi, graphs: Graphs, version: str) -> None:
    server = start(version, (*kimi, *graphs(version, 8), "--mem-fraction-static", "0.85"))
    server.wait_for_text("Decode batch")
    pid = child(server, "scheduler_TP2")
    os.kill(pid, signal.SIGKILL)
    if version == "0.5.9":  # it stands there, and says nothing
        assert "crashed" not in server.text()
        assert server.stop() == -signal.SIGKILL
        assert "while health check failed" in server.text()
        return
    assert server.wait_end() == -signal.SIGKILL
    crash = next(problem for problem in problems(server.read()) if problem.code == "subprocess-crashed")
    assert f"scheduler_2 (pid={pid}) crashed with exit code -9" in crash.text


@pytest.mark.parametrize(
    ("version", "flags", "said"),
    [
        ("0.5.9", ("--no-such-flag",), "unrecognized arguments: --no-such-flag"),
        ("0.5.9", ("--cuda-graph-max-bs-decode", "8"), "unrecognized arguments"),
        ("0.5.23", ("--cuda-graph-max-bs", "8"), "ambiguous option: --cuda-graph-max-bs could match"),
        ("0.5.23", ("--tp-size", "many"), "invalid int value"),
    ],
)
def test_flags_that_the_version_does_not_take(start, version: str, flags: tuple[str, ...], said: str) -> None:
    server = start(version, ("--model-path", "m", *flags))
    assert server.wait_end() == 2
    assert "usage: " in server.text()
    assert said in server.lines()[-2]
    assert "server_args" not in server.text()


def test_a_value_that_means_nothing_is_refused(start) -> None:
    server = start("0.5.9", ("--model-path", "m", "--kv-cache-dtype", "fp3"))
    assert server.wait_end() == 2
    assert "fp3" in server.text()
    assert "Traceback" not in server.text()


def test_other_flags_of_sglang_are_taken(start) -> None:
    server = start("0.5.9", ("--model-path", "m", "--enable-mscclpp", "--grammar-backend", "none"), speed=100)
    server.wait_for_text("server_args=")


def test_the_port_is_taken(start, kimi) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = start("0.5.9", (*kimi, "--mem-fraction-static", "0.85"), port=other.getsockname()[1])
        assert server.wait_end() == 1
    assert any(problem.code == "port-in-use" for problem in problems(server.read()))
    assert "fired up" not in server.text()


def test_sigterm_before_ready_ends_at_once(start, kimi) -> None:
    server = start("0.5.9", kimi, speed=100)
    server.wait_for_text("Load weight begin")
    assert server.stop() == -signal.SIGTERM


def test_a_prefill_that_finds_no_memory(start, kimi) -> None:
    """0.975: the start succeeds with a few hundred MiB to spare, which a prefill of the traffic takes."""
    server = start("0.5.9", (*kimi, "--cuda-graph-max-bs", "512", "--mem-fraction-static", "0.9745"))
    assert server.wait_end() == -signal.SIGKILL
    assert "fired up" in server.text()
    assert {problem.code for problem in problems(server.read())} >= {"cuda-oom", "sigquit"}


def child(server, title: str) -> int:
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as children:
        for pid in map(int, children.read().split()):
            with open(f"/proc/{pid}/cmdline") as cmdline:
                if cmdline.read().startswith(f"sglang::{title}"):
                    return pid
    pytest.fail(f"no child {title}")
