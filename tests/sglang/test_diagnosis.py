# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""What killed it: every failure line, in the words of every era, said by several ranks amid their peers' noise."""

import gzip
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tui.facts import Exited, Launched, Verdict
from tui.sglang.diagnosis import Doctor
from tui.sglang.verdicts import KINDS

ERAS = ("0.4.6", "0.4.9", "0.5.2", "0.5.5", "0.5.9", "0.5.12", "0.5.15", "0.5.23")
OOM = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 94.97 GiB of which 512.00 MiB is free. "
    "Including non-PyTorch memory, this process has 94.46 GiB memory in use. Of the allocated memory 90.00 GiB is allocated "
    "by PyTorch, with 1.25 GiB allocated in private pools (e.g., CUDA Graphs), and 256.00 MiB is reserved by PyTorch but unallocated."
)
ADVICE = (
    "\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n3. disable torch compile by not using --enable-torch-compile\n"
    "4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)\n"
    "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose "
)
SRT = "/srv/venv/lib/python3.11/site-packages/sglang/srt"
FRAMES = {
    "init": ("managers/scheduler.py", "run_scheduler_process", "scheduler = Scheduler("),
    "pool": ("model_executor/model_runner.py", "init_memory_pool", "raise RuntimeError("),
    "load": ("model_executor/model_runner.py", "load_model", "self.model = get_model("),
    "capture": ("model_executor/cuda_graph_runner.py", "capture_one_batch_size", "run_once()"),
    "draft": ("speculative/eagle_worker.py", "__init__", "super().__init__("),
    "backend": ("layers/attention/flashinfer_backend.py", "__init__", "torch.empty("),
    "run": ("managers/scheduler.py", "event_loop_overlap", "result = self.run_batch(batch)"),
    "forward": ("model_executor/model_runner.py", "forward", "output = self._forward_raw("),
    "attention": ("layers/attention/triton_backend.py", "forward_extend", "self.extend_attention_fwd("),
}


@pytest.fixture
def diagnose(read) -> Callable[[str | Iterable[str]], Verdict | None]:
    """diagnose(text or lines): the verdict on a whole log."""

    def run(text: str | Iterable[str]) -> Verdict | None:
        doctor = Doctor()
        doctor.extend(read(text))
        verdict = doctor.conclude()
        assert verdict is None or (verdict.kind in KINDS and verdict.kind != "none")
        return verdict

    return run


def trace(exception: str, *frames: str) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for name in frames:
        file, function, code = FRAMES[name]
        lines += [f'  File "{SRT}/{file}", line 123, in {function}', f"    {code}"]
    return [*lines, *exception.split("\n")]


def failure(writer, exception: str, *frames: str, rank: int = 0) -> list[str]:
    first, *rest = trace(exception, *frames)
    return [f"{writer.stamp(rank)}Scheduler hit an exception: {first}", *rest, ""]


def noise(writer, rank: int) -> list[str]:
    said = (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4242"
    )
    return [
        f"[rank{rank}]:[W1129 12:00:00.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called",
        *failure(writer, said, "init", rank=rank),
    ]


def end(writer, launch: bool = True) -> list[str]:
    if launch or not writer.since("0.5.3"):
        lines = [writer.stamp() + "Received sigquit from a child process. It usually means the child failed."]
    else:
        lines = [writer.stamp() + "SIGQUIT received. signum=None, frame=None. It usually means one child failed."]
    if writer.since("0.5.13"):
        lines.append(writer.stamp() + "kill_process_tree called: parent_pid=1, include_parent=True, pid=1")
    return [
        *lines,
        "./run.sh: line 22: 103525 Killed                  python -m sglang.launch_server --mem-fraction-static 0.95",
    ]


def until(writer, marker: str, count: int = 1) -> list[str]:
    """The start up to and with the `count`-th line that holds `marker`."""
    lines, seen = [], 0
    for line in writer.start():
        lines.append(line)
        seen += marker in line
        if seen == count:
            return lines
    pytest.fail(f"{marker!r} does not come {count} times")


def crash(writer, marker: str, exception: str, *frames: str, launch: bool = True, count: int = 1) -> list[str]:
    """A start of two ranks that ends after `marker` with the same exception on both, and the words of a third."""
    return [
        *until(writer, marker, count),
        *failure(writer, exception, *frames, rank=1),
        *failure(writer, exception, *frames, rank=0),
        *noise(writer, 1),
        *end(writer, launch),
    ]


