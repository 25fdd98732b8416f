"""The pictures that are kept are the ones that the program draws now."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "screenshots"
STATES = ("empty", "loading", "serving", "pending", "editor", "crashed", "restart", "help", "runs", "compare", "replay")
SIZES = ("120x40", "80x24")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    done = subprocess.run(
        [sys.executable, str(KEPT / "make.py"), "--to", str(folder)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_a_kept_picture_is_not_stale(drawn, state, size):
    name = f"{state}-{size}.svg"
    assert (drawn / name).read_text() == (KEPT / name).read_text(), (
        f"screenshots/{name} is not what the program draws: look at a new one and keep it (make screenshots)."
    )


def test_no_picture_is_left_over(drawn):
    assert {path.name for path in KEPT.glob("*.svg")} == {path.name for path in drawn.iterdir()}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("loading", ["REHEARSAL", "loading", "weights"]),
        ("serving", ["serving", "accept", "tok/s"]),
        ("restart", ["Launch it again?", "Cancel (n)"]),
        ("editor", ["in force 0.85", "enter takes it"]),
        ("crashed", ["failed", "0.7688", "mem-fraction-static"]),
    ],
)
def test_a_picture_shows_its_state(drawn, state, words):
    text = (drawn / f"{state}-120x40.svg").read_text().replace("&#160;", " ")
    assert [word for word in words if word not in text] == []
