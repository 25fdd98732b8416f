"""Frozen, slotted dataclasses that cost little to define.

`dataclasses.dataclass` writes and compiles six functions for a frozen class, half a millisecond each time a program
starts; two hundred classes were half of the start of a command. Here a class shares all of them but `__init__`, which
is written when the first object is made. To `dataclasses.fields`, `replace` and `asdict` the classes are dataclasses.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_GETTERS: dict[type, Callable[[Any], Any]] = {}


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, kw_only: bool = True) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen(cls: type[T] | None = None, /, *, kw_only: bool = True) -> type[T] | Callable[[type[T]], type[T]]:
    """As `dataclass(frozen=True, slots=True, kw_only=True)`. Every field must be an argument (`init`)."""
    return (lambda given: _made(given, kw_only)) if cls is None else _made(cls, kw_only)


def _made(cls: type[T], kw_only: bool) -> type[T]:
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    for name, shared in _SHARED.items():
        if name not in vars(made):
            setattr(made, name, shared)

    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        written = _written(made)
        made.__init__ = written
        written(self, *args, **kwargs)

    made.__init__ = first
    return made  # type: ignore[no-any-return]


def _written(cls: Any) -> Callable[..., None]:
    """`__init__`: sets every field as an object does, since the class refuses."""
    known: dict[str, Any] = {"MISSING": MISSING, "put": object.__setattr__}
    signature, body = ["self"], []
    for one in sorted(fields(cls), key=lambda f: f.kw_only is True):
        if one.kw_only is True and "*" not in signature:
            signature.append("*")
        signature.append(one.name + _default(one, known))
        value = one.name
        if one.default_factory is not MISSING:
            value = f"make_{one.name}() if {one.name} is MISSING else {one.name}"
        body.append(f"    put(self, {one.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    exec("\n".join([f"def __init__({', '.join(signature)}):", *(body or ["    pass"])]), known)
    found: Callable[..., None] = known["__init__"]
    found.__qualname__ = f"{cls.__qualname__}.__init__"
    return found


def _default(one: "Field[Any]", known: dict[str, Any]) -> str:
    if one.default_factory is not MISSING:
        known[f"make_{one.name}"] = one.default_factory
        return "=MISSING"
    if one.default is MISSING:
        return ""
    known[f"default_{one.name}"] = one.default
    return f"=default_{one.name}"


def _compared(cls: Any) -> Callable[[Any], Any]:
    """Gives what two objects of a class are equal by."""
    found = _GETTERS.get(cls)
    if found is None:
        names = [one.name for one in fields(cls) if one.compare]
        found = attrgetter(*names) if len(names) > 1 else lambda self: [getattr(self, name) for name in names]
        _GETTERS[cls] = found
    return found


def _equal(self: Any, other: object) -> Any:
    if type(other) is type(self):
        compared = _compared(type(self))
        return compared(self) == compared(other)
    return NotImplemented


def _hash(self: Any) -> int:
    return hash(tuple(_compared(type(self))(self)))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_change(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_removal(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_SHARED = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_removal,
    "__getstate__": _state,
    "__setstate__": _restore,
}
