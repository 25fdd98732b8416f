# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Every kind of trouble, by the words of every era, with its numbers."""

import pytest

from tui.facts import Problem
from tui.sglang.problems import CODES, RULES, recognise

OOM = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 94.97 GiB of which 512.00 MiB is free. "
    "Process 77 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 93.47 GiB memory in use. Of the "
    "allocated memory 90.00 GiB is allocated by PyTorch, with 1.25 GiB allocated in private pools (e.g., CUDA Graphs), and "
    "256.00 MiB is reserved by PyTorch but unallocated."
)

CASES = [
    (
        f"torch.OutOfMemoryError: {OOM}",
        "cuda-oom",
        {
            "tried_gib": 2.5,
            "total_gib": 94.97,
            "free_gib": 0.5,
            "gpu": 3,
            "in_use_gib": 93.47,
            "other_process_gib": 1.0,
            "allocated_gib": 90.0,
            "private_pools_gib": 1.25,
            "reserved_gib": 0.25,
        },
    ),
    (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.15 GiB total capacity; 77.90 GiB already allocated; 3.50 MiB free; 78.00 GiB reserved in total by PyTorch)",
        "cuda-oom",
        {"total_gib": 79.15, "allocated_gib": 77.9, "gpu": 0},
    ),
    ("RuntimeError: CUDA error: out of memory", "cuda-oom", {}),
    ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.00 GiB.", "cuda-oom", {"tried_gib": 1.0}),
    (
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.76. Raise --mem-fraction-static above 0.769 (minimum viable = 1 - available/pre = 0.7688). If using speculative decoding, draft weights are now counted.",
        "budget-refused",
        {"fraction": 0.76, "advised": 0.769, "floor": 0.7688},
    ),
    (
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.88.",
        "budget-refused",
        {"fraction": 0.88},
    ),
    ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "not-enough-memory", {}),
    (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.76",
        "not-enough-memory",
        {"fraction": 0.76},
    ),
    (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.76",
        "not-enough-memory",
        {"fraction": 0.76},
    ),
    (
        "max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled value instead.",
        "profiled-negative",
        {"max_total_tokens": 131072, "profiled": -561981},
    ),
    (
        "max_total_tokens=131072 is larger than the profiled value 61981. Use the profiled value instead.",
        "profiled-smaller",
        {"profiled": 61981},
    ),
    ("SWA pool (300 tokens) cannot hold even one request: raise the ratio", "swa-too-small", {"tokens": 300}),
    ("AssertionError: Memory pool size is too small", "pool-too-small", {}),
    ("AssertionError: max_running_request is zero", "no-request-slots", {}),
    (
        "KV pool holds 10 tokens, fewer than --context-length 2048. One full-length request cannot fit.",
        "pool-below-context",
        {"tokens": 10, "context_length": 2048},
    ),
    ("Exception: Capture cuda graph failed: some reason", "capture-failed", {}),
    ("Exception: Capture CUDA graph failed: some reason", "capture-failed", {}),
    ("Exception: Capture prefill CUDA graph failed: some reason", "prefill-capture-failed", {}),
    ("1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)", "capture-advice", {}),
    ("RuntimeError: Prefill out of memory. Try to lower your batch size.", "kv-oom-prefill", {}),
    ("RuntimeError: Decode out of memory. Try to lower your batch size.", "kv-oom-decode", {}),
    ("RuntimeError: Out of memory. Try to lower your batch size.", "kv-oom", {}),
    ("Try to allocate 4096 tokens.", "kv-oom", {"tokens": 4096}),
    (
        "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`.",
        "req-slots-exhausted",
        {},
    ),
    (
        "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 812, #new_token_ratio: 0.31 -> 0.95",
        "kv-retracted",
        {"requests": 3, "tokens_gained": 812, "ratio_before": 0.31, "ratio_after": 0.95},
    ),
    (
        "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_gained: 812, #mamba_num_gained: 2, #new_token_ratio: 0.31 -> 0.95",
        "kv-retracted",
        {"requests": 3, "tokens_gained": 812},
    ),
    (
        "Decode out of memory happened. #retracted_reqs: 3, #new_token_ratio: 0.31 -> 0.95",
        "kv-retracted",
        {"requests": 3, "ratio_after": 0.95},
    ),
    ("retract_decode: aborted last request abc due to OOM", "kv-aborted", {}),
    ("Out of memory even after retracting all other requests in the decode batch.", "kv-aborted", {}),
    ("ValueError: token_to_kv_pool_allocator memory leak detected! available_size=3189424", "pool-leak", {}),
    ("ValueError: req_to_token_pool memory leak detected!", "pool-leak", {}),
    (
        "Input length (29 tokens) exceeds the maximum allowed length (4 tokens). Use a shorter input",
        "input-too-long",
        {"tokens": 29, "allowed": 4},
    ),
    (
        "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed max_mamba_cache_size=0 (total_rest_memory=-1.25 GB, mamba_cache_per_req=75.00 MB). Try: x",
        "state-no-memory",
        {"slots": 0, "rest_gib": -1.25, "per_request_mib": 75},
    ),
    (
        "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any requests. x",
        "state-too-small",
        {},
    ),
    (
        "max_running_requests is capped to 2 by the mamba state cache (max_mamba_cache_size=10, 5 state slots per request).",
        "state-capped",
        {"requests": 2, "slots": 10},
    ),
    (
        "max_running_requests was reduced from the requested 512 to 64 (per dp worker) x",
        "requests-reduced",
        {"requested": 512, "granted": 64},
    ),
    (
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=8.88, local_gpu_memory=11.9, local_gpu_memory * 0.9=10.71",
        "gpu-unbalanced",
        {"min_per_gpu_gib": 8.88, "local_gpu_gib": 11.9},
    ),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "gpu-workspace", {}),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda-fault", {}),
    ("RuntimeError: CUDA error: device-side assert triggered", "cuda-fault", {}),
    ("RuntimeError: No CUDA GPUs are available", "cuda-missing", {}),
    ("DistBackendError: NCCL error in: x.cpp:3690, unhandled system error", "nccl-error", {}),
    ("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", "nccl-timeout", {}),
    ("node:1:2 [3] x.cc:99 NCCL WARN Cuda failure 2", "nccl-warn", {}),
    (
        "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
        "gloo-error",
        {},
    ),
    (
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.1]:1",
        "peer-closed",
        {},
    ),
    (
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address",
        "store-error",
        {},
    ),
    ("terminate due to TCPStore: connection refused", "store-error", {}),
    ("socket.gaierror: [Errno -2] Name or service not known", "dns-failed", {}),
    ("Watchdog timeout (self.watchdog_timeout=300)", "watchdog-timeout", {"watchdog_timeout_s": 300}),
    (
        "Scheduler watchdog timeout (self.watchdog_timeout=300.0, self.soft=False)",
        "watchdog-timeout",
        {"watchdog_timeout_s": 300},
    ),
    ("Pyspy dump for PID 309:", "stack-dump", {"pid": 309}),
    (
        "Subprocess scheduler_0 (pid=27055) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
        "subprocess-crashed",
        {"exit_code": -9},
    ),
    (
        "RuntimeError: Rank 3 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.",
        "rank-died",
        {"rank": 3, "exit_code": -9},
    ),
    ("Rank 0 scheduler is dead. Please check if there are relevant logs.", "rank-dead", {"rank": 0}),
    ("Exit code: -9", "exit-code", {"exit_code": -9}),
    ("Scheduler or DataParallelController 4242 terminated with -9", "process-terminated", {"exit_code": -9}),
    ("Received sigquit from a child process. It usually means the child failed.", "sigquit", {}),
    ("SIGQUIT received. signum=3, frame=None. It usually means one child failed.", "sigquit", {}),
    ("Initialization failed. Please see the error messages above.", "init-failed", {}),
    ("Initialization failed. warmup error: x", "warmup-failed", {}),
    ("DataParallelController hit an exception: x", "process-exception", {}),
    (
        "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic",
        "health-check-failed",
        {"seconds": 20},
    ),
    ("launch_server.py: error: unrecognized arguments: --enable-reasoning", "bad-flag", {}),
    ("sglang serve: error: argument --tp-size: invalid int value: 'x'", "bad-flag", {}),
    (
        "sglang serve: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill",
        "bad-flag",
        {},
    ),
    ("sglang serve: error: the following arguments are required: --model-path/--model", "bad-flag", {}),
    (
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30114): address already in use",
        "port-in-use",
        {},
    ),
    ("OSError: [Errno 98] Address already in use", "port-in-use", {}),
    (
        "OSError: no/such is not a local folder and is not a valid model identifier listed on the hub",
        "model-missing",
        {},
    ),
    ("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.", "model-missing", {}),
    ("OSError: You are trying to access a gated repo.", "model-gated", {}),
    ("huggingface_hub.errors.GatedRepoError: 403 Client Error.", "model-gated", {}),
    ("OSError: We couldn't connect to the hub to load the files", "model-offline", {}),
    ("huggingface_hub.errors.HFValidationError: Repo id must be in the form", "model-bad-name", {}),
    ("ValueError: Model architectures ['X'] are not supported for now.", "model-unsupported", {}),
    ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge", "weights-broken", {}),
    ("RuntimeError: size mismatch for x: copying a param", "weights-mismatch", {}),
    (
        "ValueError: Warning: User-specified context_length (999999) is greater than the derived context_length (2048).",
        "context-too-long",
        {"context_length": 999999, "derived": 2048},
    ),
    ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (29x256 and 384x128)", "shape-mismatch", {}),
    ("ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'", "ptxas", {}),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "no-kernel-image", {}),
    (
        "NVIDIA X with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
        "arch-unsupported",
        {},
    ),
    ("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 1", "triton-resources", {}),
    ("RuntimeError: Triton Error [CUDA]: device kernel image is invalid", "triton-error", {}),
    ("ninja: build stopped: subcommand failed.", "jit-build-failed", {}),
    ("/bin/sh: 1: nvcc: not found", "jit-build-failed", {}),
    ("RuntimeError: FlashInfer kernel failed to run", "flashinfer-error", {}),
    ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", "library-missing", {}),
    ("ModuleNotFoundError: No module named 'sgl_kernel'", "library-missing", {}),
    ("./run.sh: line 22: 103525 Killed                  python -m sglang.launch_server", "shell-killed", {}),
    ("Killed", "shell-killed", {}),
    ("[7.1] Out of memory: Killed process 4242 (python) total-vm:1kB", "oom-killer", {}),
    ("Memory cgroup out of memory: Killed process 4242 (python)", "oom-killer", {}),
    (
        "Not enough host memory available. Requesting 120.50 GB but only have 64.00 GB free.",
        "host-cache-refused",
        {"wanted_gib": 120.5, "free_gib": 64},
    ),
    ("RuntimeError: unable to mmap: Cannot allocate memory (12)", "host-oom", {}),
    ("MemoryError", "host-oom", {}),
    ("Fatal Python error: Segmentation fault", "segfault", {}),
    ("!!!!!!! Segfault encountered !!!!!!!", "segfault", {}),
    ("Bus error (core dumped)", "bus-error", {}),
    ("terminate called after throwing an instance of 'c10::Error'", "aborted", {}),
    ("OSError: [Errno 28] No space left on device: '/cache/x'", "disk-full", {}),
    ("OSError: [Errno 28] No space left on device: '/dev/shm/x'", "shm-too-small", {}),
    ("OSError: [Errno 24] Too many open files", "too-many-files", {}),
]


