# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Memory that ran out: for weights, KV cache, graphs, the draft, and while serving."""

from dataclasses import replace

import pytest
from dying_logs import ADVICE, ERAS, OOM, crash, end, failure, noise, refused, trace, until


@pytest.mark.parametrize("version", ERAS)
def test_the_budget_is_refused(writer, diagnose, version: str) -> None:
    w = writer(version, tp=2)
    verdict = diagnose(crash(w, "Load weight end", refused(version), "init", "pool", count=2))
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("weights-over-budget", "certain")
    assert verdict.numbers["floor"] == pytest.approx(0.7695 if w.since("0.5.14") else 0.7688, abs=0.0001)
    assert verdict.numbers["ranks"] == 2
    assert "2 ranks, same error" in verdict.why
    fix = verdict.fixes[0]
    assert fix.knob == "mem-fraction-static"
    assert fix.new == pytest.approx(0.85)
    assert "GiB of slack" in fix.why
    assert verdict.numbers["suggested_kv_gib"] == pytest.approx(94.08 * (fix.new - verdict.numbers["floor"]), abs=0.02)
    assert "sigquit" not in verdict.title.lower()


@pytest.mark.parametrize("version", ["0.4.9", "0.5.2", "0.5.9", "0.5.12"])
def test_a_negative_profile_is_the_earliest_sign(writer, diagnose, version: str) -> None:
    w = writer(version, tp=2)
    lines = until(w, "Load weight end", 2)
    lines += [
        f"{w.stamp(r)}max_total_tokens=131072 is larger than the profiled value -12671. Use the profiled value instead."
        for r in (0, 1)
    ]
    early = diagnose(lines)
    assert early is not None
    assert early.kind == "weights-over-budget"
    late = diagnose([*lines, *failure(w, refused(version), "init", "pool"), *end(w)])
    assert late is not None
    assert late.kind == "weights-over-budget"
    assert late.fixes
    assert late.fixes[0].new == early.fixes[0].new


@pytest.mark.parametrize("version", ["0.5.2", "0.5.9", "0.5.12", "0.5.23"])
def test_no_fraction_works(writer, sizes, diagnose, version: str) -> None:
    w = writer(version, tp=2, sizes=replace(sizes(), base=93.98))
    said = refused(version).replace("0.770", "0.999").replace("0.7695", "0.9989")
    verdict = diagnose(crash(w, "Load weight end", said, "init", "pool", count=2))
    assert verdict is not None
    assert verdict.kind == "does-not-fit"
    assert verdict.fixes == ()
    assert "no fraction works" in verdict.title


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("spec", [False, True])
def test_graphs_run_out(writer, diagnose, version: str, spec: bool) -> None:
    w = writer(version, tp=2, spec=spec)
    word = "CUDA" if version == "0.4.6" else "cuda"
    lines = [
        *until(w, "raph begin", 2),
        *failure(w, f"torch.OutOfMemoryError: {OOM}", "init", "capture"),
        "During handling of the above exception, another exception occurred:",
        "",
        *trace(f"Exception: Capture {word} graph failed: {OOM}{ADVICE}", "init"),
        "",
        *noise(w, 1),
        *end(w),
    ]
    verdict = diagnose(lines)
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("capture-oom", "certain")
    assert verdict.numbers["missing_gib"] == pytest.approx(2.0)
    fix = verdict.fixes[0]
    assert fix.knob == "mem-fraction-static"
    assert verdict.numbers["floor"] < fix.new < 0.85
    assert (0.85 - fix.new) * 94.08 > 2.0


def test_a_token_cap_is_the_lever_where_it_decides_the_pool(writer, diagnose) -> None:
    w = writer("0.5.23", tp=2)
    cut = crash(w, "raph begin", f"torch.OutOfMemoryError: {OOM}", "init", "capture", count=2)
    capped = [line.replace("'tp_size'", "'max_total_tokens': 116707, 'tp_size'") for line in cut]
    verdict = diagnose(capped)
    assert verdict is not None
    assert verdict.kind == "capture-oom"
    assert verdict.fixes[0].knob == "max-total-tokens"
    assert 0 < verdict.fixes[0].new < 116707
    assert "the fraction is not" in verdict.why


def test_no_smaller_fraction_works_so_the_graphs_must_shrink(writer, sizes, diagnose) -> None:
    w = writer("0.5.23", tp=2, sizes=replace(sizes(), base=79.0))
    cut = crash(w, "raph begin", f"torch.OutOfMemoryError: {OOM}", "init", "capture", count=2)
    verdict = diagnose([line.replace("'tp_size'", "'cuda_graph_max_bs_decode': 256, 'tp_size'") for line in cut])
    assert verdict is not None
    assert "A smaller fraction does not work" in verdict.why
    assert [(fix.knob, fix.new) for fix in verdict.fixes] == [("cuda-graph-max-bs-decode", 128)]


