"""What `frozen` makes is to the rest of Python what `dataclass(frozen=True, slots=True)` makes."""

import copy
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace

import pytest

from tui.frozen import frozen


@frozen
class Base:
    """The time of something."""

    at: float


@frozen
class Shape(Base):
    name: str = "none"
    sides: Mapping[str, int] = field(default_factory=dict)
    secret: str = field(default="", repr=False, compare=False)

    @property
    def title(self) -> str:
        return f"{self.name} at {self.at}"


@frozen(kw_only=False)
class Pair:
    left: int
    right: int = 2

    def __post_init__(self) -> None:
        if self.right < 0:
            raise ValueError("negative")


@frozen
class Single:
    only: float


@frozen
class Empty:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    at: float
    name: str = "none"
    sides: Mapping[str, int] = field(default_factory=dict)
    secret: str = field(default="", repr=False, compare=False)


def test_an_object_holds_what_it_was_given_and_the_defaults() -> None:
    shape = Shape(at=1.0, sides={"a": 2})
    assert (shape.at, shape.name, shape.sides, shape.secret) == (1.0, "none", {"a": 2}, "")
    assert shape.title == "none at 1.0"
    assert Shape(at=1.0).sides is not Shape(at=1.0).sides


def test_it_can_be_neither_changed_nor_extended() -> None:
    shape = Shape(at=1.0)
    with pytest.raises(FrozenInstanceError, match="name"):
        shape.name = "square"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="other"):
        shape.other = 1  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError, match="name"):
        del shape.name
    assert not hasattr(shape, "__dict__")


@pytest.mark.parametrize("arguments", [{}, {"at": 1.0, "wrong": 2}])
def test_wrong_arguments_are_told_as_a_dataclass_tells_them(arguments: dict[str, float]) -> None:
    with pytest.raises(TypeError) as ours:
        Shape(**arguments)
    with pytest.raises(TypeError) as theirs:
        Reference(**arguments)
    assert str(ours.value) == str(theirs.value).replace("Reference", "Shape")


def test_fields_are_named_unless_the_class_says_otherwise() -> None:
    with pytest.raises(TypeError):
        Shape(1.0)  # type: ignore[misc]
    assert Pair(1) == Pair(1, 2) == Pair(right=2, left=1)
    with pytest.raises(ValueError, match="negative"):
        Pair(1, -1)


def test_equality_hash_and_repr_are_those_of_a_dataclass() -> None:
    one, same, other = Single(only=1.0), Single(only=1.0), Single(only=2.0)
    assert one == same
    assert one != other
    assert hash(one) == hash(same)
    assert len({one, same, other}) == 2
    assert Single(only=1.0) != Base(at=1.0)
    nan = float("nan")
    assert Single(only=nan) == Single(only=nan)
    assert Empty() == Empty()
    assert Shape(at=1.0, secret="x") == Shape(at=1.0, secret="y")
    shown = repr(Shape(at=1.0, sides={"a": 2}, secret="x"))
    assert shown == repr(Reference(at=1.0, sides={"a": 2}, secret="x")).replace("Reference", "Shape")
    with pytest.raises(TypeError, match="unhashable"):
        hash(Shape(at=1.0))


def test_dataclasses_own_functions_work_on_it() -> None:
    shape = Shape(at=1.0, name="square")
    assert is_dataclass(shape)
    assert [one.name for one in fields(Shape)] == ["at", "name", "sides", "secret"]
    assert replace(shape, at=2.0) == Shape(at=2.0, name="square")
    assert asdict(shape) == {"at": 1.0, "name": "square", "sides": {}, "secret": ""}
    match shape:
        case Shape(name=name):
            assert name == "square"


def test_it_can_be_copied() -> None:
    shape = Shape(at=1.0, sides={"a": 2})
    assert copy.copy(shape) == shape
    assert copy.deepcopy(shape) == shape
    assert copy.deepcopy(shape).sides is not shape.sides
