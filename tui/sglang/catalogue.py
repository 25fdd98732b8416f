"""What flags an SGLang knows: of its own parser when it was asked, else the main ones by version."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from tui.frozen import frozen
from tui.sglang.flags.builtin import KNOWN
from tui.sglang.flags.groups import group_of
from tui.sglang.versions import LAST_KNOWN, Version

# argparse's `type` of SGLang's flags -> what a value is to us; anything else is text.
_TYPES = {
    "int": "int",
    "float": "float",
    "str": "str",
    "nullable_str": "str",
    "loads": "json",
    "json_list_type": "json",
    "human_readable_int": "size",
}


_SWITCHES = frozenset(("StoreTrue", "StoreFalse", "BooleanOptional", "DeprecatedStoreTrue"))


@frozen
class Flag:
    """One flag. `name` and `aliases` are without dashes. `type`: bool, int, float, str, json, or size ("4k").

    `many`: takes several values. `optional_value`: may stand without one. `negative`: "no-…" exists.
    """

    name: str
    type: str = "str"
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    default: Any = None
    help: str = ""
    many: bool = False
    optional_value: bool = False
    negative: bool = False
    deprecated: bool = False

    @property
    def group(self) -> str:
        return group_of(self.name)


@frozen(kw_only=False)
class Found:
    """A name looked up. `flag` None: unknown, or `candidates` are several flags that it abbreviates."""

    flag: Flag | None
    exact: bool = False
    candidates: tuple[str, ...] = ()


@frozen(kw_only=False)
class Catalogue:
    """All flags, sorted. `complete`: of the parser itself, so what is not here does not exist."""

    flags: tuple[Flag, ...]
    version: str | None = None
    complete: bool = False
    _names: dict[str, Flag] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for flag in self.flags:
            for name in (flag.name, *flag.aliases):
                self._names[name] = flag
            if flag.negative:
                self._names[f"no-{flag.name}"] = flag

    def find(self, name: str) -> Found:
        """A flag by name, alias or, as argparse allows, by a prefix that no other flag has."""
        name = name.lstrip("-").replace("_", "-")
        if name in self._names:
            return Found(self._names[name], exact=True)
        matches = sorted(full for full in self._names if name and full.startswith(name))
        # argparse counts spellings, not flags: two aliases of one flag are ambiguous too.
        if len(matches) == 1:
            return Found(self._names[matches[0]])
        return Found(None, candidates=tuple(matches))

    def close(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Names that look like `name`, the closest first; a list of the main flags only suggests what is near."""
        cutoff = 0.6 if self.complete else 0.85
        return tuple(difflib.get_close_matches(name, sorted(self._names), n=count, cutoff=cutoff))

    def search(self, words: str) -> tuple[Flag, ...]:
        """Flags whose name or help holds every word; those that hold them in, or begin with, the name come first."""
        wanted = words.lower().replace("_", "-").split()
        found = [
            f for f in self.flags if all(word in f"{f.name} {' '.join(f.aliases)} {f.help}".lower() for word in wanted)
        ]
        first = wanted[0] if wanted else ""

        def rank(flag: Flag) -> tuple[bool, bool, str]:
            named = all(word in flag.name for word in wanted)
            return not named, not flag.name.startswith(first), flag.name

        return tuple(sorted(found, key=rank))


def builtin_catalogue(version: Version | None) -> Catalogue:
    """The main knobs that this version knows; those of the newest for an unknown version."""
    release = version.release if version is not None else LAST_KNOWN
    flags = (
        Flag(
            name=known.name,
            type=known.type,
            aliases=known.aliases,
            choices=known.choices,
            default=known.default,
            help=known.help,
            many=known.many,
        )
        for known in KNOWN
        if known.since <= release and (known.gone is None or release < known.gone)
    )
    return Catalogue(_sorted(flags), version=str(version) if version else None)


def probed_catalogue(answer: Mapping[str, Any]) -> Catalogue:
    """The catalogue of a probe's answer (`tui.sglang.probe_script`). Raises ValueError when it is not one."""
    listed = answer.get("flags")
    if not isinstance(listed, list) or not listed:
        raise ValueError("The probe's answer lists no flags.")
    flags = [_flag(item) for item in listed if isinstance(item, dict)]
    version = answer.get("version")
    return Catalogue(
        _sorted(flag for flag in flags if flag is not None),
        version=version if isinstance(version, str) else None,
        complete=True,
    )


def _sorted(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    return tuple(sorted(flags, key=lambda flag: flag.name))


def _flag(item: Mapping[str, Any]) -> Flag | None:
    names = [str(name)[2:] for name in item.get("flags", ()) if str(name).startswith("--")]
    action = str(item.get("action", ""))
    if not names or action in ("Help", "Version"):
        return None
    negative = action == "BooleanOptional"
    names = [name for name in names if not (negative and name.startswith("no-"))] or names
    nargs = item.get("nargs")
    choices = item.get("choices")
    return Flag(
        name=names[0],
        aliases=tuple(names[1:]),
        type=_type(action, item.get("type"), nargs),
        choices=tuple(map(str, choices)) if isinstance(choices, list) else (),
        default=item.get("default"),
        help=str(item.get("help") or ""),
        many=nargs in ("+", "*") or (isinstance(nargs, int) and nargs > 1),
        optional_value=nargs in ("?", "*"),
        negative=negative,
        deprecated=bool(item.get("deprecated")) or "Deprecated" in action,
    )


def _type(action: str, kind: Any, nargs: Any) -> str:
    if nargs == 0 or action in _SWITCHES:
        return "bool"
    return _TYPES.get(str(kind), "str")
