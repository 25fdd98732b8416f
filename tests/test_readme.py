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
        words = shlex.split(line, comments=True)
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
        done = type_in(line.replace("specdeck run ", f"specdeck run --set port={port} "))
        promised = re.search(r"# exit (\d)", line)
        assert done.returncode == (int(promised[1]) if promised else 0), (line, done.stdout, done.stderr)
        assert done.stdout, line


def test_pictures_and_commands_that_it_names_exist():
    for path in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`((?:tui|tests|profiles)/[\w./]+)`", TEXT):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"`(\w+\.py)`", TEXT):
        assert list((ROOT / "tui").rglob(name)), name


def test_its_table_names_every_command():
    table = " ".join(re.findall(r"^\| (`[^|]+) \|", TEXT, re.MULTILINE))
    named = {words.split()[0] for words in re.findall(r"`([^`]+)`", table)}
    assert named == set(COMMANDS) - {"dashboard"} | {"specdeck"}


def test_the_exit_codes_of_its_table_are_those_of_the_help():
    rows = dict(re.findall(r"^\| `(\w+)[^|]*\|[^|]*\| (0 [^|]*1 [^|]*?) \|", TEXT, re.MULTILINE))
    for name in ("plan", "doctor", "status", "run", "stop"):
        assert rows[name] in COMMANDS[name][1]


def test_options_that_it_names_exist(type_in):
    for command, options in {
        "demo": ("--play", "--scenario", "--list"),
        "attach": ("--url", "--log", "--pid", "--adopt"),
        "run": ("--rehearsal", "--wait", "--yes", "--set"),
        "sweep": ("--vary",),
        "web": ("--control",),
        "dashboard": ("--ascii", "--no-mouse"),
    }.items():
        told = type_in(f"specdeck {command} --help").stdout
        assert all(option in told and option in TEXT for option in options), command
