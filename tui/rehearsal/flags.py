"""The command line of a rehearsal server: SGLang's flags of the version that is rehearsed, refused as argparse does."""

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

from tui.frozen import frozen
from tui.rehearsal.flagnames import LISTS, SWITCHES, VALUES
from tui.sglang.flags.builtin import KNOWN, Known
from tui.sglang.memknobs import MemoryKnobs, memory_knobs
from tui.sglang.versions import Version

_SIZES = {"k": 10**3, "m": 10**6, "g": 10**9}
# SGLang's own defaults where the built-in catalogue has none, as they stand in `server_args=`.
_DEFAULTS: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 30000,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "page_size": 1,
    "kv_cache_dtype": "auto",
    "max_prefill_tokens": 16384,
    "decode_log_interval": 40,
    "watchdog_timeout": 300,
    "attention_backend": "flashinfer",
    "device": "cuda",
    "api_key": None,
    "random_seed": 42,
    "schedule_conservativeness": 1.0,
    "log_level": "info",
}


@frozen(kw_only=False)
class ServerFlags:
    """`given`: what stood on the command line, by attribute name. `knobs`: the part that memory depends on."""

    given: dict[str, Any]
    knobs: MemoryKnobs
    argv: tuple[str, ...]

    def get(self, name: str) -> Any:
        """A flag's value, else SGLang's default; None where that is decided later."""
        return self.given.get(name, _DEFAULTS.get(name))

    @property
    def model_path(self) -> str:
        return str(self.given["model_path"])

    @property
    def served_name(self) -> str:
        return str(self.given.get("served_model_name") or self.model_path)


def parse(argv: Sequence[str], version: Version) -> ServerFlags:
    """Exits with status 2, after usage and error on stderr, when the flags are refused. `argv` without the program."""
    words = list(argv)
    if words and not words[0].startswith("-"):  # `sglang serve MODEL`
        words = ["--model-path", *words]
    given = vars(_parser(version, words).parse_args(words))
    return ServerFlags(given, memory_knobs({k: _plain(v) for k, v in given.items()}), tuple(argv))


def defaults() -> dict[str, Any]:
    """Every attribute of `server_args=` that a rehearsal prints, with its default."""
    names = [known.name.replace("-", "_") for known in KNOWN if known.gone is None]
    values = {known.name.replace("-", "_"): known.default for known in KNOWN}
    return {name: _DEFAULTS.get(name, values[name]) for name in names} | {
        name: value for name, value in _DEFAULTS.items() if name not in names
    }


def _parser(version: Version, words: Sequence[str]) -> argparse.ArgumentParser:
    program = "sglang serve" if version.at_least(0, 5, 10) else "launch_server.py"
    parser = argparse.ArgumentParser(prog=program, argument_default=argparse.SUPPRESS)
    described: set[str] = set()
    for known in KNOWN:
        if known.since <= version.release and (known.gone is None or version.release < known.gone):
            described.update((known.name, *known.aliases))
            _add(parser, known)
    if all(word[2:].partition("=")[0] in described for word in words if word.startswith("--")):
        return parser  # the other five hundred change nothing then, and take their time
    other_times = {name for known in KNOWN for name in (known.name, *known.aliases)}
    for name in SWITCHES.split():
        if name not in other_times:
            parser.add_argument(f"--{name}", action="store_true")
    for names, count in ((VALUES, None), (LISTS, "*")):
        for name in names.split():
            if name not in other_times:
                parser.add_argument(f"--{name}", nargs=count)
    return parser


def _add(parser: argparse.ArgumentParser, known: Known) -> None:
    options = [f"--{name}" for name in (known.name, *known.aliases)]
    dest = known.name.replace("-", "_")
    if known.type == "bool":
        parser.add_argument(*options, dest=dest, action="store_true")
        return
    parser.add_argument(
        *options,
        dest=dest,
        type=_TYPES[known.type],
        nargs="+" if known.many else None,
        choices=known.choices or None,
        required=known.name == "model-path",
    )


def _size(text: str) -> int:
    scale = _SIZES.get(text[-1:].lower())
    return int(float(text[:-1]) * scale) if scale else int(text)


_TYPES: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str, "size": _size, "json": json.loads}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
