"""What PyTorch's caching allocator adds to the weights: segments are reserved in whole steps.

PyTorch c10/cuda/CUDACachingAllocator: requests up to 1 MiB share 2 MiB segments, up to 10 MiB share 20 MiB segments,
larger ones are rounded up to 2 MiB.
"""

from collections.abc import Iterable

_MIB = 1 << 20
_SMALL = 1 * _MIB
_SMALL_SEGMENT = 2 * _MIB
_MEDIUM = 10 * _MIB
_MEDIUM_SEGMENT = 20 * _MIB


def rounding_bytes(parameter_bytes: Iterable[int]) -> int:
    """Bytes reserved beyond the parameters' own, an estimate: packing inside shared segments is taken as perfect."""
    small = medium = extra = 0
    for size in parameter_bytes:
        if size <= 0:
            continue
        if size <= _SMALL:
            small += -(-size // 512) * 512
            extra += -size % 512
        elif size < _MEDIUM:
            medium += size
        else:
            extra += -size % _SMALL_SEGMENT
    return extra + -small % _SMALL_SEGMENT + -medium % _MEDIUM_SEGMENT
