import pytest

from tui.facts import GpuReading
from tui.sources.nvml_visible import order_doubt, visible_uuids


def gpu(index: int, uuid: str, name: str = "H200", kind: str = "gpu") -> GpuReading:
    return GpuReading(index=index, uuid=uuid, name=name, kind=kind)


FOUR = [gpu(0, "GPU-aa00"), gpu(1, "GPU-aa11"), gpu(2, "GPU-bb22"), gpu(3, "GPU-cc33")]
DIVIDED = [gpu(0, "MIG-01", kind="mig"), gpu(0, "MIG-02", kind="mig"), gpu(1, "GPU-aa11")]


@pytest.mark.parametrize(
    ("value", "uuids"),
    [
        (None, None),
        ("", ()),
        ("0,1,2,3", ("GPU-aa00", "GPU-aa11", "GPU-bb22", "GPU-cc33")),
        ("3,1", ("GPU-cc33", "GPU-aa11")),
        (" 2 , 0 ", ("GPU-bb22", "GPU-aa00")),
        ("GPU-bb22,GPU-aa00", ("GPU-bb22", "GPU-aa00")),
        ("GPU-bb,gpu-CC", ("GPU-bb22", "GPU-cc33")),
        ("2,GPU-aa1", ("GPU-bb22", "GPU-aa11")),
        # the first that names no GPU ends the list
        ("0,-1,1", ("GPU-aa00",)),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("1,9,0", ("GPU-aa11",)),
        ("1,,0", ("GPU-aa11",)),
        ("GPU-bb22,GPU-ff,GPU-aa00", ("GPU-bb22",)),
        ("GPU-aa", ()),  # two GPUs begin so
        # digits with a tail, as strtoul reads them
        ("1gpu,0", ("GPU-aa11", "GPU-aa00")),
        ("+2", ("GPU-bb22",)),
        # twice leaves none
        ("0,0", ()),
        ("0,GPU-aa00", ()),
    ],
)
def test_visible_uuids(value: str | None, uuids: tuple[str, ...] | None) -> None:
    assert visible_uuids(value, FOUR) == uuids


@pytest.mark.parametrize(
    ("value", "uuids"),
    [("MIG-02", ("MIG-02",)), ("0", ("MIG-01",)), ("1,0", ("GPU-aa11", "MIG-01")), ("MIG-0", ()), ("MIG-9", ())],
)
def test_divided_gpus(value: str, uuids: tuple[str, ...]) -> None:
    assert visible_uuids(value, DIVIDED) == uuids


def test_no_gpu_known() -> None:
    assert visible_uuids("0,1", []) == ()
    assert visible_uuids(None, []) is None


UNLIKE = [gpu(0, "GPU-aa00", "L4"), gpu(1, "GPU-aa11", "H200")]


@pytest.mark.parametrize(
    ("value", "order", "gpus", "sure"),
    [
        (None, None, FOUR, True),
        ("1,0", None, FOUR, True),
        (None, None, UNLIKE, False),
        ("1,0", "FASTEST_FIRST", UNLIKE, False),
        ("1,0", "PCI_BUS_ID", UNLIKE, True),
        (None, "PCI_BUS_ID", UNLIKE, True),
        ("GPU-aa11,GPU-aa00", None, UNLIKE, True),
        ("", None, UNLIKE, True),
    ],
)
def test_order_doubt(value: str | None, order: str | None, gpus: list[GpuReading], sure: bool) -> None:
    doubt = order_doubt(value, order, gpus)
    assert (doubt is None) == sure
    if doubt is not None:
        assert "CUDA_DEVICE_ORDER" in doubt
