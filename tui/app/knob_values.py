"""Values of knobs as the operator types and steps them, by the flag catalogue's rules. Pure."""

import json
import shlex
from collections.abc import Callable, Iterable

from tui.port import FlagInfo
from tui.sglang import knobs as rules
from tui.sglang.catalogue import Catalogue, Flag
from tui.sglang.flags.groups import GROUPS, group_of

ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


def as_flag(info: FlagInfo) -> Flag:
    """The flag as the catalogue's rules take it."""
    return Flag(
        name=info.name,
        type=info.type,
        choices=info.choices,
        default=info.default,
        help=info.help,
        many=info.many,
        optional_value=info.optional_value,
    )


def next_value(name: str, value: object, up: bool, info: FlagInfo | None) -> object:
    """What `+` and `-` make of a value; the same value when it has no next one."""
    return rules.step(name, value, up, None if info is None else as_flag(info))


def problem(name: str, value: object, info: FlagInfo | None) -> str:
    """Why SGLang would refuse this value, in a sentence; empty when it would not."""
    if info is None or value is None:
        return ""
    found = rules.check({name: value}, Catalogue((as_flag(info),)), None)
    return next((each.text for each in found if each.fatal), "")


def parse(name: str, text: str, info: FlagInfo | None, old: object = None) -> object:
    """The value that the operator typed; None for nothing. ValueError, with a sentence, when it cannot be one."""
    text = text.strip()
    if text == "":
        return None
    if info is None:
        return _like(old, text)
    if info.many:
        try:
            value: object = [_typed(info.type, word) for word in shlex.split(text.replace(",", " "))]
        except ValueError:
            raise ValueError(f"A quote in {text} is not closed.") from None
    else:
        value = _typed(info.type, text)
    if wrong := problem(name, value, info):
        raise ValueError(wrong)
    return value


def shown(value: object) -> str:
    """A value as it is typed."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return " ".join(shlex.quote(shown(item)) for item in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def grouped(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Names by the groups of the knobs pane; groups without any are left out."""
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name in names:
        found[group_of(name)].append(name)
    return [(group, members) for group, members in found.items() if members]


def search(infos: Iterable[FlagInfo], words: str) -> list[FlagInfo]:
    """Flags whose name or help holds every word, those that have them in the name first."""
    by_name = {info.name: info for info in infos}
    return [by_name[flag.name] for flag in Catalogue(tuple(map(as_flag, by_name.values()))).search(words)]


def _typed(kind: str, text: str) -> object:
    """As its type if it is one; else the text, of which the check says what is wrong."""
    lowered = text.lower()
    if kind == "bool" and lowered in ON + OFF:
        return lowered in ON
    converters: dict[str, Callable[[str], object]] = {"int": int, "size": int, "float": float, "json": json.loads}
    convert = converters.get(kind)
    if convert is None:
        return text
    try:
        return convert(text)
    except ValueError:
        return text


def _like(old: object, text: str) -> object:
    """Of a flag that no catalogue knows, the kind of the value before it."""
    for kind, types in (("bool", bool), ("int", int), ("float", float)):
        if isinstance(old, types):
            value = _typed(kind, text)
            if not isinstance(value, types) or isinstance(value, bool) != isinstance(old, bool):
                raise ValueError(f"{text} is not of the same kind as {shown(old)}.")
            return value
    return text