def refused(version: str) -> str:
    release = tuple(map(int, version.split(".")))
    if release >= (0, 5, 14):
        return (
            "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.85. Raise "
            "--mem-fraction-static above 0.770 (minimum viable = 1 - available/pre = 0.7695). If using speculative decoding, "
            "draft weights are now counted."
        )
    said = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    if release >= (0, 5, 10):
        return f"{said} Current value: mem_fraction_static=0.76"
    return f"{said} Current value: self.server_args.mem_fraction_static=0.76" if release >= (0, 5, 3) else said


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


# exception, the last line before it, how many of that line, frames, kind
OTHERS = [
    ("RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 4096 tokens.\nAvailable tokens: 12", "fired up", ("run",), "kv-exhausted"),
    ("RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 8 tokens.", "fired up", ("run",), "kv-exhausted"),
    ("RuntimeError: Out of memory. Try to lower your batch size.", "fired up", ("run",), "kv-exhausted"),
    ("RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. req_to_token_pool.available_size()=0", "fired up", ("run",), "kv-exhausted"),
    ("AssertionError: Memory pool size is too small", "Memory pool end", ("init",), "kv-exhausted"),
    ("AssertionError: max_running_request is zero", "Memory pool end", ("init",), "kv-exhausted"),
    ("ValueError: SWA pool (64 tokens) cannot hold even one request: sliding_window_size=4096", "Load weight end", ("init",), "state-exhausted"),
    ("RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed max_mamba_cache_size=3 (total_rest_memory=1.20 GB, mamba_cache_per_req=300.00 MB). Try: raise it", "Load weight end", ("init",), "state-exhausted"),
    ("RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any requests. max_mamba_cache_size=2", "Load weight end", ("init",), "state-exhausted"),
    ("ValueError: token_to_kv_pool_allocator memory leak detected! available_size=3189424, protected_size=0", "fired up", ("run",), "pool-accounting"),
    ("ValueError: req_to_token_pool memory leak detected! available_size=40, total_size=48", "fired up", ("run",), "pool-accounting"),
    ("ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=8.88, local_gpu_memory=11.90, local_gpu_memory * 0.9=10.71", "torch distributed begin", ("init",), "gpu-shared"),
    ("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=8.88, local_gpu_memory=11.90, local_gpu_memory * 0.9=10.71", "torch distributed begin", ("init",), "gpu-shared"),
    (f"Exception: Capture cuda graph failed: Internal Triton PTX codegen error:\nptxas fatal : Value 'sm_120' is not defined for option 'gpu-name'{ADVICE}", "raph begin", ("init", "capture"), "kernel"),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "Memory pool end", ("init",), "kernel"),
    (f"Exception: Capture cuda graph failed: CUDA error: an illegal memory access was encountered{ADVICE}", "raph begin", ("init", "capture"), "kernel"),
    (f"Exception: Capture cuda graph failed: operation not permitted when stream is capturing{ADVICE}", "raph begin", ("init", "capture"), "kernel"),
    ("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.", "Memory pool end", ("init",), "kernel"),
    ("RuntimeError: Error building extension 'sampling': ninja: build stopped: subcommand failed.", "Memory pool end", ("init",), "kernel"),
    ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", "server_args=", ("init",), "kernel"),
    ("RuntimeError: \"fused_moe\" not implemented for 'Float8_e4m3fn'", "Memory pool end", ("init",), "kernel"),
    ("NotImplementedError: This attention backend is not supported on this GPU", "Memory pool end", ("init", "attention"), "kernel"),
    ("ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')", "Memory pool end", ("init",), "kernel"),
    ("AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use `--attention-backend flashinfer`.", "Load weight end", ("init",), "kernel"),
    ("PermissionError: [Errno 13] Permission denied: '/models/q/config.json'", "server_args=", ("init",), "model-missing"),
    ("torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:275, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5", "torch distributed begin", ("init",), "network"),
    ("RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error", "torch distributed begin", ("init",), "network"),
    ("torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 20000).", "torch distributed begin", ("init",), "network"),
    ("RuntimeError: DataLoader worker: unable to open shared memory object </torch_1> in read-write mode: No space left on device /dev/shm", "torch distributed begin", ("init",), "network"),
    ("ValueError: Not enough host memory available. Requesting 64.00 GB but only have 20.00 GB free. Please reduce the size of the hierarchical cache.", "Memory pool end", ("init",), "host-memory"),
    ("RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 117440512 bytes.", "Load weight begin", ("init", "load"), "host-memory"),
    ("MemoryError", "Load weight begin", ("init", "load"), "unknown"),
    ("AttributeError: 'LlamaForCausalLM' object has no attribute 'hot_token_id'", "Load weight end", ("init", "draft"), "draft-mismatch"),
    ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (29x256 and 384x128)", "Load weight end", ("init", "draft"), "draft-mismatch"),
    ("OSError: /models/x does not appear to have a file named config.json. Checkout 'https://huggingface.co//models/x/tree/main' for available files.", "server_args=", ("init",), "model-missing"),
    ("RuntimeError: Cannot find any model weights with `/models/x`", "Load weight begin", ("init", "load"), "model-missing"),
    ("OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/m/x.", "server_args=", ("init",), "model-missing"),
    ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge", "Load weight begin", ("init", "load"), "model-missing"),
    ("RuntimeError: something nobody has seen before", "Memory pool end", ("init",), "unknown"),
]  # fmt: skip


