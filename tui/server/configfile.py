"""The YAML file of SGLang's own `--config` (>= 0.5.3), as words of the command line.

SGLang puts a file's flags before those of the command line, so that the command line wins (0.5.23,
srt/utils/server_args_config_parser.py). The file is a flat mapping of flags, and so much of YAML is read here; a value
that says more than that (an anchor, a block of text, nested mappings) is left out, for nothing that is looked up here
is written so.
"""

import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from tui.facts import Json
from tui.patterns import lazy

_LARGEST_BYTES = 1 << 20
_ENTRY = lazy(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#\[\]{},&*!|>%@`-][^:#]*?)\s*:(?:\s+(.*))?""")
_DOUBLE = lazy(r'("(?:[^"\\]|\\.)*")\s*(?:#.*)?')
_SINGLE = lazy(r"'((?:[^']|'')*)'\s*(?:#.*)?")
_COMMENT = lazy(r"(?:^|\s)#.*")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_OPAQUE = object()
_ELSEWHERE = frozenset(("docker", "podman", "nerdctl", "ssh"))  # what they run sees other files


def effective_words(argv: Sequence[str], cwd: Path | str) -> tuple[str, ...]:
    """The flags that count, for looking one up: those of the file that `--config` names, then the command line.

    Raises ValueError, a sentence without its full stop, when the file cannot be read as SGLang reads it.
    """
    at = [i for i, word in enumerate(argv) if word == "--config"]  # of `--config=FILE` SGLang takes no notice
    if not at or not _ELSEWHERE.isdisjoint(map(os.path.basename, argv[: at[0]])):
        return tuple(argv)
    if len(at) > 1 or at[0] + 1 == len(argv):
        raise ValueError("--config: name one file, once")
    path = Path(cwd) / os.path.expanduser(argv[at[0] + 1])
    return (*_flags(_parsed(path, _text(path))), *argv)


def _text(path: Path) -> str:
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise ValueError(f"--config: {path} must be named .yaml or .yml")
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_BYTES:
            raise ValueError(f"--config: {path} is no file of flags")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"--config: {path} is not UTF-8 text") from error
    except OSError as error:
        raise ValueError(f"--config: {path} cannot be read ({error.strerror})") from error


def _parsed(path: Path, text: str) -> dict[str, object]:
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"--config: {path} is neither JSON nor one `flag: value` a line") from error
        return dict(found)
    entries: dict[str, object] = {}
    for number, key, value, block in _entries(path, text):
        try:
            entries[key] = _value(value) if value or not block else _block(block)
        except ValueError as error:
            raise ValueError(f"--config: {path}, line {number}: {error}") from error
    return entries


def _entries(path: Path, text: str) -> Iterator[tuple[int, str, str, list[str]]]:
    """Line number, flag, value, and the lines below that belong to it, of each entry."""
    entry: tuple[int, str, str, list[str]] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if not bare or bare.startswith("#") or (entry is None and (bare == "---" or bare.startswith("%"))):
            continue
        if bare in ("---", "..."):
            break
        if entry is not None and (line[0] in " \t" or _continues(bare, entry)):
            if line[0] == "\t":
                raise ValueError(f"--config: {path}, line {number}: YAML is not indented by tabs")
            entry[3].append(bare)
            continue
        match = _ENTRY.fullmatch(line.rstrip())
        if match is None:
            raise ValueError(f"--config: {path}, line {number} is no `flag: value`")
        if entry is not None:
            yield entry
        entry = number, _unquoted(match[1]), _without_comment(match[2] or ""), []
    if entry is not None:
        yield entry


def _continues(line: str, entry: tuple[int, str, str, list[str]]) -> bool:
    """A list under its key need not be indented, nor what closes a bracket."""
    return (not entry[2] and line.startswith("-")) or (entry[2][:1] in ("[", "{") and line[0] in "]},")


def _value(text: str) -> object:
    if text[:1] in ("[", "{"):
        return _flow(text)
    if text[:1] in ("&", "*", "!", "|", ">"):
        return _OPAQUE
    if text[:1] in ('"', "'") and _DOUBLE.fullmatch(text) is None and _SINGLE.fullmatch(text) is None:
        raise ValueError("a quote is not closed")
    if text[:1] in ('"', "'"):
        return _unquoted(text)
    return _WORDS.get(text.lower(), text)


def _flow(text: str) -> object:
    try:
        found: Json = json.loads(text)
        return found
    except (ValueError, RecursionError):
        words = [word.strip() for word in text[1:-1].split(",") if word.strip()]
        return [_value(word) for word in words] if text[0] == "[" and text.count("[") == 1 else _OPAQUE


def _block(lines: list[str]) -> object:
    if not all(line.startswith("- ") for line in lines):
        return _OPAQUE
    return [_value(_without_comment(line[2:].strip())) for line in lines]


def _without_comment(text: str) -> str:
    quoted = _DOUBLE.match(text) or _SINGLE.match(text)
    return text.strip() if quoted else _COMMENT.sub("", text).strip()


def _unquoted(text: str) -> str:
    if (match := _DOUBLE.fullmatch(text)) is not None:
        try:
            return str(json.loads(match[1]))
        except ValueError:
            return match[1][1:-1]
    match = _SINGLE.fullmatch(text)
    return match[1].replace("''", "'") if match is not None else text


def _flags(entries: dict[str, object]) -> list[str]:
    words: list[str] = []
    for name, value in entries.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not False and value is not _OPAQUE and value != []:
            values = value if isinstance(value, list) else [value]
            words += [flag, *(json.dumps(each) if isinstance(each, dict) else str(each) for each in values)]
    return words
