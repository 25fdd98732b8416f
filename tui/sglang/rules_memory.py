"""Lines about GPU memory, KV slots and recurrent state. Texts by era: sglang-facts 1.7. Sizes are GiB."""

import re

from tui.patterns import lazy
from tui.sglang.problem_rule import F, N, rule

_UNITS = {"bytes": 2.0**-30, "b": 2.0**-30, "kib": 2.0**-20, "mib": 2.0**-10, "gib": 1.0, "tib": 2.0**10}
_SIZE = r"(\d{1,12}(?:\.\d{1,6})?) ?(bytes|[KMGT]?i?B)\b"
_OOM_FIELDS = tuple(
    (name, lazy(pattern.replace("SIZE", _SIZE), re.IGNORECASE))
    for name, pattern in (
        ("tried_gib", r"Tried to allocate SIZE"),
        ("total_gib", r"(?:total capacity of SIZE)"),
        ("total_gib", r"; SIZE total capacity"),
        ("free_gib", r"of which SIZE is free"),
        ("free_gib", r"; SIZE free"),
        ("in_use_gib", r"[Tt]his process has SIZE memory in use"),
        ("other_process_gib", r"Process \d+ has SIZE memory in use"),
        ("allocated_gib", r"allocated memory SIZE is allocated by PyTorch"),
        ("allocated_gib", r"; SIZE already allocated"),
        ("private_pools_gib", r"with SIZE allocated in private pools"),
        ("reserved_gib", r"SIZE is reserved by PyTorch"),
    )
)
_OOM_GPU = lazy(r"GPU (\d{1,4})\b")


def _read_oom(message: str) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, pattern in _OOM_FIELDS:
        match = pattern.search(message)
        if match and name not in numbers:
            numbers[name] = round(float(match[1]) * _UNITS.get(match[2].lower(), 1.0), 6)
    gpu = _OOM_GPU.search(message)
    if gpu:
        numbers["gpu"] = float(gpu[1])
    return numbers


_MEMORY = (
    rule("cuda-oom", "out of memory", r"(?:CUDA|HIP|XPU|NPU|MUSA)(?: error:)? out of memory", _read_oom),
    rule("cuda-oom", "OutOfMemoryError", r"OutOfMemoryError: (?!CUDA|HIP)", _read_oom),
    rule(
        "budget-refused",
        "Loaded weights leave no GPU memory",
        rf"leave no GPU memory(?:.*?mem-fraction-static=(?P<fraction>{F}))?"
        rf"(?:.*?above (?P<advised>{F}))?(?:.*?available/pre = (?P<floor>{F}))?",
    ),
    rule(
        "not-enough-memory",
        "Not enough memory. Please try to increase --mem-fraction-static",
        rf"Not enough memory(?:.*?mem_fraction_static=(?P<fraction>{F}))?",
    ),
    rule(
        "profiled-negative",
        "is larger than the profiled value",
        rf"max_total_tokens=(?P<max_total_tokens>{N}) is larger than the profiled value (?P<profiled>-\d{{1,15}}|0\b)",
    ),
    rule(
        "profiled-smaller",
        "is larger than the profiled value",
        rf"max_total_tokens=(?P<max_total_tokens>{N}) is larger than the profiled value (?P<profiled>[1-9]\d{{0,14}})",
    ),
    rule(
        "capture-failed",
        "Capture",
        r"Capture (?:cuda|CUDA|npu|cpu|[\w -]{1,40}CUDA) graph failed(?<!prefill CUDA graph failed)",
    ),
    rule("prefill-capture-failed", "Capture prefill CUDA graph failed"),
    rule("prefill-capture-failed", "Fail when using backend"),
    rule("capture-advice", "set --mem-fraction-static to a smaller value"),
    rule(
        "gpu-unbalanced",
        "The memory capacity is unbalanced",
        rf"unbalanced(?:.*?(?:min_per_gpu_memory|pre_model_load_memory|total_gpu_memory)=(?P<min_per_gpu_gib>{F}))?"
        rf"(?:.*?local_gpu_memory=(?P<local_gpu_gib>{F}))?",
    ),
    rule("gpu-workspace", "CUBLAS_STATUS_ALLOC_FAILED"),
    rule("gpu-workspace", "CUDNN_STATUS_ALLOC_FAILED"),
    rule("gpu-workspace", "CUBLAS_STATUS_NOT_INITIALIZED"),
    rule("cuda-fault", "an illegal memory access was encountered"),
    rule("cuda-fault", "device-side assert triggered"),
    rule("cuda-fault", "unspecified launch failure"),
    rule("cuda-fault", "CUDA error: misaligned address"),
    rule("cuda-fault", "uncorrectable ECC error"),
    rule("cuda-fault", "illegal instruction was encountered"),
    rule("cuda-fault", "NVRM: Xid"),
    rule("cuda-missing", "No CUDA GPUs are available"),
    rule("cuda-missing", "no CUDA-capable device is detected"),
    rule("cuda-missing", "Found no NVIDIA driver"),
    rule("cuda-missing", "CUDA driver version is insufficient"),
    rule("cuda-missing", "No accelerator"),
    rule("cuda-missing", "invalid device ordinal"),
    rule("cuda-missing", "Driver/library version mismatch"),
)