@pytest.mark.parametrize("version", ["0.4.9", "0.5.9", "0.5.12"])
@pytest.mark.parametrize(
    ("exception", "marker", "frames", "kind"), OTHERS, ids=[f"{k}-{i}" for i, (_, _, _, k) in enumerate(OTHERS)]
)
def test_other_failures(writer, diagnose, version: str, exception: str, marker: str, frames, kind: str) -> None:
    serving = marker == "fired up"
    lines = crash(writer(version, tp=2), marker, exception, *frames, launch=not serving)
    verdict = diagnose(lines)
    assert verdict is not None
    if exception == "MemoryError":
        kind = "host-memory"
    assert verdict.kind == kind
    assert (verdict.confidence == "unknown") == (kind == "unknown")
    assert all(1 <= item.line <= len(lines) for item in verdict.evidence)
    first = exception.split("\n")[0][:30]
    assert any(first in lines[item.line - 1] or item.text[:40] in "\n".join(lines) for item in verdict.evidence)


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


def test_a_verdict_comes_with_the_line_that_says_it(read, writer) -> None:
    """Not only when the traceback has ended."""
    w = writer("0.5.9", tp=2)
    lines = [*until(w, "Load weight end", 2), *failure(w, refused("0.5.9"), "init", "pool")[:-1]]
    doctor = Doctor()
    doctor.extend(read(lines, finish=False))
    verdict = doctor.verdict()
    assert verdict is not None
    assert verdict.kind == "weights-over-budget"


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


def test_a_size_that_the_ranks_do_not_divide(writer, diagnose) -> None:
    verdict = diagnose(
        crash(
            writer("0.5.9", tp=2),
            "Load weight begin",
            "AssertionError: 40 is not divisible by 3",
            "init",
            "load",
            count=2,
        )
    )
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("bad-flag", "likely")


def test_flags_that_do_not_resolve(diagnose) -> None:
    frames = [f'  File "{SRT}/arg_groups/speculative_hook.py", line 7, in _handle_eagle_family', "    if steps > 1:"]
    said = "TypeError: '>' not supported between instances of 'NoneType' and 'int'"
    verdict = diagnose(
        ["[2026-11-29 12:00:00] server_args={'model_path': 'm'}", "Traceback (most recent call last):", *frames, said]
    )
    assert verdict is not None
    assert verdict.kind == "bad-flag"
    assert "--speculative-eagle-topk" in verdict.why


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


def test_a_shape_that_does_not_fit_after_serving_is_not_the_draft(writer, decode_line, diagnose) -> None:
    w = writer("0.5.23", tp=2, spec=True)
    said = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (29x256 and 384x128)"
    warming = until(w, "Uvicorn")
    first = diagnose([*warming, *failure(w, said, "run", "draft"), *end(w, launch=False)])
    assert first is not None
    assert first.kind == "draft-mismatch"
    later = diagnose([*w.start(), decode_line(), *failure(w, said, "run", "draft"), *end(w, launch=False)])
    assert later is not None
    assert later.kind == "unknown"


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
