"""What would go wrong with a launch, said before it: each finding a sentence with its fix. Starts nothing.

`findings` is pure; `preflight` looks at the machine first and may take a second: call it in a worker thread.
"""

import os
import resource
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError
from tui.facts import GpuReading
from tui.frozen import frozen
from tui.server import preflight_model as model_checks
from tui.server.commandline import (
    PATH_KNOBS,
    command_line,
    find_executable,
    local_path,
    merge_knobs,
    working_folder,
)
from tui.server.preflight_machine import Finding, gpu_findings, host_findings
from tui.server.profiles import KnobValue, Profile
from tui.sglang.catalogue import Catalogue, builtin_catalogue, probed_catalogue
from tui.sglang.knobs import check
from tui.sglang.memknobs import MemoryKnobs, memory_knobs
from tui.sglang.versions import Version, parse_version

__all__ = ["Finding", "Surroundings", "findings", "preflight"]


@frozen
class Surroundings:
    """What was seen on the machine. None is "could not be seen", and then nothing is said about it.

    `gpus`: those that the server will see, in its order. `gpus_read`: whether the driver was asked with success.
    `own_pids`: processes that a restart ends anyway. `missing`: (knob, path). Sizes are bytes.
    """

    version: Version | None = None
    catalogue: Catalogue | None = None
    port_holder: str | None = None
    address: str = ""
    program_problem: str | None = None
    missing: tuple[tuple[str, str], ...] = ()
    gpus: tuple[GpuReading, ...] = ()
    gpus_read: bool = False
    own_pids: frozenset[int] = frozenset()
    arch_list: tuple[str, ...] = ()
    attention_heads: int | None = None
    kv_heads: int | None = None
    architecture: str | None = None
    checkpoint_problem: str | None = None
    mismatches: tuple[str, ...] = ()
    shm_bytes: int | None = None
    open_files: int | None = None
    log_folder: str = ""
    log_free_bytes: int | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)


def findings(seen: Surroundings) -> tuple[Finding, ...]:
    """Everything that stands against a launch, the certain failures first."""
    found: list[Finding] = []
    if seen.program_problem is not None:
        found.append(Finding("error", seen.program_problem, "mend server.command in the profile", "bad-flag"))
    if seen.port_holder is not None:
        text = f"{seen.address} is taken by {seen.port_holder}."
        found.append(Finding("error", text, "stop that, or choose another --port", "port-in-use"))
    for knob, path in seen.missing:
        fix = "mend the path, or download it first"
        found.append(Finding("error", f"--{knob}: there is nothing at {path}.", fix, "model-missing"))
    if seen.checkpoint_problem is not None:
        fix = "mend the path, or download it again"
        found.append(Finding("error", seen.checkpoint_problem, fix, "model-missing"))
    catalogue = seen.catalogue or builtin_catalogue(seen.version)
    for problem in check(seen.knobs, catalogue, seen.version):
        fix = f"write --{problem.fix}" if problem.fix else "see the help of this SGLang's flags"
        found.append(Finding("error" if problem.fatal else "warning", problem.text, fix, "bad-flag"))
    knobs = _memory_knobs(seen.knobs)
    if knobs is not None:
        found += model_checks.size_findings(knobs, seen.attention_heads, seen.kv_heads)
        found += model_checks.speculation_findings(seen.version, knobs, seen.architecture, seen.mismatches)
        if seen.knobs.get("device") != "cpu":
            found += gpu_findings(knobs, seen.gpus, seen.gpus_read, seen.own_pids, seen.arch_list)
        found += host_findings(knobs, seen.shm_bytes, seen.open_files, seen.log_folder, seen.log_free_bytes)
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: finding.severity != "error"))


def preflight(
    profile: Profile,
    overrides: Mapping[str, KnobValue] | None = None,
    *,
    gpus: Sequence[GpuReading] | None = None,
    own_pids: frozenset[int] = frozenset(),
    log_folder: Path | None = None,
    own_port: bool = False,
    environ: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """Look, then judge. `gpus`: the driver's reading, None when there is none. `own_port`: a restart frees the port.

    A probe of the interpreter is used when the cache has one; it is not run here.
    """
    environ = os.environ if environ is None else environ
    knobs = merge_knobs(profile.knobs, overrides or {})
    host, port, problem = _command(profile, overrides, environ)
    probe = _cached_probe(profile, {**environ, **profile.env})
    version = parse_version((probe.version if probe else None) or profile.sglang_version)
    facts = model_checks.look_at_model(profile, knobs)
    shown = _visible(gpus, {**environ, **profile.env})
    return findings(
        Surroundings(
            version=version,
            catalogue=probed_catalogue(probe.answer) if probe else None,
            port_holder=None if own_port or port is None else _holder(host, port),
            address=f"{host}:{port}",
            program_problem=problem,
            missing=_missing(profile, knobs),
            gpus=shown,
            gpus_read=gpus is not None,
            own_pids=own_pids,
            arch_list=probe.arch_list if probe else (),
            attention_heads=facts.attention_heads,
            kv_heads=facts.kv_heads,
            architecture=facts.architecture,
            checkpoint_problem=facts.problem,
            mismatches=facts.mismatches,
            shm_bytes=_total_bytes(Path("/dev/shm")),
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            log_folder=str(log_folder or ""),
            log_free_bytes=None if log_folder is None else _free_bytes(log_folder),
            knobs=knobs,
        )
    )


def _memory_knobs(knobs: Mapping[str, Any]) -> MemoryKnobs | None:
    """None where a value has the wrong type: the flag check has said so."""
    try:
        return memory_knobs(knobs)
    except ValueError:
        return None


def _command(
    profile: Profile, overrides: Mapping[str, KnobValue] | None, environ: Mapping[str, str]
) -> tuple[str, int | None, str | None]:
    """Host, port, and why the command cannot be run."""
    try:
        command = command_line(profile, overrides, environ)
    except SpecdeckError as error:
        return "", None, str(error)
    try:
        find_executable(command)
    except SpecdeckError as error:
        return command.host, command.port, str(error)
    return command.host, command.port, None


def _holder(host: str, port: int) -> str | None:
    from tui.server.ports import holder

    return holder(host, port)


def _missing(profile: Profile, knobs: Mapping[str, KnobValue]) -> tuple[tuple[str, str], ...]:
    found = []
    for name in sorted(PATH_KNOBS & knobs.keys()):
        value = knobs[name]
        if not isinstance(value, str):
            continue
        path = local_path(profile, value)
        if path is not None and not path.exists():
            found.append((name, str(path)))
    return tuple(found)


def _cached_probe(profile: Profile, env: Mapping[str, str]) -> Any:
    from tui.sources.probe import ProbeError, cached, find_interpreter

    try:
        return cached(find_interpreter(profile.command, cwd=working_folder(profile), env=env))
    except ProbeError:
        return None


def _visible(gpus: Sequence[GpuReading] | None, env: Mapping[str, str]) -> tuple[GpuReading, ...]:
    from tui.sources.nvml_visible import visible_uuids

    if gpus is None:
        return ()
    shown = visible_uuids(env.get("CUDA_VISIBLE_DEVICES"), gpus)
    if shown is None:
        return tuple(gpus)
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    return tuple(by_uuid[uuid] for uuid in shown if uuid in by_uuid)


def _total_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).total
    except OSError:
        return None


def _free_bytes(folder: Path) -> int | None:
    """Free bytes where `folder` is or will be."""
    for place in (folder, *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None
