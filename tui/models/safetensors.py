"""Safetensors headers: tensor names, types and sizes, without reading a weight.

A file is an 8-byte little-endian header length, that many bytes of JSON, then the data. Only the header is read; the
file size tells whether the data is all there.
"""

import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tui.frozen import frozen
from tui.models.errors import CheckpointError

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""

DTYPE_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits per element of each safetensors type."""

_LFS_POINTER = b"version "


@frozen(kw_only=False)
class TensorInfo:
    """One tensor as the header describes it; nbytes is its size in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


def read_header(path: Path) -> tuple[TensorInfo, ...]:
    """The tensors of one safetensors file, in header order.

    Raises CheckpointError when the file is missing, unreadable, not safetensors, or shorter than its header promises.
    """
    raw, data_bytes = _header_bytes(path)
    try:
        # It opens with a brace, so it is an object or an error.
        header: dict[str, Any] = json.loads(raw)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not a safetensors file: its header is not JSON; download it again.") from None
    tensors = []
    end_bytes = 0
    for info, end in _entries(path, header):
        tensors.append(info)
        end_bytes = max(end_bytes, end)
    if end_bytes > data_bytes:
        raise CheckpointError(
            f"{path} is {end_bytes - data_bytes} bytes shorter than its header says: the download is incomplete."
        )
    return tuple(tensors)


def _header_bytes(path: Path) -> tuple[bytes, int]:
    """The raw header and the number of data bytes behind it."""
    try:
        # A named pipe in a folder would block for ever at open().
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise CheckpointError(f"{path} is not a regular file, so it cannot be a checkpoint shard.")
        with path.open("rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            prefix, opening = file.read(8), file.read(1)
            if prefix == _LFS_POINTER:
                raise CheckpointError(f"{path} is a Git LFS pointer, not weights: run `git lfs pull` in its folder.")
            if not opening:
                raise CheckpointError(f"{path} is only {file_bytes} bytes long: the download is incomplete.")
            header_bytes = int.from_bytes(prefix, "little")
            if header_bytes < 2 or header_bytes > MAX_HEADER_BYTES:
                raise CheckpointError(
                    f"{path} is not a safetensors file: it announces a header of {header_bytes} bytes "
                    f"(2 to {MAX_HEADER_BYTES} are allowed)."
                )
            if opening != b"{":
                raise CheckpointError(f"{path} is not a safetensors file: its header does not open with a brace.")
            if header_bytes + 8 > file_bytes:
                raise CheckpointError(
                    f"{path} ends inside its header ({file_bytes} of {header_bytes + 8} bytes): "
                    "the download is incomplete."
                )
            return opening + file.read(header_bytes - 1), file_bytes - 8 - header_bytes
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from None


def _entries(path: Path, header: dict[str, Any]) -> Iterator[tuple[TensorInfo, int]]:
    """Each tensor with the offset of its last byte, checked against its own type and shape."""
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape = entry["dtype"], tuple(entry["shape"])
            begin, end = entry["data_offsets"]
            sound = (
                isinstance(dtype, str)
                and all(type(n) is int and n >= 0 for n in (*shape, begin, end))
                and begin <= end
                and (dtype not in DTYPE_BITS or end - begin == (math.prod(shape) * DTYPE_BITS[dtype] + 7) // 8)
            )
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise CheckpointError(
                f"{path} has a broken header: the entry of tensor {name[:120]!r} does not add up; download it again."
            )
        yield TensorInfo(name, dtype, shape, end - begin), end