@pytest.mark.parametrize(("line", "code", "numbers"), CASES, ids=[f"{case[1]}-{i}" for i, case in enumerate(CASES)])
@pytest.mark.parametrize("prefix", ["", "[2026-11-29 12:00:00 TP0] "])
def test_line(read, line, code, numbers, prefix):
    problems = {fact.code: fact for fact in read([prefix + line]) if isinstance(fact, Problem)}
    assert code in problems, list(problems)
    got = problems[code].numbers
    assert {name: got.get(name) for name in numbers} == pytest.approx(numbers)
    assert problems[code].text == line


def test_codes_are_closed_and_all_used():
    assert {rule.code for rule in RULES} == set(CODES)
    assert all(meaning and not meaning.endswith(".") for meaning in CODES.values())


def test_covered_by_cases():
    assert {code for _, code, _ in CASES} | _UNTESTED == set(CODES)


_UNTESTED = {"port-forbidden", "model-needs-code", "dtype-unsupported", "state-slots-exhausted"}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("[Errno 13] error while attempting to bind on address ('127.0.0.1', 80): permission denied", "port-forbidden"),
        ("ValueError: x requires you to execute the configuration file in that repo; set the option `trust_remote_code=True`", "model-needs-code"),
        ("RuntimeError: \"rms_norm\" not implemented for 'Float8_e4m3fn'", "dtype-unsupported"),
        ("AssertionError: Not enough space for mamba cache, try to increase --mamba-full-memory-ratio", "state-slots-exhausted"),
    ],
)  # fmt: skip
def test_rarer_lines(read, line, code):
    assert code in [fact.code for fact in read([line]) if isinstance(fact, Problem)]


