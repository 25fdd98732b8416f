import contextlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.models.errors import CheckpointError
from tui.models.safetensors import read_header


def put(path: Path, header: object, data_bytes: int = 0) -> Path:
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(data_bytes))
    return path


def entry(dtype: str = "BF16", shape: object = (2, 3), offsets: object = (0, 12)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_reads_names_types_and_sizes(tmp_path: Path) -> None:
    path = put(
        tmp_path / "a.safetensors",
        {
            "__metadata__": {"format": "pt"},
            "w": entry(),
            "s": entry("F32", (), (12, 16)),
            "p": entry("F4", (3,), (16, 18)),
        },
        18,
    )
    assert [(t.name, t.dtype, t.shape, t.nbytes, t.numel) for t in read_header(path)] == [
        ("w", "BF16", (2, 3), 12, 6),
        ("s", "F32", (), 4, 1),
        ("p", "F4", (3,), 2, 3),
    ]


def test_a_type_of_the_future_is_sized_by_its_offsets(tmp_path: Path) -> None:
    path = put(tmp_path / "a.safetensors", {"w": entry("F2_NEW", (8,), (0, 2))}, 2)
    assert read_header(path)[0].nbytes == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "incomplete"),
        (b"1234", "incomplete"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"PK\x03\x04" + bytes(60), "not a safetensors file"),
        ((2**63).to_bytes(8, "little") + b"{}", "header of 9223372036854775808 bytes"),
        ((1000).to_bytes(8, "little") + b"{}", "ends inside its header"),
        ((4).to_bytes(8, "little") + b"{{{{", "not JSON"),
        ((4).to_bytes(8, "little") + b"{\xfe\xff\xfe", "not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "does not open with a brace"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_header(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        7,
        {},
        entry(offsets=(0, 11)),
        entry(offsets=(12, 0)),
        entry(offsets=(0,)),
        entry(shape=(-2, -3)),
        entry(shape=("2", 3)),
        entry(shape=(True, 6)),
        entry(shape=6),
        {**entry(), "dtype": None},
    ],
)
def test_entries_that_do_not_add_up_are_named(tmp_path: Path, broken: object) -> None:
    with pytest.raises(CheckpointError, match="tensor 'bad' does not add up"):
        read_header(put(tmp_path / "a.safetensors", {"bad": broken}, 12))


def test_a_short_file_says_how_much_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="7 bytes shorter"):
        read_header(put(tmp_path / "a.safetensors", {"w": entry()}, 5))


def test_a_deeply_nested_header_is_refused(tmp_path: Path) -> None:
    raw = b'{"a":' * 200_000
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw)
    with pytest.raises(CheckpointError, match="not JSON"):
        read_header(path)


def test_a_missing_file_and_a_pipe_do_not_block(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_header(tmp_path / "absent.safetensors")
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_header(tmp_path / "pipe.safetensors")


@settings(max_examples=150, deadline=None)
@given(raw=st.binary(max_size=200), claimed=st.integers(0, 220))
def test_any_bytes_give_tensors_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, claimed: int
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a.safetensors"
    path.write_bytes(claimed.to_bytes(8, "little") + raw)
    with contextlib.suppress(CheckpointError):
        assert isinstance(read_header(path), tuple)
