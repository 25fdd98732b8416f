"""Facts as JSON lines and back, without loss: a recording is this, and so is a replay.

A line is `{"f": "<fact class>", "at": …, …}`; fields at their default are left out. A fact of a class that only a newer
specdeck knows is skipped, so that an old dashboard can show a new recording.
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from tui import facts
from tui.facts import Fact

_Decoder = Callable[[Any], Any]


class FactLineError(ValueError):
    """A line is not a fact: not JSON, not an object, or a field is missing or of the wrong shape."""


@cache
def fact_classes() -> Mapping[str, type[Fact]]:
    """Every concrete fact class by name."""
    found = {
        name: cls
        for name, cls in vars(facts).items()
        if isinstance(cls, type) and issubclass(cls, Fact) and name not in ("Fact", "LogFact")
    }
    return types.MappingProxyType(found)


def dump_fact(fact: Fact) -> str:
    """One JSON line, without the newline."""
    return json.dumps({"f": type(fact).__name__, **_encode(fact)}, ensure_ascii=False, separators=(",", ":"))


def load_fact(line: str) -> Fact | None:
    """The fact of one line; None for a fact class this version does not know. Raises FactLineError."""
    try:
        data = json.loads(line)
        name = data.pop("f")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise FactLineError(f"not a fact: {line[:80]!r}") from error
    cls = fact_classes().get(name)
    if cls is None:
        return None
    try:
        fact: Fact = _decoder(typing.cast(typing.Hashable, cls))(data)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise FactLineError(f"not a {name}: {error}") from error
    return fact


def read_facts(lines: Iterable[str]) -> Iterator[Fact]:
    """The facts of a recording. A last line that was cut off by a crash is left out; a broken one elsewhere raises."""
    pending: FactLineError | None = None
    for line in lines:
        if not line.strip():
            continue
        if pending is not None:
            raise pending
        try:
            fact = load_fact(line)
        except FactLineError as error:
            pending = error
            continue
        if fact is not None:
            yield fact


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: _encode(v) for f, v in fields if not _is_default(f, v)}
    if isinstance(value, Mapping):
        return {str(k): _encode(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN; sources drop such numbers, and None reads as unknown
    return value


def _is_default(field: "dataclasses.Field[Any]", value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(type(field.default) is type(value) and field.default == value)
    if field.default_factory is not dataclasses.MISSING:
        return bool(field.default_factory() == value)
    return False


@cache
def _decoder(annotation: typing.Hashable) -> _Decoder:
    if dataclasses.is_dataclass(annotation):
        return _dataclass_decoder(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        inner = _decoder(args[0])
        return lambda items: tuple(inner(item) for item in items)
    if origin in (typing.Union, types.UnionType):
        inner = _decoder(next(a for a in args if a is not type(None)))
        return lambda item: None if item is None else inner(item)
    if annotation is float:
        return lambda item: item if item is None else float(item)
    return lambda item: item


def _dataclass_decoder(cls: Any) -> _Decoder:
    hints = get_type_hints(cls)
    decoders = {f.name: _decoder(hints[f.name]) for f in dataclasses.fields(cls)}

    def decode(data: Any) -> Any:
        return cls(**{name: decoders[name](value) for name, value in data.items() if name in decoders})

    return decode
