"""Install the real SGLang for the CPU and make the models it serves: `python tests/real/install.py`.

About 75 s and 1.6 GB of disk the first time, nothing when all is there. The virtual environment is .venv-sglang in the
repository, or SPECDECK_SGLANG_VENV. SGLang itself is not edited: a torch-only stand-in for its kernel package and a
sitecustomize.py go into the environment beside it.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from layout import HERE, ROOT, models_dir, venv_dir, venv_python

TORCH_LIST = HERE / "requirements-torch.txt"
SGLANG_LIST = HERE / "requirements-sglang.txt"
STANDIN = HERE / "standin"
MAKE_MODELS = HERE / "make_models.py"
NEEDED_BYTES = 2_500_000_000
LOCK = ".install-lock"


class InstallError(Exception):
    """One sentence for the user: what failed and what to do."""


def digest(*paths: Path) -> str:
    """Hash of the named files, and of this interpreter's minor version."""
    found = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for path in sorted(paths):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def stamped(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text().strip() == wanted


def write_stamp(stamp: Path, value: str) -> None:
    part = stamp.with_name(stamp.name + ".part")
    part.write_text(value + "\n")
    os.replace(part, stamp)


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Two installs at once (two make runs) take turns."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def run(words: list[str | Path], log: Path, doing: str) -> None:
    """Run one step with its output in `log`. Raises InstallError with the step's own last error line."""
    with open(log, "ab") as out:
        done = subprocess.run([str(word) for word in words], stdout=out, stderr=subprocess.STDOUT)
    if done.returncode:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["no output"]
        raise InstallError(f"{doing} failed ({errors[-1].removeprefix('ERROR: ')}); the whole output is in {log}.")


def make_venv(folder: Path) -> None:
    """An environment at `folder`; never touches a folder that holds something else."""
    if not (folder / "pyvenv.cfg").is_file() and {path.name for path in folder.iterdir()} - {LOCK}:
        raise InstallError(
            f"{folder} is not a virtual environment; empty it or set SPECDECK_SGLANG_VENV to another path."
        )
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES and not venv_python().exists():
        raise InstallError(
            f"{folder.parent} has {free / 2**30:.1f} GiB free, and SGLang with its models needs 2.4 GiB."
        )
    done = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True)
    if done.returncode:
        raise InstallError(f"{sys.executable} cannot make a virtual environment; on Debian install python3-venv.")


def install_packages(folder: Path) -> None:
    stamp, wanted = folder / ".packages", digest(TORCH_LIST, SGLANG_LIST)
    if stamped(stamp, wanted):
        return
    make_venv(folder)
    log = folder / "install.log"
    log.unlink(missing_ok=True)
    pip = [venv_python(), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    print(f"Installing torch for the CPU into {folder} ...", flush=True)
    # The pins hold torch's own dependencies too, so that the second step changes none of them.
    run([*pip, "-r", TORCH_LIST, "-c", SGLANG_LIST], log, "Installing torch")
    print("Installing SGLang and what it needs on a CPU ...", flush=True)
    run([*pip, "--no-deps", "-r", SGLANG_LIST], log, "Installing SGLang")
    write_stamp(stamp, wanted)


def install_standin(folder: Path) -> None:
    files = list(STANDIN.rglob("*.py"))
    stamp, wanted = folder / ".standin", digest(*files)
    if stamped(stamp, wanted):
        return
    [site] = folder.glob("lib/python*/site-packages")
    for path in files:
        target = site / path.relative_to(STANDIN)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)
    write_stamp(stamp, wanted)


def install_models(folder: Path) -> None:
    stamp, wanted = folder / ".models", digest(MAKE_MODELS)
    if stamped(stamp, wanted):
        return
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Making the models in {folder} ...", flush=True)
    run([venv_python(), MAKE_MODELS, folder], folder / "make.log", "Making the models")
    write_stamp(stamp, wanted)


def link_default(name: Path, target: Path) -> None:
    """Profiles name the default places; a link there serves whoever chose others."""
    if name == target or name.exists() or name.is_symlink():
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    name.symlink_to(target)


def main() -> int:
    started = time.monotonic()
    venv, models = venv_dir(), models_dir()
    try:
        with only_one(venv):
            install_packages(venv)
            install_standin(venv)
            install_models(models)
            link_default(ROOT / ".venv-sglang", venv)
            link_default(ROOT / ".cache" / "models", models)
    except (InstallError, OSError) as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    print(f"SGLang 0.5.23 is in {venv}, the models are in {models} ({time.monotonic() - started:.0f} s).")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
