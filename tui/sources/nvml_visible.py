"""Which GPUs a server was given: CUDA_VISIBLE_DEVICES to UUIDs, in the order in which CUDA numbers them. Pure."""

from collections.abc import Sequence

from tui.facts import GpuReading
from tui.patterns import lazy

_NUMBER = lazy(r"[+-]?\d+")


def visible_uuids(env_value: str | None, gpus: Sequence[GpuReading]) -> tuple[str, ...] | None:
    """The UUIDs of CUDA devices 0, 1, … of a process; None: all GPUs, in NVML's order.

    `env_value`: its CUDA_VISIBLE_DEVICES, None when unset. An entry is an index, the beginning
    of a UUID ("GPU-…") or a MIG instance ("MIG-…"). As in CUDA, the first entry that names no GPU ends the list, and a
    GPU named twice leaves none. The index of a divided GPU stands for its first instance, the only one CUDA would use.
    On a machine with unlike GPUs CUDA_DEVICE_ORDER matters too: see `order_doubt`.
    """
    if env_value is None:
        return None
    uuids: list[str] = []
    for entry in env_value.split(","):
        uuid = _device(entry.strip(), gpus)
        if uuid is None:
            break
        if uuid in uuids:
            return ()
        uuids.append(uuid)
    return tuple(uuids)


def order_doubt(env_value: str | None, order: str | None, gpus: Sequence[GpuReading]) -> str | None:
    """Why the mapping of ranks to GPUs may be wrong, as a sentence; None when it is sure.

    `env_value` and `order`: the process's CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, None when unset.
    Without CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA numbers the fastest GPU first, by a rule that is its own. With equal GPUs
    that is the order of the bus, which is NVML's.
    """
    if (order or "").strip().upper() == "PCI_BUS_ID" or len({gpu.name for gpu in gpus if gpu.kind != "mig"}) < 2:
        return None
    if env_value is not None and not any(_NUMBER.match(entry.strip()) for entry in env_value.split(",")):
        return None  # named by UUID, or none at all
    return (
        "this machine has unlike GPUs and CUDA_DEVICE_ORDER is not PCI_BUS_ID, so CUDA may number them otherwise: "
        "which rank is on which GPU is a guess"
    )


def _device(entry: str, gpus: Sequence[GpuReading]) -> str | None:
    number = _NUMBER.match(entry)
    if number is not None:
        wanted = int(number[0])  # as strtoul does: what follows the digits is ignored
        return next((gpu.uuid for gpu in gpus if gpu.index == wanted), None) if wanted >= 0 else None
    lowered = entry.lower()
    if not lowered.startswith(("gpu-", "mig-")):
        return None
    matches = [gpu.uuid for gpu in gpus if gpu.uuid.lower().startswith(lowered)]
    return matches[0] if len(matches) == 1 else None
