"""What NVML's errors mean to an operator: one sentence each, with the remedy where there is one."""

# nvmlReturn_t, which is stable across drivers; the numbers keep this module free of pynvml.
UNINITIALIZED = 1
NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15

_SENTENCES = {
    UNINITIALIZED: "the NVIDIA driver library was shut down; it is tried again",
    2: "the NVIDIA driver refused the question (invalid argument): driver and nvidia-ml-py may not fit together",
    NOT_SUPPORTED: "this GPU does not tell its memory (not supported by the driver)",
    NO_PERMISSION: "no permission to ask the NVIDIA driver about this GPU",
    6: "the GPU was not found; it may have been removed",
    8: "the GPU lacks power: check its external power cables",
    DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded: load it (modprobe nvidia) or reboot",
    10: "the NVIDIA driver did not answer in time",
    11: "the NVIDIA driver has an interrupt problem with this GPU: see dmesg",
    LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml.so.1) on this machine",
    FUNCTION_NOT_FOUND: "the NVIDIA driver is too old to tell the memory of its GPUs",
    14: "the GPU's infoROM is corrupted",
    GPU_IS_LOST: "the GPU is lost: it fell off the bus; reboot the machine (see dmesg for Xid 79)",
    16: "the GPU needs a reset before it can be used again (nvidia-smi --gpu-reset)",
    17: "the operating system keeps the NVIDIA driver from this GPU (cgroup or container device rules)",
    18: "NVIDIA driver and library versions differ (upgraded, not rebooted): reboot or reload the kernel module",
    19: "the GPU is in use by another program exclusively",
    20: "the NVIDIA driver ran out of memory",
    25: "the NVIDIA driver is too old for this question",
    28: "the GPU was not found; it may have been removed",
    999: "the NVIDIA driver failed without saying why (unknown error): see dmesg",
}

WRONG_PYNVML = (
    "another package took the place of nvidia-ml-py: its module pynvml lacks nvmlInitWithFlags; "
    "uninstall pynvml and nvidia-ml-py3, then reinstall nvidia-ml-py"
)
NO_PYNVML = "the package nvidia-ml-py is not installed, so GPUs cannot be read"


def sentence(error: BaseException) -> str:
    """The error in words. Errors without an NVML number (a plain exception, a missing symbol) are told as they are."""
    code = getattr(error, "value", None)
    if isinstance(code, int):
        return _SENTENCES.get(code) or f"the NVIDIA driver answered with error {code}"
    if type(error).__name__ == "NVMLLibraryMismatchError":
        return "nvidia-ml-py is newer than this NVIDIA driver and asked for a function that it lacks"
    text = " ".join(str(error).split())[:160]
    return f"the NVIDIA driver could not be read: {text or type(error).__name__}"
