"""The `server_args=` line, in both forms: `ServerArgs(model_path='…', …)` (<= 0.5.18) and a dict's repr (>= 0.5.19).

A small reader of Python literals that keeps what it can: pasted logs cut the line or elide parts of it, and some values
are the repr of objects.
"""

import re

from tui.facts import Json
from tui.patterns import lazy
from tui.sglang.secrets import mask_args

_TOKEN = lazy(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[({]|[\])}]|[,:=]|[^'\"\[\](){},:=]+", re.DOTALL)
_START = lazy(r"server_args=(ServerArgs\(|\{)")
_INT = lazy(r"[+-]?\d{1,18}", re.ASCII)
_FLOAT = lazy(r"[+-]?(?:\d{1,30}\.\d{0,30}|\d{1,30})(?:e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)
_NAME = lazy(r"([A-Za-z_]\w*)\s*$")
_ESCAPE = lazy(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_CLOSES = {"[": "]", "(": ")", "{": "}"}
_MAX_DEPTH = 20


def parse_server_args(message: str) -> tuple[dict[str, Json], bool] | None:
    """The arguments of a `server_args=` message with secrets masked, and whether it is the resolved (dict) form.

    The last value of a line that was cut is left out, for it may be half a value. None: no such line.
    """
    start = _START.search(message)
    if start is None:
        return None
    resolved = start[1] == "{"
    tokens = _Tokens(message, start.end())
    args: dict[str, Json] = {}
    while True:
        item, end = tokens.item(depth=0)
        if end is None:
            break
        name, value = _pair(item, "=:" if resolved else "=")
        if name is not None:
            args[name] = value
        if end != ",":
            break
    return mask_args(args), resolved


class _Tokens:
    """Splits a literal at its commas. An item is a list of atoms: text, or a bracketed group that was read already."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._at = start

    def next(self) -> str | None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return match[0]

    def item(self, depth: int) -> tuple[list[Json], str | None]:
        """The atoms up to the next comma or closing bracket, and that character; None when the text ended first."""
        atoms: list[Json] = []
        while (token := self.next()) is not None:
            if token == "," or token in "])}":
                return atoms, token
            if token in "[({":
                group = self._group(token, depth + 1)
                if group is None:
                    return atoms, None
                atoms.append(group)
            else:
                atoms.append(token)
        return atoms, None

    def _group(self, opening: str, depth: int) -> "_Group | None":
        items: list[list[Json]] = []
        if depth > _MAX_DEPTH:
            return None
        start = self._at - 1
        while True:
            atoms, end = self.item(depth)
            if end is None:
                return None
            if any(not isinstance(atom, str) or atom.strip() for atom in atoms):
                items.append(atoms)
            if end != ",":
                return _Group(opening, items, self._text[start : self._at])


class _Group:
    """A bracketed group: its opening bracket, the atoms of each item, and the text."""

    def __init__(self, opening: str, items: list[list[Json]], text: str) -> None:
        self.opening = opening
        self.items = items
        self.text = text

    def value(self) -> Json:
        if self.opening == "{" and not self.items:
            return {}
        if self.opening == "{" and any(":" in [a for a in atoms if isinstance(a, str)] for atoms in self.items):
            pairs = (_pair(atoms, ":") for atoms in self.items)
            return {name: value for name, value in pairs if name is not None}
        return [_value(atoms) for atoms in self.items]


def _pair(atoms: list[Json], separators: str) -> tuple[str | None, Json]:
    """`name=value` or `'name': value`; the name is None when there is none."""
    for index, atom in enumerate(atoms):
        if isinstance(atom, str) and len(atom) == 1 and atom in separators:
            name = "".join(a for a in atoms[:index] if isinstance(a, str)).strip()
            if name[:1] in ("'", '"'):
                return _string(name), _value(atoms[index + 1 :])
            match = _NAME.search(name)
            if match:
                return match[1], _value(atoms[index + 1 :])
            return (name or None) if separators == ":" else None, _value(atoms[index + 1 :])
    return None, None


def _value(atoms: list[Json]) -> Json:
    meaningful = [atom for atom in atoms if not isinstance(atom, str) or atom.strip()]
    if len(meaningful) == 1:
        atom = meaningful[0]
        return atom.value() if isinstance(atom, _Group) else _scalar(atom.strip())
    return "".join(atom.text if isinstance(atom, _Group) else atom for atom in atoms).strip()


def _scalar(text: str) -> Json:
    match text:
        case "None":
            return None
        case "True":
            return True
        case "False":
            return False
    if text[:1] in ("'", '"'):
        return _string(text)
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _string(text: str) -> str:
    return _ESCAPE.sub(_unescape, text[1:-1]) if len(text) >= 2 else text


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        point = int(code[1:], 16)
        return "�" if 0xD800 <= point <= 0xDFFF or point > 0x10FFFF else chr(point)
    return _SIMPLE_ESCAPES.get(code, match[0])
