"""Kernels, architectures, data types, builds and libraries."""

import re

from tui.facts import Fix, Verdict
from tui.patterns import lazy
from tui.sglang.diagnosis.case import Case, Incident
from tui.sglang.diagnosis.making import LIKELY, UNKNOWN, Recogniser, verdict, whole

_GPU_TOO_NEW = ("ptxas", "no-kernel-image", "arch-unsupported")
_REST = {
    "dtype-unsupported": ("This GPU or backend does not support the data type", "another --dtype, --quantization or "
                          "--kv-cache-dtype, or another backend"),
    "triton-resources": ("A Triton kernel needs more shared memory than the GPU "
    "has", "another attention or MoE backend, "
                         "or a smaller block size"),
    "triton-error": ("Triton could not compile or launch a kernel", "another version of Triton or SGLang, or another "
                     "backend"),
    "jit-build-failed": ("Building a kernel failed", "the compiler that it asks for: a CUDA toolkit (nvcc, "
    "CUDA_HOME) that "
                         "fits torch, ninja, gcc"),
    "flashinfer-error": ("FlashInfer failed", "another version of FlashInfer, or another --attention-backend"),
    "library-missing": ("A library or module is missing or does not fit", "install what is named, in the version that "
                        "this SGLang asks for"),
    "cuda-fault": ("A kernel faulted on the GPU", "another attention or MoE backend, a newer version; run once with "
                   "CUDA_LAUNCH_BLOCKING=1 to see which kernel it is"),
    "model-unsupported": ("This SGLang does not know the model's architecture", "a newer SGLang (and transformers)"),
}  # fmt: skip
_HARDWARE = lazy(r"ECC error|NVRM: Xid")
_REFUSES = lazy(
    r"(?:does not|do not|doesn't|not) support|not supported|unsupported|only supports?"
    r"|requires? .{0,80}(?:support|GPU|AMX|"
    r"compute capability|sm_?\d)",
    re.IGNORECASE,
)
_WORDS = lazy(
    r"requires? SM ?[>=<\d]|not supported in this architecture|NVCC compilation failed|nvcc.{0,40}failed"
    r"|NVIDIA driver on your system is too old|requires? (?:CUDA|a GPU|Hopper|Blackwell|Ampere)",
)
_LAYER_CODE = lazy(r"sglang/srt/layers/|sgl_kernel|flashinfer|deep_gemm|triton/|flash_attn|quantization/")


def too_new_gpu(incident: Incident, case: Case) -> Verdict | None:
    """No kernel for this GPU: whatever memory advice surrounds it is beside the point."""
    problem = incident.first(*_GPU_TOO_NEW)
    if problem is None:
        return None
    arch = re.search(r"sm_\d+a?", incident.text)
    gpu = f" ({arch[0]})" if arch else ""
    advice = " The advice about a smaller memory fraction is generic and does not apply." if _advised(incident) else ""
    return verdict(
        "kernel",
        incident,
        *_GPU_TOO_NEW,
        title=f"A kernel or its compiler does not know this GPU{gpu}",
        why="The build has no code for this GPU's architecture: torch, Triton's ptxas and sgl-kernel have to "
        "be built for "
        f"it (a newer CUDA build), or another backend chosen.{advice}",
    )


def kernel(incident: Incident, case: Case) -> Verdict | None:
    """The other ways in which a kernel, build or library fails."""
    problem = incident.first(*_REST)
    if problem is None or _HARDWARE.search(incident.text):
        return None
    title, what = _REST[problem.code]
    if "AlignedAllocator" in incident.text:
        title = "FlashInfer's workspace buffer is too small"
        what = (
            "a larger SGLANG_FLASHINFER_WORKSPACE_SIZE in the server's environment, a smaller prefill "
            "chunk, or another "
        )
        what += "--attention-backend"
    advice = " The memory advice in the message is generic and does not apply." if _advised(incident) else ""
    return verdict(
        "kernel",
        incident,
        problem.code,
        title=title,
        why=f"What helps: {what}.{advice}",
        confidence=LIKELY,
    )


def failed_capture(incident: Incident, case: Case) -> Verdict | None:
    """A capture failed, and not for want of memory: SGLang's stock advice is about memory all the same."""
    problem = incident.first("capture-failed", "prefill-capture-failed")
    if problem is None:
        return None
    return verdict(
        "kernel",
        incident,
        problem.code,
        title="Capturing the CUDA graphs failed, and not for want of memory",
        why="The message does not speak of memory, so its advice to lower the fraction is generic. A backend or kernel "
        "could not be captured: try another --attention-backend, or a start without graphs to see the real error.",
        confidence=LIKELY,
    )


def hardware(incident: Incident, case: Case) -> Verdict | None:
    """The driver reports a fault of the GPU itself."""
    if "cuda-fault" not in incident.codes or not _HARDWARE.search(incident.text):
        return None
    return verdict(
        "unknown",
        incident,
        "cuda-fault",
        title="The GPU or its driver reported a hardware error",
        why="Look at `dmesg -T | grep -i xid` and `nvidia-smi -q -d ECC`; the GPU may need a reset or a replacement.",
        confidence=UNKNOWN,
    )


def no_gpu(incident: Incident, case: Case) -> Verdict | None:
    """No usable GPU, or fewer than ranks."""
    problem = incident.first("cuda-missing")
    if problem is None:
        return None
    if "invalid device ordinal" in incident.text:
        tp = whole(case.value("tp-size", "tensor-parallel-size"))
        gpus = len(case.gpus_total_gib)
        fix = None
        if tp is not None and 0 < gpus < tp:
            new = 1 << (gpus.bit_length() - 1)
            fix = Fix(knob="tp-size", old=case.old("tp-size"), new=new, why=f"the machine shows {gpus} GPUs")
        return verdict(
            "bad-flag",
            incident,
            problem.code,
            title="More ranks were asked for than there are GPUs",
            why="A rank was given the number of a GPU that does not exist or is hidden: --tp-size times --pp-size must "
            "not exceed the GPUs that CUDA_VISIBLE_DEVICES shows; --base-gpu-id shifts them.",
            confidence=LIKELY,
            fixes=(fix,),
        )
    return verdict(
        "kernel",
        incident,
        problem.code,
        title="No usable GPU or driver",
        why="torch sees no GPU: a driver that does not fit the CUDA build, a container without --gpus, or an empty "
        "CUDA_VISIBLE_DEVICES.",
    )


def refusal_in_layers(incident: Incident, case: Case) -> Verdict | None:
    """An exception without known words, raised in a layer, that says that something is not supported."""
    trace = incident.trace
    if trace is None or trace.exception is None:
        return None
    title = incident.title()
    unimplemented = trace.exception.endswith("NotImplementedError") or _REFUSES.search(title) is not None
    in_a_layer = _LAYER_CODE.search("\n".join(trace.where[-3:])) is not None
    if _WORDS.search(trace.message) is None and not (unimplemented and in_a_layer):
        return None
    return verdict(
        "kernel",
        incident,
        title=title,
        why="A layer or kernel refuses this combination of hardware, data type and backend: choose another.",
        confidence=LIKELY,
    )


def _advised(incident: Incident) -> bool:
    return bool(incident.codes & {"capture-advice", "capture-failed"})


TOO_NEW: tuple[Recogniser, ...] = (too_new_gpu,)
RECOGNISERS: tuple[Recogniser, ...] = (hardware, kernel, failed_capture, no_gpu)
LAST: tuple[Recogniser, ...] = (refusal_in_layers,)
