"""A profile as the command that starts it. No shell is in between: a knob is a word and stays one."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from tui.facts import Json
from tui.frozen import frozen
from tui.server.configfile import effective_words
from tui.server.profiles import KnobValue, Profile, ProfileError, knob_name
from tui.sglang.secrets import MASK, is_secret_name, mask_text

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 30000  # SGLang's own, in all versions

# Knobs whose value may be a folder or file of this machine.
PATH_KNOBS = frozenset(
    ("model-path", "model", "tokenizer-path", "speculative-draft-model-path", "speculative-draft-model", "config",
     "chat-template", "quantization-param-path", "kt-weight-path", "ssl-keyfile", "ssl-certfile", "ssl-ca-certs")
)  # fmt: skip

_SHORTEST_SECRET = 6


@frozen(kw_only=False)
class Address:
    """Where a server listens, and the URL by which this machine reaches it."""

    host: str
    port: int
    url: str


@frozen(kw_only=False)
class Command:
    """What is run. `env` is the whole environment, `env_changes` what the profile adds to the operator's.

    `words` is `argv` after what SGLang's `--config` file says, as `flag_value` looks flags up.
    Both, `env`, `env_changes` and `api_key` hold secrets in clear: they are passed on, never written or shown.
    """

    argv: tuple[str, ...]
    words: tuple[str, ...] = field(repr=False)
    cwd: Path
    host: str
    port: int
    url: str
    knobs: Mapping[str, KnobValue]
    env: Mapping[str, str] = field(repr=False)
    env_changes: Mapping[str, str] = field(repr=False)
    api_key: str | None = field(default=None, repr=False)


def command_line(
    profile: Profile, overrides: Mapping[str, KnobValue] | None = None, environ: Mapping[str, str] | None = None
) -> Command:
    """The command of a profile with `overrides` over its knobs (None takes one out). Raises ProfileError.

    cwd starts at the profile's folder, and everything else that is relative starts at cwd.
    """
    environ = os.environ if environ is None else environ
    knobs = merge_knobs(profile.knobs, overrides or {})
    cwd = working_folder(profile)
    argv = [_program(profile.command[0], cwd), *profile.command[1:]]
    for name, value in knobs.items():
        argv += flag_words(name, _local(name, value, cwd))
    try:
        words = effective_words(argv, cwd)
        address = address_of(words)
    except ValueError as error:
        raise ProfileError(f"{profile.path or profile.name}: {error}.") from error
    return Command(
        argv=tuple(argv),
        words=words,
        cwd=cwd,
        host=address.host,
        port=address.port,
        url=address.url,
        knobs=knobs,
        env={**environ, **profile.env},
        env_changes={name: value for name, value in profile.env.items() if environ.get(name) != value},
        api_key=flag_value(words, "api-key"),
    )


def merge_knobs(knobs: Mapping[str, KnobValue], overrides: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """Knobs with `overrides` over them, in the profile's order, new ones last; None takes one out."""
    merged = {**knobs, **{knob_name(name): value for name, value in overrides.items()}}
    return {name: value for name, value in merged.items() if value is not None}


def flag_words(name: str, value: KnobValue) -> list[str]:
    """A knob as command-line words: true is a bare flag, false and [] nothing, a list repeats, a table is JSON."""
    if value is None or value is False or value == []:
        return []
    flag = f"--{name}"
    if value is True:
        return [flag]
    values = [_word(item) for item in value] if isinstance(value, list) else [_word(value)]
    if len(values) == 1 and values[0].startswith("-") and not _is_number(values[0]):
        return [f"{flag}={values[0]}"]  # apart, argparse would take it for a flag
    return [flag, *values]


def flag_value(argv: Sequence[str], name: str) -> str | None:
    """The value of a flag on a command line; the last one counts, as for argparse."""
    flag, found = f"--{name}", None
    for i, word in enumerate(argv):
        if word == flag and i + 1 < len(argv):
            found = argv[i + 1]
        elif word.startswith(f"{flag}="):
            found = word[len(flag) + 1 :]
    return found


def address_of(argv: Sequence[str]) -> Address:
    """Where `effective_words` make their server listen. Raises ValueError for a port that is none."""
    host, port = flag_value(argv, "host") or DEFAULT_HOST, flag_value(argv, "port") or str(DEFAULT_PORT)
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise ValueError(f"port: must be a number from 1 to 65535, not {port!r}")
    scheme = "https" if flag_value(argv, "ssl-certfile") else "http"
    return Address(host, int(port), f"{scheme}://{_reachable(host)}:{port}")


def working_folder(profile: Profile) -> Path:
    """The server's working folder, absolute: `cwd` from the profile's folder on, or that folder itself."""
    return (profile.folder / Path(profile.cwd or ".").expanduser()).resolve()


def local_path(profile: Profile, value: str) -> Path | None:
    """The folder or file of this machine that a path-like knob means; None: a name for a model hub."""
    path = working_folder(profile) / Path(value).expanduser()
    return path if value.startswith(("/", "~", "./", "../")) or path.exists() else None


def find_executable(command: Command) -> str:
    """The program file that will run. Raises ProfileError when there is none, or no working folder."""
    program = command.argv[0]
    if not command.cwd.is_dir():
        raise ProfileError(f"The working folder {command.cwd} is not there: mend server.cwd in the profile.")
    found = shutil.which(program, path=command.env.get("PATH", os.defpath))
    if found is None:
        where = "is not a program on this machine" if "/" in program else "is not on PATH"
        raise ProfileError(
            f"{program} {where}: mend server.command in the profile, or name the server's interpreter there."
        )
    return os.path.abspath(found)


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The command line with the values of secret flags replaced, to be written or shown."""
    masked: list[str] = []
    hide = False
    for word in argv:
        if hide and not word.startswith("--"):
            masked.append(MASK)
            hide = False
            continue
        name, equals, _ = word.partition("=")
        secret = name.startswith("--") and is_secret_name(name)
        masked.append(f"{name}={MASK}" if secret and equals else mask_text(word))
        hide = secret and not equals
    return tuple(masked)


def secrets_of(command: Command) -> list[str]:
    """The values of secrets that this command is given, to be taken out of whatever it prints. Short ones are words."""
    values = []
    for word, following in zip(command.words, (*command.words[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name.startswith("--") and is_secret_name(name):
            values.append(value if equals else following)
    values += [value for name, value in command.env.items() if is_secret_name(name)]
    return sorted({value for value in values if len(value) >= _SHORTEST_SECRET}, key=len, reverse=True)


def _program(program: str, cwd: Path) -> str:
    program = os.path.expanduser(program)
    return os.path.join(cwd, program) if "/" in program else program


def _local(name: str, value: KnobValue, cwd: Path) -> KnobValue:
    if name not in PATH_KNOBS or not isinstance(value, str):
        return value
    if value.startswith("~"):
        return os.path.expanduser(value)
    return os.path.normpath(cwd / value) if value.startswith(("./", "../")) else value


def _word(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _reachable(host: str) -> str:
    """Where a server that listens on `host` is reached from this machine."""
    if host in ("0.0.0.0", ""):
        return "127.0.0.1"
    if host in ("::", "[::]"):
        return "[::1]"
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
