"""Asks the server's own interpreter about its SGLang: flags, version, torch. Seconds of imports, so the answer is kept.

Call it in a worker thread. specdeck's own interpreter never imports SGLang.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from tui.errors import SpecdeckError
from tui.facts import Json
from tui.files import StoreError, write_atomically
from tui.frozen import frozen
from tui.sglang import probe_script

TIMEOUT_S = 120.0
_FORMAT = 1  # of the cache's files
_MOST_BYTES = 16 << 20
_SHEBANG_BYTES = 512


class ProbeError(SpecdeckError):
    """The interpreter could not be asked, in one sentence."""


class ProbeTimeoutError(ProbeError):
    """The interpreter took too long."""


@frozen
class Probe:
    """One interpreter's answer. `answer` is what `tui.sglang.catalogue.probed_catalogue` takes.

    `arch_list`: GPU architectures of its torch such as "sm_90"; empty for a CPU build or when it was not told.
    """

    interpreter: str
    version: str | None
    arch_list: tuple[str, ...] = ()
    torch_version: str | None = None
    cuda_version: str | None = None
    answer: Mapping[str, Json] = field(default_factory=dict, repr=False)


def find_interpreter(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Path:
    """The Python that a server command runs: itself, or that of a console script such as `sglang`.

    Raises ProbeError when it is no Python, as with a container's command.
    """
    program = command[0] if command else ""
    where = program if "/" not in program else str(cwd / os.path.expanduser(program))
    found = shutil.which(where, path=env.get("PATH", os.defpath))
    if found is None:
        raise ProbeError(f"{program or 'The command'} is not a program on this machine, so its SGLang cannot be asked.")
    path = Path(os.path.abspath(found))
    if path.name.startswith("python"):
        return path
    script = _shebang(path)
    if script is None:
        raise ProbeError(f"{path} does not say which Python runs it, so its SGLang cannot be asked.")
    return script


def cached(interpreter: Path) -> Probe | None:
    """The answer of an earlier probe while interpreter and SGLang are the same; runs nothing."""
    try:
        data = json.loads(_cache_file(interpreter).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("key") != _key(interpreter):
        return None
    answer = data.get("answer")
    return _probe(interpreter, answer) if isinstance(answer, dict) else None


def probe(
    interpreter: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    refresh: bool = False,
) -> Probe:
    """The flags of an interpreter's SGLang, from the cache or by asking it. Raises ProbeError."""
    kept = None if refresh else cached(interpreter)
    if kept is not None:
        return kept
    key = _key(interpreter)  # before: an upgrade meanwhile must not be hidden
    environment = dict(os.environ if env is None else env)
    try:
        # Hidden GPUs cannot get a CUDA context.
        answer = _ask(interpreter, ("flags",), cwd, {**environment, "CUDA_VISIBLE_DEVICES": ""}, timeout_s)
    except ProbeTimeoutError:
        raise
    except ProbeError:
        # Some builds will not even import without a device; NVML instead of CUDA counts them then.
        answer = _ask(interpreter, ("flags",), cwd, {**environment, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}, timeout_s)
    if not isinstance(answer.get("flags"), list):
        raise ProbeError(f"{interpreter} answered without a list of flags.")
    path = _cache_file(interpreter)
    # A cache that cannot be written costs time, nothing else.
    with contextlib.suppress(OSError, StoreError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"key": key, "answer": answer}))
    return _probe(interpreter, answer)


def resolved_arguments(
    interpreter: Path,
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Mapping[str, Json]:
    """What this SGLang resolves a command line's words to, by argument name; it may read the model's config.

    Raises ProbeError, which carries SGLang's own last words when it refuses the command line.
    """
    answer = _ask(interpreter, ("resolve", *words), cwd, dict(os.environ if env is None else env), timeout_s)
    found = answer.get("resolved")
    if not isinstance(found, dict):
        raise ProbeError(f"{interpreter} did not resolve the command line.")
    return found


def _ask(
    interpreter: Path, words: Sequence[str], cwd: Path | None, env: Mapping[str, str], timeout_s: float
) -> dict[str, Json]:
    """Runs the script in a session of its own, so that a time-out ends what it started too."""
    # As text, not by path: the script's folder would become the first on the import path.
    script = Path(probe_script.__file__).read_text(encoding="utf-8")
    try:
        process = subprocess.Popen(
            [str(interpreter), "-c", script, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except OSError as error:
        raise ProbeError(f"{interpreter} cannot be run: {error.strerror}.") from None
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        text = f"{interpreter} did not answer within {timeout_s:g} s; try again when the machine is less busy."
        raise ProbeTimeoutError(text) from None
    except BaseException:
        _end(process)
        raise
    answer = _last_answer(out)
    if answer is None:
        raise ProbeError(f"SGLang could not be asked with {interpreter}: {_last_words(err, process.returncode)}.")
    return answer


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _last_answer(out: bytes) -> dict[str, Json] | None:
    for line in reversed(out[-_MOST_BYTES:].splitlines()):
        if line.startswith(probe_script.MARK.encode()):
            try:
                found = json.loads(line[len(probe_script.MARK) :])
            except (ValueError, RecursionError):
                return None
            return found if isinstance(found, dict) else None
    return None


def _last_words(err: bytes, code: int) -> str:
    lines = [line.strip() for line in err[-20_000:].decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return f"it ended with {code} and said nothing"
    text = "".join(char if char.isprintable() else "?" for char in lines[-1])
    return text[:300].rstrip(".")


def _probe(interpreter: Path, answer: Mapping[str, Json]) -> Probe:
    torch = answer.get("torch")
    torch = torch if isinstance(torch, dict) else {}
    arch = torch.get("arch_list")
    return Probe(
        interpreter=str(interpreter),
        version=_text(answer.get("version")),
        arch_list=tuple(map(str, arch)) if isinstance(arch, list) else (),
        torch_version=_text(torch.get("version")),
        cuda_version=_text(torch.get("cuda")),
        answer=answer,
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _shebang(path: Path) -> Path | None:
    """The Python in a script's first line, also through `env` and through pip's `/bin/sh` line for long paths."""
    try:
        with path.open("rb") as file:
            lines = file.read(_SHEBANG_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines[:2]:
        for word in line.removeprefix("#!").replace("'''exec'", " ").replace('"', " ").split():
            if Path(word).name.startswith("python"):
                found = shutil.which(word)
                return None if found is None else Path(found)
    return None


def _cache_file(interpreter: Path) -> Path:
    import platformdirs

    folder = os.environ.get("SPECDECK_CACHE_DIR")
    root = Path(folder) if folder else platformdirs.user_cache_path("specdeck")
    return root / "probe" / f"{hashlib.sha256(os.fsencode(interpreter)).hexdigest()[:24]}.json"


def _key(interpreter: Path) -> list[Json]:
    """What must be the same for an answer to hold: the interpreter's file, SGLang's installation, our script."""
    try:
        stamp = interpreter.stat().st_mtime_ns
    except OSError:
        stamp = 0
    script = hashlib.sha256(Path(probe_script.__file__).read_bytes()).hexdigest()[:16]
    return [_FORMAT, str(interpreter), stamp, _installed(interpreter), script]


def _installed(interpreter: Path) -> list[str]:
    """SGLang's and torch's metadata folders beside the interpreter, with their times: every upgrade changes them."""
    found = []
    for name in ("sglang", "torch"):
        for folder in interpreter.parent.parent.glob(f"lib/python*/*-packages/{name}-*.dist-info"):
            with contextlib.suppress(OSError):
                found.append(f"{folder.name} {folder.stat().st_mtime_ns}")
    return sorted(found)
