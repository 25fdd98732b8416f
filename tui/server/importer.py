"""A launch command that an operator has (shell line, script, `docker run`) as a profile. Nothing of it is executed."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tui.frozen import frozen
from tui.patterns import lazy
from tui.server.commandline import PATH_KNOBS
from tui.server.docker import Container, read_container
from tui.server.profiles import KnobValue, Profile, knob_name, parse
from tui.server.shelltext import LARGEST_TEXT, ShellTextError, SimpleCommand, simple_commands
from tui.sglang.secrets import mask_text

_INT = lazy(r"-?(0|[1-9]\d{0,17})")
_FLOAT = lazy(r"-?\d{1,15}\.\d{1,15}")
_NUMBER = lazy(r"-\.?\d")
_ASSIGNMENT = lazy(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_DROPPED_WRAPPERS = frozenset(("nohup", "exec", "time", "setsid", "command"))
_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_BARE = lazy(r"(enable|disable|skip|no|trust|allow|use)-")  # flags that take no value, as far as names tell
_DEEPEST = 5


@frozen(kw_only=False)
class Imported:
    """The profile, and notes in sentences on what was left out or could not be told."""

    profile: Profile
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """The server's command as it was found."""

    program: list[str]
    flags: list[str]
    env: dict[str, str] = field(default_factory=dict)
    folder: str | None = None
    notes: list[str] = field(default_factory=list)
    container: Container | None = None


def import_command(text: str, name: str | None = None) -> Imported:
    """The profile of the first command in `text` that starts SGLang. Raises ShellTextError when there is none.

    `name`: the profile's name; by default made from the model's.
    """
    if len(text) > LARGEST_TEXT:
        raise ShellTextError("The text is larger than 1 MiB, so it is not a launch script.")
    found = _search(text)
    if found is None:
        raise ShellTextError(
            "No command in the text starts SGLang: looked for `python -m sglang.launch_server` and `sglang serve`, "
            "also inside `docker run` and `bash -c`."
        )
    knobs = _knobs(found)
    if found.container is not None:
        _leave_container(found, found.container, knobs)
    # A variable handed through under its own name comes from the operator's environment anyway.
    found.env = {name: value for name, value in found.env.items() if value not in (f"${name}", f"${{{name}}}")}
    for word in (*found.program, *map(str, knobs.values()), *found.env.values()):
        if "$" in word or "`" in word:
            found.notes.append(f"{mask_text(word)!r} is only known when the script runs; it was taken over as it is.")
    profile = parse(_toml(found, knobs, name or _name(knobs)))
    return Imported(profile, tuple(dict.fromkeys(found.notes)))


def _search(text: str, depth: int = 0) -> _Found | None:
    for command in simple_commands(text):
        found = _in_command(command, depth)
        if found is not None:
            return found
    return None


def _in_command(command: SimpleCommand, depth: int) -> _Found | None:
    env = dict(command.env)
    words = _unwrap(list(command.words), env)
    if not words:
        return None
    base = os.path.basename(words[0])
    if base in ("docker", "podman", "nerdctl") and depth < _DEEPEST:
        found = _in_container(words, depth)
    elif base in _SHELLS and depth < _DEEPEST and (script := _script_of(words)) is not None:
        found = _search(script, depth + 1)
    else:
        found = _server(words)
    if found is None:
        return None
    found.env = {**({} if found.container is not None else env), **found.env}
    found.folder = found.folder or (None if found.container is not None else command.folder)
    for dropped in command.dropped:
        what = "`&`: a profile's server runs in the background anyway" if dropped == "&" else f"redirection `{dropped}`"
        found.notes.append(f"Left out: {what}.")
    return found


def server_words(words: Sequence[str]) -> int | None:
    """How many of a command's words name the server itself; its flags follow. None: it starts no SGLang server."""
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else ""
        if word == "-m" and following == "sglang.launch_server":
            return i + 2
        if os.path.basename(word) == "sglang" and following == "serve":
            return i + 2
        if word.endswith("sglang/launch_server.py"):
            return i + 1
    return None


def _server(words: list[str]) -> _Found | None:
    count = server_words(words)
    return None if count is None else _Found(words[:count], words[count:])


def _unwrap(words: list[str], env: dict[str, str]) -> list[str]:
    """The command without what only runs it: nohup, sudo, env."""
    while words:
        base = os.path.basename(words[0])
        if base in _DROPPED_WRAPPERS:
            words = words[1:]
        elif base == "sudo":
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[2 if words[0] in ("-u", "-g", "-h", "-p") else 1 :]
        elif base == "env" or _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:] if base == "env" else words
            while words and (match := _ASSIGNMENT.fullmatch(words[0])) is not None:
                env[match[1]] = match[2]
                words = words[1:]
            if words and words[0].startswith("-"):
                return words
        else:
            return words
    return words


