"""What the README tells people to type does what it says."""

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tui.cli import COMMANDS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
LINES = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines() if line]


@pytest.fixture
def type_in(tmp_path):
    """type_in(line) -> the finished process, in a state directory of its own; nothing runs on afterwards."""
    environ = {**os.environ, "SPECDECK_STATE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}

    def run(line):
        words = shlex.split(line)
        assert words[0] == "specdeck"
        return subprocess.run(
            [sys.executable, "-m", "tui", *words[1:]],
            env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    yield run
    run("specdeck stop --yes --kill")


def test_every_command_of_the_readme_runs(type_in):
    assert len(LINES) >= 6
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for line in LINES:
        # Another test may use the profile's port at the same time.
        done = type_in(f"{line} --set port={port}" if line.startswith("specdeck run ") else line)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        assert done.stdout, line


def test_pictures_and_commands_that_it_names_exist():
    for path in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / path).exists(), path
    for row in re.findall(r"^\| `([a-z]+)", TEXT, re.MULTILINE):
        assert row == "specdeck" or row in COMMANDS
