"""Regular expressions that are compiled when they are first asked: a command uses few of the hundreds there are."""

import re
from typing import Any, cast


class _Pattern:
    """Stands for a `re.Pattern`. Once asked for, a method of it is as near as an attribute."""

    __slots__ = ("_flags", "_source", "findall", "finditer", "fullmatch", "match", "search", "split", "sub")

    def __init__(self, source: str | bytes, flags: re.RegexFlag | int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        if name not in self.__slots__:
            raise AttributeError(name)
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def lazy(source: str, flags: re.RegexFlag | int = 0) -> re.Pattern[str]:
    """As `re.compile`, at first use: of a wrong expression only a test of its use tells."""
    return cast("re.Pattern[str]", _Pattern(source, flags))


def lazy_bytes(source: bytes, flags: re.RegexFlag | int = 0) -> re.Pattern[bytes]:
    """The same for bytes."""
    return cast("re.Pattern[bytes]", _Pattern(source, flags))
