# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Deaths whose cause is not in their last words: peers' noise, signals, watchdogs."""

import pytest
from dying_logs import ERAS, OOM, end, failure, noise, trace, until
from endpoint_answers import RECORDED

from tui.sglang.diagnosis import Doctor
from tui.sglang.grammar import LogGrammar


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("place", ["before", "after"])
def test_the_words_of_peers_are_never_the_cause(writer, diagnose, version: str, place: str) -> None:
    w = writer(version, tp=4)
    start = until(w, "raph begin", 3)
    cause = failure(w, f"torch.OutOfMemoryError: {OOM}", "init", "capture", rank=2)
    others = [
        line
        for rank in (0, 1, 3)
        for line in [
            *noise(w, rank),
            f"[rank{rank}]:[E1129 12:00:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran for 600000 milliseconds before timing out.",
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2027, remote process exited or there was a network error, NCCL version 2.21.5",
        ]
    ]
    parts = [others, cause] if place == "before" else [cause, others]
    verdict = diagnose([*start, *(line for part in parts for line in part), *end(w)])
    assert verdict is not None
    assert verdict.kind == "capture-oom"
    assert "TP2" in verdict.why


def test_only_the_words_of_peers(writer, diagnose) -> None:
    w = writer("0.5.9", tp=2)
    verdict = diagnose([*until(w, "Load weight begin", 2), *noise(w, 0), *noise(w, 1), *end(w)])
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("unknown", "unknown")
    assert "another rank or node died first" in verdict.title


@pytest.mark.parametrize(
    ("line", "kind", "word"),
    [
        (
            "Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer.",
            "host-memory",
            "dmesg",
        ),
        (
            "Rank 0 scheduler died during initialization (exit code: -11). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer.",
            "unknown",
            "segmentation",
        ),
        (
            "Rank 0 scheduler died during initialization (exit code: -3). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer.",
            "unknown",
            "SIGQUIT",
        ),
        (
            "Rank 0 scheduler is dead. Please check if there are relevant logs.\n[2026-11-29 12:10:00] Exit code: -9",
            "host-memory",
            "dmesg",
        ),
        ("Rank 0 scheduler is dead. Please check if there are relevant logs.", "unknown", "log of that rank"),
        ("Initialization failed. Please see the error messages above.", "unknown", "further up"),
        ("Received sigquit from a child process. It usually means the child failed.", "unknown", "further up"),
    ],
)
def test_deaths_without_a_word(writer, diagnose, line: str, kind: str, word: str) -> None:
    w = writer("0.5.12", tp=2)
    verdict = diagnose("\n".join([*until(w, "Load weight begin", 2), w.stamp() + line]))
    assert verdict is not None
    assert verdict.kind == kind
    assert verdict.confidence != "certain"
    assert word in verdict.title + verdict.why


@pytest.mark.parametrize("code", [-9, -11, -6])
def test_a_child_that_dies_while_serving(writer, decode_line, diagnose, code: int) -> None:
    w = writer("0.5.23", tp=2)
    crashed = (
        f"{w.stamp()}Subprocess scheduler_1 (pid=4243) crashed with exit code {code}. Triggering SIGQUIT for cleanup..."
    )
    verdict = diagnose([*w.start(), decode_line(), crashed, *end(w, launch=False)])
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("unknown", "unknown")
    assert verdict.title.startswith("Scheduler_1 ")
    assert verdict.numbers["exit_code"] == code


@pytest.mark.parametrize(
    "text",
    [
        "Watchdog timeout (self.watchdog_timeout=300)",
        "scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    ],
)
def test_a_watchdog(writer, decode_line, diagnose, text: str) -> None:
    w = writer("0.5.9", tp=2)
    dump = [
        f"{w.stamp(1)}Pyspy dump for PID 309:",
        "Process 309: sglang::scheduler_TP1",
        'Thread 309 (active): "MainThread"',
        "    verify (eagle_info.py:259)",
    ]
    verdict = diagnose([*w.start(), decode_line(), *dump, w.stamp(1) + text, *end(w, launch=False)])
    assert verdict is not None
    assert verdict.kind == "hang"
    assert verdict.numbers["watchdog_timeout_s"] == 300


HEALTH = "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 13:21:29. last_heartbeat time: 13:20:16"


def test_health_checks_that_fail(writer, decode_line, diagnose) -> None:
    w = writer("0.5.9", tp=2)
    served = [*w.start(), decode_line("0.5.9")]
    failed = [w.stamp() + HEALTH, w.stamp() + HEALTH]
    dead = diagnose([*served, *failed])
    assert dead is not None
    assert (dead.kind, dead.confidence) == ("hang", "likely")
    assert diagnose([*served, failed[0]]) is None
    assert diagnose([*served, *failed, decode_line("0.5.9")]) is None


def test_killed_without_a_word_while_loading(writer, diagnose) -> None:
    killed = "./run.sh: line 22: 103525 Killed                  python -m sglang.launch_server"
    w = writer("0.5.9", tp=2)
    loading = diagnose([*until(w, "Load weight begin", 2), killed])
    assert loading is not None
    assert (loading.kind, loading.confidence) == ("host-memory", "likely")
    own = diagnose([*until(w, "Load weight begin", 2), *end(w)])
    assert own is not None
    assert own.kind == "unknown"
    serving = diagnose([*w.start(), killed])
    assert serving is not None
    assert serving.kind == "unknown"


def test_what_was_mentioned_long_before_the_end_is_not_its_cause(writer, decode_line, diagnose) -> None:
    w = writer("0.5.23", tp=2)
    warned = [w.stamp() + "WARNING: libfoo.so: cannot open shared object file: No such file or directory"]
    crashed = (
        f"{w.stamp()}Subprocess scheduler_1 (pid=4243) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
    )
    quiet = [w.stamp() + "a line of no interest"] * 200
    verdict = diagnose([*until(w, "raph begin", 2), *warned, *quiet, crashed, *end(w, launch=False)])
    assert verdict is not None
    assert verdict.kind == "unknown"
    assert "SIGKILL" in verdict.title


def test_a_request_of_long_ago_did_not_kill_the_scheduler(writer, diagnose) -> None:
    w = writer("0.5.23", tp=2)
    own = trace("ValueError: a request's own trouble", "init")
    crashed = (
        f"{w.stamp()}Subprocess scheduler_1 (pid=4243) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
    )
    verdict = diagnose([*w.start(), *own, crashed, *end(w, launch=False)])
    assert verdict is not None
    assert verdict.title.startswith("Scheduler_1 was killed")


@pytest.mark.parametrize("log", sorted(RECORDED.glob("*/server.log")), ids=lambda log: log.parent.name)
def test_a_log_that_is_being_written_is_never_named_otherwise_first(log) -> None:
    grammar, doctor, named = LogGrammar(), Doctor(), []
    for number, line in enumerate(log.read_text().split("\n"), 1):
        doctor.extend(grammar.feed(number, line, 0.0))
        named.append(doctor.verdict())
    doctor.extend(grammar.finish(0.0))
    last = doctor.verdict()
    assert {verdict.kind for verdict in named if verdict is not None} <= {last.kind if last is not None else None}
