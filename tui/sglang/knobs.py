"""Knobs against a catalogue: what is wrong with them, how they step, and the command line they mean."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tui.frozen import frozen
from tui.patterns import lazy
from tui.sglang.catalogue import Catalogue, Flag
from tui.sglang.flags.groups import doubles
from tui.sglang.flags.renames import RENAMES, Rename
from tui.sglang.versions import Version

_SIZE = lazy(r"-?\d+(?:\.\d+)?[kKmMgG]?")
_BY_OLD = {rename.old: rename for rename in RENAMES}
_BY_NEW = {rename.new: rename for rename in reversed(RENAMES) if rename.new}
_SURELY_MEANT = 1
_FRACTION_STEP = 0.01


@frozen
class KnobProblem:
    """What is wrong with one knob. `fatal`: SGLang refuses the command line.

    `kind`: unknown, renamed, dropped, deprecated, abbreviated, ambiguous, type, choice. `fix`: the name to use, if any.
    """

    knob: str
    kind: str
    text: str
    fatal: bool = True
    fix: str | None = None


def check(knobs: Mapping[str, Any], catalogue: Catalogue, version: Version | None) -> tuple[KnobProblem, ...]:
    """Problems in the order of the knobs. Unknown flags are certain only with a complete catalogue."""
    found = []
    for raw, value in knobs.items():
        name = raw.lstrip("-").replace("_", "-")
        if value is None:
            continue
        problem, flag = _name_problem(name, catalogue, version)
        if problem is not None:
            found.append(problem)
        if flag is not None:
            found += _value_problems(name, flag, value)
    return tuple(found)


def _name_problem(name: str, catalogue: Catalogue, version: Version | None) -> tuple[KnobProblem | None, Flag | None]:
    looked_up = catalogue.find(name)
    rename = _BY_OLD.get(name)
    if looked_up.exact:
        return _old_spelling(name, rename, looked_up.flag, version), looked_up.flag
    if rename is not None and _is_gone(rename, version):
        return _renamed(name, rename, catalogue), None
    early = _too_new(name, catalogue, version)
    if early is not None:
        return early, None
    if looked_up.flag is not None:
        full = looked_up.flag.name
        text = f"--{name} is short for --{full}: write it in full, for another version may have more that begin so."
        return KnobProblem(knob=name, kind="abbreviated", text=text, fatal=False, fix=full), looked_up.flag
    if looked_up.candidates:
        listed = " and ".join(f"--{other}" for other in looked_up.candidates[:4])
        text = f"--{name} could be {listed}: write the one that is meant."
        return KnobProblem(knob=name, kind="ambiguous", text=text, fatal=catalogue.complete), None
    close = catalogue.close(name)
    if not catalogue.complete and not close:
        return None, None  # the built-in list holds the main knobs only
    which = f"SGLang {catalogue.version}" if catalogue.version else "SGLang"
    hint = f"; did you mean {' or '.join(f'--{other}' for other in close)}?" if close else "."
    known = "does not know" if catalogue.complete else "may not know"
    text = f"{which} {known} --{name}{hint}"
    fix = close[0] if len(close) == _SURELY_MEANT else None
    return KnobProblem(knob=name, kind="unknown", text=text, fatal=catalogue.complete, fix=fix), None


def _old_spelling(name: str, rename: Rename | None, flag: Flag | None, version: Version | None) -> KnobProblem | None:
    if rename is None or version is None or version.release < rename.since:
        if flag is None or not flag.deprecated:
            return None
        text = f"--{name} is deprecated: {flag.help or 'see the help of this SGLang'}"
        return KnobProblem(knob=name, kind="deprecated", text=text, fatal=False)
    text = f"--{name} is deprecated since SGLang {_dotted(rename.since)}: {rename.advice}."
    return KnobProblem(knob=name, kind="deprecated", text=text, fatal=False, fix=rename.new)


def _is_gone(rename: Rename, version: Version | None) -> bool:
    return rename.gone is not None and (version is None or version.release >= rename.gone)


def _renamed(name: str, rename: Rename, catalogue: Catalogue) -> KnobProblem:
    gone = _dotted(rename.gone or rename.since)
    if rename.new is None:
        text = f"--{name} is gone since SGLang {gone}: {rename.advice}."
        return KnobProblem(knob=name, kind="dropped", text=text)
    since = _dotted(rename.since)
    text = f"--{name} was renamed in SGLang {since} and is refused since {gone}: {rename.advice}."
    if since == gone:
        text = f"--{name} was renamed in SGLang {since}: {rename.advice}."
    fix = rename.new if catalogue.find(rename.new).exact else None
    return KnobProblem(knob=name, kind="renamed", text=text, fix=fix)


def _too_new(name: str, catalogue: Catalogue, version: Version | None) -> KnobProblem | None:
    """A new name on a version that only knows the old one."""
    rename = _BY_NEW.get(name)
    if rename is None or version is None or version.release >= rename.since or not catalogue.find(rename.old).exact:
        return None
    text = f"--{name} exists since SGLang {_dotted(rename.since)}; SGLang {version} calls it --{rename.old}."
    return KnobProblem(knob=name, kind="renamed", text=text, fix=rename.old)


def _dotted(release: tuple[int, int, int]) -> str:
    return ".".join(map(str, release))


def _value_problems(name: str, flag: Flag, value: Any) -> list[KnobProblem]:
    if flag.many:
        items = value if isinstance(value, list | tuple) else [value]
    elif isinstance(value, list) and flag.type != "json":
        return [_wrong(name, f"takes one value, not {len(value)}")]
    else:
        items = [value]
    return [problem for item in items if (problem := _item_problem(name, flag, item)) is not None]


def _item_problem(name: str, flag: Flag, value: Any) -> KnobProblem | None:
    if flag.type == "bool":
        return None if isinstance(value, bool) else _wrong(name, f"is a switch, true or false, not {value!r}")
    if isinstance(value, bool):
        if flag.optional_value or value is False:
            return None
        return _wrong(name, "needs a value")
    if flag.type == "int" and not _is_int(value):
        return _wrong(name, f"needs a whole number, not {value!r}")
    if flag.type == "float" and not _is_float(value):
        return _wrong(name, f"needs a number, not {value!r}")
    if flag.type == "size" and not (_is_int(value) or _SIZE.fullmatch(str(value))):
        return _wrong(name, f"needs a whole number such as 4096 or 4k, not {value!r}")
    if flag.type == "json" and isinstance(value, str) and not _is_json(value):
        return _wrong(name, f"needs JSON, not {value!r}")
    if flag.choices and str(value) not in flag.choices:
        text = f"--{name} {value} is not one of {', '.join(flag.choices)}."
        return KnobProblem(knob=name, kind="choice", text=text)
    return None


def _wrong(name: str, what: str) -> KnobProblem:
    return KnobProblem(knob=name, kind="type", text=f"--{name} {what}.")


def _is_int(value: Any) -> bool:
    """Whether argparse's int() takes the word; a float such as 8.0 becomes the word "8.0", which it refuses."""
    if isinstance(value, str):
        try:
            int(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int)


