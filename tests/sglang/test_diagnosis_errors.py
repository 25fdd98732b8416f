# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Every other failure line that names its cause."""

import pytest
from dying_logs import ADVICE, SRT, crash, end, failure, until

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
