"""The programs specdeck is measured against, in a virtual environment of their own under .cache/bench."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from benchmarks.scene import ROOT

FOLDER = ROOT / ".cache" / "bench"


@cache
def program(package: str) -> Path | None:
    """The command of a PyPI package of that name, installed when it is not there yet; None when it cannot be."""
    command = FOLDER / "bin" / package
    if command.exists():
        return command
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    steps = [[str(FOLDER / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", package]]
    if not (FOLDER / "bin" / "pip").exists():
        steps.insert(0, [sys.executable, "-m", "venv", str(FOLDER)])
    for step in steps:
        if subprocess.run(step, capture_output=True, check=False).returncode:
            return None
    return command if command.exists() else None


def system(name: str) -> str | None:
    """A program of the system, such as lnav or grep; None when it is not installed."""
    return shutil.which(name)