@pytest.mark.parametrize("version", ["0.5.15", "0.5.23"])
def test_prefill_graphs_run_out(writer, diagnose, version: str) -> None:
    said = f"Exception: Capture prefill CUDA graph failed: {OOM}\nFail when using backend: breakable"
    verdict = diagnose(crash(writer(version, tp=2), "Memory pool end", said, "init", count=2))
    assert verdict is not None
    assert verdict.kind == "capture-oom"
    assert "disable-prefill-cuda-graph" in [fix.knob for fix in verdict.fixes]


@pytest.mark.parametrize("version", ["0.4.9", "0.5.5", "0.5.12"])
@pytest.mark.parametrize(
    ("marker", "count", "frames"),
    [("Load weight begin", 3, ("draft", "load")), ("Load weight end", 3, ("draft", "pool"))],
)
def test_the_draft_does_not_fit_into_the_slack(writer, diagnose, version: str, marker: str, count: int, frames) -> None:
    w = writer(version, tp=2, spec=True)
    verdict = diagnose(crash(w, marker, f"torch.OutOfMemoryError: {OOM}", "init", *frames, count=count))
    assert verdict is not None
    assert verdict.kind == "draft-oom"
    assert "slack" in verdict.why
    assert verdict.fixes[0].knob == "mem-fraction-static"
    assert verdict.fixes[0].new < 0.85


def test_the_draft_does_not_fit_beside_the_target(writer, diagnose) -> None:
    w = writer("0.5.23", tp=2, spec=True)
    verdict = diagnose(crash(w, "Load weight begin", f"torch.OutOfMemoryError: {OOM}", "init", "load", count=3))
    assert verdict is not None
    assert verdict.kind == "draft-oom"
    assert "target and draft together" in verdict.why


@pytest.mark.parametrize("version", ERAS)
def test_weights_run_out(writer, diagnose, version: str) -> None:
    verdict = diagnose(
        crash(writer(version, tp=2), "Load weight begin", f"torch.OutOfMemoryError: {OOM}", "init", "load", count=2)
    )
    assert verdict is not None
    assert verdict.kind == "load-oom"


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("kind", ["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"])
def test_memory_runs_out_while_serving(writer, decode_line, diagnose, version: str, kind: str) -> None:
    w = writer(version, tp=2)
    served = [*w.start(), *(decode_line(version, second=i) for i in range(5))]
    verdict = diagnose([*served, *failure(w, f"{kind}: {OOM}", "run", "forward"), *noise(w, 1), *end(w, launch=False)])
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("runtime-oom", "certain")
    assert verdict.fixes[0].knob == "mem-fraction-static"


def test_another_process_is_on_the_gpu(writer, diagnose) -> None:
    said = OOM.replace("Including", "Process 77 has 60.00 GiB memory in use. Including").replace("94.46", "34.46")
    verdict = diagnose(crash(writer("0.5.9", tp=2), "Load weight begin", f"torch.OutOfMemoryError: {said}", "load"))
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("gpu-shared", "likely")


def test_a_full_pool_and_an_idle_draft(decode_line, diagnose) -> None:
    full = [decode_line(second=i, **{"token usage": "1.00", "#queue-req": 3}) for i in range(4)]
    verdict = diagnose(full)
    assert verdict is not None
    assert verdict.kind == "kv-exhausted"
    assert diagnose([*full, decode_line(second=5)]) is None
    stamped = [
        f"[2026-11-29 13:{i // 60:02d}:{i % 60:02d}" + decode_line(**{"accept len": "1.05"})[20:]
        for i in range(0, 600, 10)
    ]
    low = diagnose(stamped)
    assert low is not None
    assert low.kind == "low-acceptance"
    assert diagnose(stamped[:5]) is None


def test_requests_that_are_thrown_back_again_and_again(decode_line, diagnose) -> None:
    said = "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 900, #new_token_ratio: 0.4 -> 0.8"
    retracted = [f"[2026-11-29 13:00:{second:02d} TP0] {said}" for second in (10, 20)]
    verdict = diagnose([*retracted, decode_line(second=30)])
    assert verdict is not None
    assert verdict.kind == "kv-exhausted"
    assert verdict.numbers["retracted_requests"] == 4
    assert diagnose([retracted[0], decode_line(second=30)]) is None
    assert diagnose([*retracted, decode_line(second=30).replace("13:00", "13:40")]) is None
