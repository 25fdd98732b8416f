"""Taking over a server that somebody started by hand: its own command line becomes a run, and a profile."""

import contextlib
import json
import os
import shlex
import shutil
import time
from pathlib import Path

from tui.errors import SpecdeckError
from tui.factlines import dump_fact
from tui.facts import Json, Launched, ProcessId
from tui.files import append_lines, write_json
from tui.procid import alive, command_line
from tui.runs.store import Run, RunStore, process_json
from tui.server import leftovers
from tui.server.commandline import address_of, mask_argv
from tui.server.configfile import effective_words
from tui.server.discover import is_main, log_of
from tui.server.importer import import_command
from tui.server.masking import masked_text
from tui.server.profiles import Profile, parse
from tui.server.signals import server_tree
from tui.sglang.secrets import mask_args

# What of a server's environment shapes it; the rest is the shell it was started from.
_TELLING = (
    "CUDA_", "SGLANG_", "SGL_", "NCCL_", "PYTORCH_", "TORCH", "HF_", "TRANSFORMERS_", "OMP_", "FLASHINFER_", "NVSHMEM_"
)  # fmt: skip
_PLACES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")  # told where they differ from this program's own


class AdoptError(SpecdeckError):
    """A process cannot be taken over."""


def adopt(process: ProcessId, store: RunStore) -> Run:
    """A run for a server that runs already, without a keeper: how it ends will not be known. Nothing is signalled.

    Its output is followed where it goes to a file. Raises AdoptError and StoreError.
    """
    known = next((run for run in store.active() if run.server == process), None)
    if known is not None:
        return known
    profile = adopted_profile(process)
    words = command_line(process.pid)
    try:
        address = address_of(effective_words(words, profile.cwd or "/"))
    except ValueError as error:
        raise AdoptError(f"Process {process.pid}: {error}.") from error
    told = {
        "profile": profile.name,
        "profile_path": None,
        "started_at": time.time(),
        "argv": list(mask_argv(words)),
        "cwd": profile.cwd,
        "env": mask_args(profile.env),
        "knobs": mask_args(profile.knobs),
        "url": address.url,
        "host": address.host,
        "port": address.port,
        "adopted": True,
    }
    if not alive(process):
        raise AdoptError(f"Process {process.pid} ended while it was looked at.")
    run = store.create(profile.name, {"profile.toml": masked_text(profile), "command.json": json.dumps(told, indent=1)})
    try:
        _record(run, process, told)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return store.load(run.name)


def adopted_profile(process: ProcessId) -> Profile:
    """The profile that would start this server again, secrets in clear; not saved. Raises AdoptError."""
    words = command_line(process.pid)
    if not alive(process):
        raise AdoptError(f"Process {process.pid} does not run any more.")
    if not is_main(words):
        raise AdoptError(f"Process {process.pid} does not tell the command that started it, so it can only be watched.")
    try:
        cwd = os.readlink(f"/proc/{process.pid}/cwd")
        environ = _environ(process.pid)
    except OSError as error:
        raise AdoptError(f"Process {process.pid} belongs to another user: it can only be watched.") from error
    program = words[0]
    if "/" in program:
        program = os.path.join(cwd, program)
    else:
        program = shutil.which(program, path=environ.get("PATH")) or program
    env = {name: value for name, value in environ.items() if _shapes(name, value)}
    assignments = "".join(f"{name}={shlex.quote(value)} " for name, value in env.items())
    found = import_command(f"cd {shlex.quote(cwd)}\n{assignments}{shlex.join([program, *words[1:]])}")
    return parse(found.profile.text.replace("# Imported from a shell command.", "# Adopted from a running server.", 1))


def _shapes(name: str, value: str) -> bool:
    return name.startswith(_TELLING) or (name in _PLACES and os.environ.get(name) != value)


def _record(run: Run, process: ProcessId, told: dict[str, Json]) -> None:
    tree = server_tree(process)
    identities = {
        "keeper": None,
        "server": process_json(process),
        "tree": [process_json(each) for each in tree],
        "files": sorted(leftovers.held_files(each.pid for each in tree)),
    }
    write_json(run.path / "keeper.json", identities)
    log = log_of(process.pid)
    if log is not None:
        with contextlib.suppress(OSError):
            os.symlink(log, run.log)
    launched = Launched(
        at=told["started_at"],
        run=run.name,
        profile=told["profile"],
        command=tuple(told["argv"]),
        knobs=told["knobs"],
        env=told["env"],
        server=process,
        url=told["url"],
    )
    append_lines(run.control, [dump_fact(launched)])


def _environ(pid: int) -> dict[str, str]:
    raw = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(item).partition("=") for item in raw if b"=" in item)
    return {name: value for name, _, value in pairs if name.isidentifier()}