@pytest.mark.parametrize(
    "line",
    [
        "Ignore import error when loading sglang.srt.models.midashenglm: No module named 'torchaudio'",
        "Ignore import error when loading sglang.srt.models.mamba: ImportError: cannot import name 'x' from 'y'",
        "The following error message 'operation scheduled before its operands' can be ignored.",
        "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0.",
        "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled'",
        "Max running requests is reset to 48 for speculative decoding.",
        "Pyspy failed (py-spy dump  --pid 27463). Error: /bin/sh: 1: py-spy: not found",
        "attention_backend=flashinfer, sampling_backend=flashinfer",
        "Reserving 1.10 GB of the KV budget for post-sizing multimodal allocations (feature-transport pools + embedding cache).",
        "Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit",
        "SPECULATIVE_MOE_RUNNER_BACKEND is not initialized, using auto backend",
        'INFO:     127.0.0.1:51070 - "GET /health HTTP/1.1" 503 Service Unavailable',
        "rope_scaling missing 'factor', defaulting to 1.0. Check model accuracy.",
    ],
)
def test_lines_without_trouble(read, line):
    assert [fact.code for fact in read(["[2026-11-29 12:00:00] " + line]) if isinstance(fact, Problem)] == []


def test_one_line_may_say_two_things():
    line = f"Exception: Capture cuda graph failed: {OOM}"
    assert [problem.code for problem in recognise(line, 0.0, 1, "TP0")] == ["cuda-oom", "capture-failed"]


def test_hostile_text_is_cleaned_and_secrets_masked():
    line = "ValueError: out of \x1b]0;x\x07 Address already in use --api-key sk-123 \x00" + "x" * 50_000
    (problem,) = recognise(line, 0.0, 1, None)
    assert problem.text.isprintable()
    assert "sk-123" not in problem.text
    assert len(problem.text) <= 2000


def test_arguments_are_no_problem(read):
    line = "server_args=ServerArgs(model_path='/x/Address already in use', watchdog_timeout=300)"
    assert [fact for fact in read([line]) if isinstance(fact, Problem)] == []