def _script_of(words: list[str]) -> str | None:
    for i, word in enumerate(words[1:-1], start=1):
        if re.fullmatch(r"-[a-z]*c", word):
            return words[i + 1]
    return None


def _in_container(words: list[str], depth: int) -> _Found | None:
    container = read_container(words)
    if container is None:
        return None
    inner = SimpleCommand(container.words, container.env, container.folder, ())
    found = _in_command(inner, depth + 1)
    if found is not None:
        found.container = container
    return found


def _leave_container(found: _Found, container: Container, knobs: dict[str, KnobValue]) -> None:
    """What the container did for the server, done on this machine, or a note where it cannot be."""
    found.folder = None
    for name, value in knobs.items():
        if name in PATH_KNOBS and isinstance(value, str) and (outside := container.host_path(value)) is not None:
            knobs[name] = outside
            found.notes.append(f"{name} is {outside} on this machine, {value} in the container.")
    if container.gpus and "CUDA_VISIBLE_DEVICES" not in found.env:
        found.env["CUDA_VISIBLE_DEVICES"] = container.gpus
    inside = str(knobs.get("port", 30000))
    for outer, inner in container.ports:
        if inner == inside and outer != inner:
            found.notes.append(f"The container's port {inner} was published as {outer}; {inner} it is here.")
    found.notes.append(
        f"The command ran in the image {container.image}; the profile starts it on this machine. Left out: "
        f"{' '.join(map(mask_text, container.left_out)) or 'nothing else'}."
    )


def _knobs(found: _Found) -> dict[str, KnobValue]:
    knobs: dict[str, KnobValue] = {}
    words = list(found.flags)
    if found.program[-1] == "serve" and words and not words[0].startswith("-"):
        knobs["model-path"] = words.pop(0)
    while words:
        word = words.pop(0)
        if not word.startswith("--") or word == "--":
            found.notes.append(f"Left out: {mask_text(word)!r}, which is no flag.")
            continue
        flag, equals, value = word.partition("=")
        values = [value] if equals else []
        while not equals and words and (not words[0].startswith("-") or _NUMBER.match(words[0])):
            values.append(words.pop(0))
        name = knob_name(flag)
        if values and not equals and _BARE.match(name) and found.program[-1] == "serve" and "model-path" not in knobs:
            knobs["model-path"], values = values[-1], values[:-1]
        if name in knobs:
            found.notes.append(f"--{name} stands twice; the last one counts.")
        knobs[name] = _value(values)
    return knobs


def _value(words: list[str]) -> KnobValue:
    if not words:
        return True
    typed = [_typed(word) for word in words]
    if len(typed) == 1:
        return typed[0]
    # A TOML list may mix types, but a word that only looks like a number stays what it is among words.
    return typed if len({type(value) for value in typed}) == 1 else words


def _typed(word: str) -> KnobValue:
    if _INT.fullmatch(word) and word != "-0":
        return int(word)
    if _FLOAT.fullmatch(word) and str(float(word)) == word:
        return float(word)
    return word


def _name(knobs: Mapping[str, KnobValue]) -> str:
    model = str(knobs.get("served-model-name") or knobs.get("model-path") or knobs.get("model") or "imported")
    parts = [os.path.basename(model.rstrip("/")) or "imported"]
    if "speculative-algorithm" in knobs:
        parts.append(str(knobs["speculative-algorithm"]))
    return re.sub(r"[^a-z0-9._]+", "-", "-".join(parts).lower()).strip("-.") or "imported"


def _toml(found: _Found, knobs: Mapping[str, KnobValue], name: str) -> str:
    server: dict[str, KnobValue] = {"command": found.program}
    if found.folder is not None:
        server["cwd"] = found.folder
    tables = [("server", server), ("env", found.env), ("knobs", knobs)]
    lines = ["# Imported from a shell command.", *_comments(found.notes), f"name = {_literal(name)}"]
    for title, table in tables:
        lines += ["", f"[{title}]", *(f"{_key(key)} = {_literal(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _comments(notes: Iterable[str]) -> list[str]:
    return [f"# {' '.join(note.split())}" for note in dict.fromkeys(notes) if note.isprintable()]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _literal(key)


def _literal(value: KnobValue) -> str:
    """A TOML value. TOML's basic strings are JSON's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