_RETRACTED = (
    rf"#retracted_reqs: (?P<requests>{N})(?:.*?#new_tokens?_gained: (?P<tokens_gained>{N}))?"
    rf"(?:.*?#new_token_ratio: (?P<ratio_before>{F}) -> (?P<ratio_after>{F}))?"
)
_SLOTS = (
    rule("pool-too-small", "Memory pool size is too small"),
    rule("no-request-slots", "max_running_request is zero"),
    rule(
        "pool-below-context",
        "fewer than --context-length",
        rf"holds (?P<tokens>{N}) tokens, fewer than --context-length (?P<context_length>{N})",
    ),
    rule("kv-oom-prefill", "Prefill out of memory"),
    rule("kv-retracted", "Retract requests", _RETRACTED),
    rule("kv-retracted", "out of memory happened", _RETRACTED),
    rule("kv-oom-decode", "Decode out of memory", r"Decode out of memory(?! happened)"),
    rule("kv-oom", "Out of memory. Try to lower your batch size", r"^(?!.*(?:Prefill|Decode) out of memory)"),
    rule("kv-oom", "Try to allocate", r"Try to allocate (?P<tokens>\d{1,15}) tokens"),
    rule("req-slots-exhausted", "alloc_req_slots runs out of memory"),
    rule("kv-aborted", "aborted last request"),
    rule("kv-aborted", "Out of memory even after retracting all"),
    rule("pool-leak", "memory leak detected"),
    rule(
        "input-too-long",
        "exceeds the maximum allowed length",
        rf"\((?P<tokens>{N}) tokens\).*?\((?P<allowed>{N}) tokens\)",
        optional=True,
    ),
    rule("input-too-long", "is longer than the model's context length", None),
    rule(
        "state-no-memory",
        "Not enough GPU memory for hybrid",
        rf"hybrid(?:.*?max_mamba_cache_size=(?P<slots>{N}))?(?:.*?total_rest_memory=(?P<rest_gib>-?{F}))?"
        rf"(?:.*?mamba_cache_per_req=(?P<per_request_mib>{F}))?",
    ),
    rule("state-too-small", "state cache is too small to serve any requests"),
    rule(
        "state-capped",
        "by the mamba state cache",
        rf"capped to (?P<requests>{N}).*?max_mamba_cache_size=(?P<slots>{N})",
        optional=True,
    ),
    rule("state-slots-exhausted", "Not enough space for mamba"),
    rule("state-slots-exhausted", "an not alloc mamba", exception=True),
    rule("swa-too-small", "cannot hold even one request", rf"SWA pool \((?P<tokens>{N}) tokens\)", optional=True),
    rule(
        "requests-reduced",
        "max_running_requests was reduced",
        rf"requested (?P<requested>{N}) to (?P<granted>{N})",
        optional=True,
    ),
)

MEMORY_RULES = (*_MEMORY, *_SLOTS)
