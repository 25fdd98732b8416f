"""The command line as a whole: what it offers, and what it does not load."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tui import __version__
from tui.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("word", ["-h", "--help", "help"])
def test_the_overview_names_every_command(capsys, word):
    assert main([word]) == 0
    text = capsys.readouterr().out
    for name, (_, line) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", text, re.MULTILINE), name
    assert max(map(len, text.splitlines())) <= 100


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"specdeck {__version__}\n"


def test_the_overview_costs_no_screen():
    code = "import sys; from tui.cli import main; main(['--help']); "
    code += "print([m for m in ('textual','pynvml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_profile_that_is_not_there_is_one_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECDECK_STATE_DIR", str(tmp_path))
    assert main(["run", "no-such-profile", "--rehearsal", "--yes"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert "no-such-profile" in lines[0]
