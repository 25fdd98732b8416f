"""The machine a server is to run on, as the forecast sees it, and what earlier runs taught about it."""

from collections.abc import Mapping
from dataclasses import field

from tui.frozen import frozen
from tui.snapshot import UNKNOWN, Amount


@frozen
class Gpu:
    """One GPU, or the host's memory on a CPU. `free_gib_now`: before the server starts, None when nobody was asked.

    `foreign_gib`: what other processes hold now, as the driver tells it.
    """

    index: int
    name: str = ""
    uuid: str = ""
    kind: str = "gpu"
    total_mib: float | None = None
    free_gib_now: float | None = None
    foreign_gib: float | None = None

    @property
    def total_gib(self) -> float | None:
        return None if self.total_mib is None else self.total_mib / 1024


@frozen
class Machine:
    """Every GPU of the machine, in the driver's order: SGLang looks at all of them for its defaults.

    `free_before`: P, the smallest memory free before weights, when a log or the operator tells it. `device`: SGLang's
    --device, "cuda" or "cpu"; on a CPU the one "GPU" is the host's memory, and free is what psutil calls available.
    `visible`: the UUIDs that CUDA_VISIBLE_DEVICES leaves, in its order; None is all.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    free_before: Amount = UNKNOWN
    device: str = "cuda"
    visible: tuple[str, ...] | None = None

    def visible_gpus(self) -> tuple[Gpu, ...]:
        """The server's GPUs in its own order."""
        if self.visible is None:
            return self.gpus
        by_uuid = {gpu.uuid: gpu for gpu in self.gpus}
        return tuple(by_uuid[uuid] for uuid in self.visible if uuid in by_uuid)

    @property
    def smallest_mib(self) -> float | None:
        """MiB of the smallest GPU of the machine; None when one is not known."""
        sizes = [gpu.total_mib for gpu in self.gpus]
        known = [size for size in sizes if size is not None]
        return min(known) if known and len(known) == len(sizes) else None


GraphKey = tuple[int | None, str | None]


@frozen
class Learned:
    """What earlier runs measured. GiB per rank; None was never seen.

    `base_gib` and `draft_gib` hold for the same model, tp, quantisation and version only: who passes them has checked.
    `overhead_gib`: free on the GPU before the launch minus P: CUDA context and communication. `graphs_gib`: all graphs
    of a run, by (largest decode batch, speculative algorithm). `activations_gib`: how far free memory fell while
    serving.
    """

    base_gib: float | None = None
    draft_gib: float | None = None
    overhead_gib: float | None = None
    activations_gib: float | None = None
    graphs_gib: Mapping[GraphKey, float] = field(default_factory=dict)


NOTHING_LEARNED = Learned()