def _is_float(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def step(name: str, value: Any, up: bool, flag: Flag | None = None) -> Any:
    """The next value: fractions by 0.01, sizes of batches by powers of two, whole numbers by one, choices in turn.

    The same value when it has no next one.
    """
    if isinstance(value, bool) or (flag is not None and flag.type == "bool"):
        return up
    if flag is not None and flag.choices:
        at = flag.choices.index(str(value)) if str(value) in flag.choices else -1
        return flag.choices[(at + (1 if up else -1)) % len(flag.choices)] if at >= 0 else flag.choices[0]
    if isinstance(value, float):
        return round(max(0.0, value + (_FRACTION_STEP if up else -_FRACTION_STEP)), 4)
    if not isinstance(value, int) or value < 0:
        return value
    if not doubles(name):
        return value + 1 if up else max(0, value - 1)
    if up:
        return 1 << value.bit_length()
    return max(1, 1 << (max(1, value - 1).bit_length() - 1))


def to_words(knobs: Mapping[str, Any], catalogue: Catalogue | None = None) -> list[str]:
    """Knobs as command-line words: true is a bare flag, false nothing (or --no-…), a list repeats, a table is JSON."""
    words: list[str] = []
    for name, value in knobs.items():
        flag = catalogue.find(name).flag if catalogue is not None else None
        if value is False and flag is not None and flag.negative:
            words.append(f"--no-{flag.name}")
        elif value is None or value is False or value == []:
            continue
        elif value is True:
            words.append(f"--{name}")
        else:
            items = value if isinstance(value, list | tuple) and (flag is None or flag.type != "json") else [value]
            words += _flag_words(name, [_word(item) for item in items])
    return words


def _flag_words(name: str, values: Sequence[str]) -> list[str]:
    if len(values) == 1 and values[0].startswith("-") and not _is_float(values[0]):
        return [f"--{name}={values[0]}"]  # apart, argparse would take it for a flag
    return [f"--{name}", *values]


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def from_words(words: Sequence[str], catalogue: Catalogue) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Command-line words as knobs under their full names, and the words that are no flag's.

    Prefixes are resolved as argparse does. Without a catalogue entry a flag takes the words up to the next flag.
    """
    knobs: dict[str, Any] = {}
    stray: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("--") or word == "--":
            stray.append(word)
            continue
        name, equals, inline = word[2:].partition("=")
        flag = catalogue.find(name).flag
        end = at
        while end < len(words) and not equals and not _starts_flag(words[end]) and _wants(flag, end - at):
            end += 1
        values = [inline] if equals else list(words[at:end])
        at = end
        full = flag.name if flag is not None else name.replace("_", "-")
        if flag is not None and flag.negative and name.startswith("no-"):
            knobs[full] = False
        else:
            knobs[full] = _knob(flag, values)
    return knobs, tuple(stray)


def _starts_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _is_float(word)


def _wants(flag: Flag | None, taken: int) -> bool:
    if flag is None:
        return True
    return flag.type != "bool" and (flag.many or taken == 0)


def _knob(flag: Flag | None, values: list[str]) -> Any:
    if not values:
        return True
    typed = [_typed(flag.type if flag is not None else "guess", value) for value in values]
    many = flag.many if flag is not None else len(typed) > 1
    return typed if many else typed[0]


def _typed(kind: str, value: str) -> Any:
    if kind in ("int", "size", "guess") and _is_int(value):
        return int(value)
    if kind in ("float", "guess") and _is_float(value):
        return float(value)
    if kind == "json" and _is_json(value):
        return json.loads(value)
    return value
