# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""The doctor on whole logs: healthy ones, several lives, cuts, what the launch told, and recorded deaths."""

import gzip
import random
from pathlib import Path

import pytest
from dying_logs import ERAS, OOM, crash, failure, refused, trace, until

from tui.facts import Exited, Launched
from tui.sglang.diagnosis import Doctor
from tui.sglang.grammar import LogGrammar


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("spec", [False, True])
def test_a_healthy_server_with_warnings(writer, decode_line, diagnose, version: str, spec: bool) -> None:
    w = writer(version, tp=2, spec=spec)
    warned = [
        "WARNING: Ignore import error when loading sglang.srt.models.foo: No module named 'bar'",
        w.stamp(0) + "max_total_tokens=131072 is larger than the profiled value 90000. Use the profiled value instead.",
        *trace("ImportError: cannot import name 'flash_attn_func'", "init"),
        w.stamp(0) + 'NCCL WARN Missing "iommu=pt"',
    ]
    lines = w.start()
    served = [
        decode_line(version),
        w.stamp(0)
        + "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 900, #new_token_ratio: 0.4 -> 0.8",
        *failure(w, "ValueError: a request's own trouble", "init")[1:],
        w.stamp() + "Input length (9000 tokens) exceeds the maximum allowed length (8192 tokens). Use a shorter input.",
        decode_line(version),
    ]
    assert diagnose([*lines[:2], *warned, *lines[2:], *served]) is None
    assert diagnose(lines) is None
    assert (
        diagnose(
            [
                *lines,
                w.stamp() + "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
                *trace("asyncio.exceptions.CancelledError", "init"),
            ]
        )
        is None
    )


def test_a_later_start_in_the_same_log_is_a_life_of_its_own(writer, diagnose) -> None:
    w = writer("0.5.9", tp=2)
    died = crash(w, "raph begin", f"torch.OutOfMemoryError: {OOM}", "init", "capture", count=2)
    assert diagnose([*died, *w.start()]) is None
    again = diagnose([*w.start(), *died])
    assert again is not None
    assert again.kind == "capture-oom"


@pytest.mark.parametrize(
    "prefix",
    ["sglang-1  | ", "(SGLangWorker pid=381, ip=10.0.0.7) ", "2026-11-29T12:00:00.000000000Z stderr F ", "3: "],
)
def test_logs_in_a_transport(writer, diagnose, prefix: str) -> None:
    lines = crash(writer("0.5.9", tp=2), "Load weight end", refused("0.5.9"), "init", "pool", count=2)
    verdict = diagnose([prefix + line for line in lines])
    assert verdict is not None
    assert verdict.kind == "weights-over-budget"


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_a_cut_head_or_tail_never_makes_a_certain_error(writer, diagnose, at: float) -> None:
    """However a log is cut, the verdict is the right kind, a healthy one or "unknown"."""
    lines = crash(writer("0.5.9", tp=2), "raph begin", f"torch.OutOfMemoryError: {OOM}", "init", "capture", count=2)
    generator = random.Random(int(at * 10))
    for _ in range(40):
        first = generator.randrange(len(lines))
        last = generator.randrange(first, len(lines)) + 1
        verdict = diagnose(lines[first:last])
        assert verdict is None or verdict.kind in ("capture-oom", "unknown")


def test_the_knobs_of_the_launch_are_what_a_fix_replaces(read, writer) -> None:
    w = writer("0.5.23", tp=2)
    doctor = Doctor()
    knobs = {"mem-fraction-static": 0.85, "cuda-graph-max-bs-decode": 64}
    doctor.apply(Launched(at=1.0, run="r", profile="p", command=(), knobs=knobs, sglang_version="0.5.23"))
    doctor.extend(read(crash(w, "raph begin", f"torch.OutOfMemoryError: {OOM}", "init", "capture", count=2)))
    verdict = doctor.verdict()
    assert verdict is not None
    assert [(fix.knob, fix.old) for fix in verdict.fixes] == [
        ("mem-fraction-static", 0.85),
        ("cuda-graph-max-bs-decode", 64),
    ]
    assert doctor.verdict() is verdict
    doctor.apply(Launched(at=2.0, run="s", profile="p", command=(), knobs=knobs))
    assert doctor.verdict() is None


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (Exited(at=9.0, code=137), ("kill_process_tree", "dmesg")),
        (Exited(at=9.0, code=None, signal="SIGKILL"), ("kill_process_tree", "dmesg")),
        (Exited(at=9.0, code=1), ("exit code 1",)),
        (Exited(at=9.0, code=-11), ("SIGSEGV",)),
    ],
)
def test_an_end_without_any_text(fact: Exited, words: tuple[str, ...]) -> None:
    doctor = Doctor()
    doctor.apply(Launched(at=1.0, run="r", profile="p", command=(), knobs={}))
    assert doctor.verdict() is None
    doctor.apply(fact)
    verdict = doctor.verdict()
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("unknown", "unknown")
    assert all(word in verdict.title + verdict.why for word in words)


def test_an_end_that_was_asked_for() -> None:
    doctor = Doctor()
    doctor.apply(Launched(at=1.0, run="r", profile="p", command=(), knobs={}))
    doctor.apply(Exited(at=9.0, code=137, requested=True))
    assert doctor.verdict() is None


def test_a_verdict_needs_no_line_after_the_one_that_says_it(writer) -> None:
    """A moment of silence is enough, and until then there is none: the first words may mislead."""
    w = writer("0.5.9", tp=2)
    lines = [*until(w, "Load weight end", 2), *failure(w, refused("0.5.9"), "init", "pool")[:-1]]
    grammar, doctor = LogGrammar(), Doctor()
    for number, line in enumerate(lines, 1):
        doctor.extend(grammar.feed(number, line, 0.0))
    assert grammar.waits
    assert doctor.verdict() is None
    doctor.extend(grammar.settle())
    verdict = doctor.verdict()
    assert verdict is not None
    assert verdict.kind == "weights-over-budget"


FIXTURES = Path(__file__).parents[1] / "fixtures" / "sglang-0.5.23"
RECORDED = {
    "bad-choice": "bad-flag",
    "bad-flag": "bad-flag",
    "renamed-flag": "bad-flag",
    "budget-refused": "weights-over-budget",
    "budget-refused-eagle3": "weights-over-budget",
    "killed-detokenizer": "unknown",
    "killed-scheduler": "unknown",
    "model-missing": "model-missing",
    "model-missing-hub": "model-missing",
    "port-in-use-http": "port-in-use",
    "port-in-use-sglang": "port-in-use",
    "port-in-use-silent": "port-in-use",
    "scheduler-exception": "unknown",
    "tiny-pool": "kv-exhausted",
    "wrong-draft": "draft-mismatch",
}


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("**/server.log*")), ids=lambda path: str(path.parent.relative_to(FIXTURES))
)
def test_logs_of_a_real_server(diagnose, path: Path) -> None:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
    verdict = diagnose(text)
    kind = RECORDED.get(path.parent.name)
    assert (verdict.kind if verdict else None) == kind
    if path.parent.name == "scheduler-exception":
        assert verdict is not None
        assert "longer than 600" in verdict.title
