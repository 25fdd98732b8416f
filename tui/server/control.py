"""Launching, restarting and going back. Stopping is in `stopping`; who may control is in `lock`."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tui.errors import SpecdeckError
from tui.facts import Json
from tui.files import write_json
from tui.runs.store import Run, RunStore, load_run
from tui.server import ports
from tui.server.commandline import Command, command_line, find_executable, mask_argv, secrets_of
from tui.server.masking import masked_text, unmasked
from tui.server.profiles import KnobValue, Profile, ProfileError, load, parse, set_knobs
from tui.server.signals import server_tree
from tui.server.stopping import DEFAULT_GRACE_S, MemoryBack, Step, stop
from tui.server.watch import ORPHAN_GRACE_S
from tui.sglang.secrets import mask_args

_KEEPER_LIMIT_S = 30.0


class LaunchError(SpecdeckError):
    """A server could not be started; nothing was left running."""


class _NoAnswerError(LaunchError):
    """The keeper was started and said nothing, so its folder must stay."""


def launch(
    profile: Profile,
    store: RunStore,
    overrides: Mapping[str, KnobValue] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    rehearsal: bool = False,
) -> Run:
    """Start a server under a keeper of its own and return its run. Blocks for a few tenths of a second.

    Raises ProfileError, StoreError, and LaunchError when its port is held or it cannot be run.
    """
    effective = set_knobs(profile, overrides) if overrides else profile
    command = command_line(effective, environ=environ)
    executable = find_executable(command)
    _check_port(command)
    told = _told(effective, command, rehearsal)
    command_json = json.dumps(told, ensure_ascii=False, indent=1) + "\n"
    run = store.create(effective.name, {"profile.toml": masked_text(effective), "command.json": command_json})
    plan = {
        "executable": executable,
        "argv": list(command.argv),
        "env": dict(command.env),
        "cwd": str(command.cwd),
        "umask": _umask(),
        "orphan_grace_s": ORPHAN_GRACE_S,
        "secrets": secrets_of(command),
        "launched": told,
    }
    try:
        _start_keeper(run.path, plan)
    except _NoAnswerError:
        raise
    except LaunchError:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return load_run(run.path)


def restart(
    run: Run,
    profile: Profile,
    store: RunStore,
    overrides: Mapping[str, KnobValue] | None = None,
    *,
    grace_s: float = DEFAULT_GRACE_S,
    memory_back: MemoryBack | None = None,
    preflight: Callable[[], str | None] | None = None,
    rehearsal: bool = False,
) -> Iterator[Step]:
    """Stop, verify, preflight, launch, as one sequence of steps; closing the iterator cancels what is still to come.

    `preflight` returns a sentence that forbids the launch, or None. What can be found wrong with the profile, another
    port or the disk is found before the stop. The last step is "done", with the new run when `ok`. Raises as `launch`
    does, before the stop only.
    """
    effective = set_knobs(profile, overrides) if overrides else profile
    command = command_line(effective)
    find_executable(command)
    if command.port != run.port:
        _check_port(command)
    store.check_room()
    for step in stop(run, grace_s, "restart", memory_back):
        if step.kind != "done":
            yield step
        elif not step.ok:
            yield Step("done", "Not launched again, for the old server left something behind.", ok=False, run=step.run)
            return
        else:
            yield Step("note", step.text)
    refused = preflight() if preflight is not None else None
    if refused is not None:
        yield Step("done", f"Not launched again: {refused}", ok=False)
        return
    yield Step("note", f"Launching {effective.name}.")
    try:
        new = launch(effective, store, rehearsal=rehearsal)
    except SpecdeckError as error:
        yield Step("done", f"Not launched again: {error}", ok=False)
        return
    yield Step("done", f"Launched {effective.name} as {new.name}.", run=new)


def mark_ready(run: Run, at: float | None = None) -> None:
    """Remember that the server was proved ready, so that a later failure can go back to it. Raises StoreError."""
    write_json(run.path / "ready.json", {"at": time.time() if at is None else at})


def last_ready(store: RunStore, before: Run | None = None) -> Run | None:
    """The newest run that was ready, older than `before`: where a failed launch can go back to."""
    runs = [run for run in store.runs() if run.ready_at is not None and run.damaged is None]
    if before is not None and before.started_at is not None:
        limit = before.started_at
        runs = [run for run in runs if run.name != before.name and (run.started_at or 0.0) <= limit]
    return runs[0] if runs else None


def profile_of(run: Run) -> Profile:
    """The profile as that run had it, secrets filled in from the profile's own file. Raises ProfileError."""
    path = Path(run.profile_path) if run.profile_path else None
    try:
        text = run.profile_copy.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{run.profile_copy} cannot be read: {error}.") from error
    original = None
    if path is not None:
        with contextlib.suppress(ProfileError):
            original = load(path)
    return unmasked(parse(text, path), original)


def port_is_ours(run: Run) -> bool | None:
    """Whether the port is listened on by a process of this run; None when nobody listens, or it cannot be seen.

    A "ready" line in the log is no proof: with its port held by another SGLang, SGLang prints it all the same.
    """
    if run.port is None:
        return None
    return ports.listened_by(run.port, lambda: server_tree(run.server, run.keeper, run.tree))


def _check_port(command: Command) -> None:
    held = ports.holder(command.host, command.port)
    if held is not None:
        raise LaunchError(f"Port {command.port} is held by {held}: stop it, or choose another port.")


def _told(profile: Profile, command: Command, rehearsal: bool) -> dict[str, Json]:
    """What may be written of a launch: everything but its secrets."""
    return {
        "profile": profile.name,
        "profile_path": None if profile.path is None else str(profile.path.absolute()),
        "started_at": time.time(),
        "argv": list(mask_argv(command.argv)),
        "cwd": str(command.cwd),
        "env": mask_args(command.env_changes),
        "knobs": mask_args(command.knobs),
        "url": command.url,
        "host": command.host,
        "port": command.port,
        "sglang_version": profile.sglang_version,
        "rehearsal": rehearsal,
    }


def _start_keeper(folder: Path, plan: Mapping[str, Json]) -> None:
    package = Path(__file__).resolve().parents[2]
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "LC_ALL")}
    try:
        # -S and -P: nothing but the standard library and this package is looked for, which also starts it faster.
        keeper = subprocess.Popen(
            [sys.executable, "-S", "-P", "-m", "tui.server.keeper", str(folder.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**environ, "PYTHONPATH": str(package)},
        )
    except OSError as error:
        raise LaunchError(f"The keeper cannot be started: {error}.") from error
    with keeper:
        try:
            out, err = keeper.communicate(json.dumps(plan).encode(), timeout=_KEEPER_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            keeper.kill()
            raise _NoAnswerError(
                f"The keeper did not answer within {_KEEPER_LIMIT_S:.0f} s; it may still start the server: "
                f"`specdeck stop {folder.name}` stops it."
            ) from error
    try:
        answer = json.loads(out)
    except ValueError as error:
        last = err.decode(errors="replace").strip().rpartition("\n")[2]
        raise LaunchError(f"The keeper could not be started: {last or 'it ended without a word'}.") from error
    if "error" in answer:
        raise LaunchError(str(answer["error"]))


def _umask() -> int:
    """The operator's umask, for the server's own files. Read where no thread can be hurt by it."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
    except (OSError, StopIteration):
        return 0o022
