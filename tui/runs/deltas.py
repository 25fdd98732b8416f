"""Facts of one class resemble each other: a line of a recording says what changed since the last one. Lossless, pure.

A whole fact is `{"f": class, …}`, as `tui.factlines` writes it. A changed one is `{"d": class, …}` with the keys whose
values differ: objects again as their differences, lists of the same length as an object of changed places, anything
else as the new value in a list of its own; "-" lists keys that went away.
"""

import json
from typing import Any

Json = Any
GONE = "-"
WHOLE_EVERY = 200  # a broken line costs at most so many facts of its class


def difference(old: Json, new: Json) -> Json:
    """What turns `old` into `new`; {} when they are equal."""
    if isinstance(old, dict) and isinstance(new, dict) and GONE not in old and GONE not in new:
        return _of_objects(old, new)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        places = {str(i): change for i in range(len(new)) if (change := difference(old[i], new[i])) != {}}
        return places if len(places) * 2 <= len(new) or _all_nested(new) else [new]
    return {} if _same(old, new) else [new]


def _same(old: Json, new: Json) -> bool:
    """As JSON tells values apart, at every depth: Python holds True, 1 and 1.0 for equal."""
    if isinstance(old, (dict, list)):
        return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
    return type(old) is type(new) and bool(old == new)


def apply(old: Json, change: Json) -> Json:
    """The value after a change. Raises TypeError, KeyError, ValueError or IndexError for one that does not fit."""
    if isinstance(change, list):
        return change[0]
    if isinstance(old, list):
        items = list(old)
        for place, inner in change.items():
            items[int(place)] = apply(items[int(place)], inner)
        return items
    if not isinstance(old, dict):
        if change == {}:
            return old
        raise TypeError("a difference of objects for something that is none")
    found = {key: value for key, value in old.items() if key not in change.get(GONE, ())}
    for key, inner in change.items():
        if key != GONE:
            found[key] = apply(found[key], inner) if key in found else apply(None, inner)
    return found


class Deltas:
    """Both ends of a recording: remembers the last fact of each class."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, Json]] = {}
        self._count: dict[str, int] = {}

    def encode(self, fact: dict[str, Json]) -> dict[str, Json]:
        """The line for a fact of `factlines`' form."""
        name = fact["f"]
        old = self._last.get(name)
        self._last[name] = fact
        count = self._count.get(name, 0)
        self._count[name] = count + 1
        if old is None or count % WHOLE_EVERY == 0:
            return fact
        changed = difference(old, fact)
        return {"d": name, **changed}

    def decode(self, line: dict[str, Json]) -> dict[str, Json]:
        """The fact of a line. Raises ValueError when it cannot be known."""
        if "d" not in line:
            if "f" not in line:
                raise ValueError("neither a fact nor a change of one")
            self._last[line["f"]] = line
            return line
        name = line["d"]
        old = self._last.get(name)
        if old is None:
            raise ValueError(f"a change of a {name} that was lost")
        try:
            fact: dict[str, Json] = apply(old, {key: value for key, value in line.items() if key != "d"})
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise ValueError(f"a change of a {name} that does not fit") from error
        self._last[name] = fact
        return fact

    def forget(self) -> None:
        """After a broken line: nothing is known until the next whole fact of a class."""
        self._last.clear()


def _of_objects(old: dict[str, Json], new: dict[str, Json]) -> dict[str, Json]:
    changed: dict[str, Json] = {}
    for key, value in new.items():
        if key not in old:
            changed[key] = [value]
        elif (change := difference(old[key], value)) != {}:
            changed[key] = change
    gone = [key for key in old if key not in new]
    return {**changed, GONE: gone} if gone else changed


def _all_nested(items: list[Json]) -> bool:
    return all(isinstance(item, dict | list) for item in items)
