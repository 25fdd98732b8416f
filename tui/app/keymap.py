"""The operator's own keys: $XDG_CONFIG_HOME/specdeck/keymap.toml, a table of binding id = keys."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path


class KeymapError(Exception):
    """The file is there and cannot be used; the text is a sentence."""


def config_folder(environ: Mapping[str, str]) -> Path:
    """Where specdeck's configuration is (XDG Base Directory)."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return Path(base) / "specdeck"


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where screen dumps and copies go: SPECDECK_STATE_DIR, else XDG."""
    if environ.get("SPECDECK_STATE_DIR"):
        return Path(environ["SPECDECK_STATE_DIR"])
    base = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local/state")
    return Path(base) / "specdeck"


def load(path: Path, known: Iterable[str]) -> dict[str, str]:
    """Binding id -> keys, comma separated. An absent file is an empty keymap.

    Raises KeymapError when it is not TOML, names a binding that does not exist, or gives keys that are not text.
    """
    import tomllib  # only for who has such a file

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise KeymapError(f"{path} cannot be read: {error}.") from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KeymapError(f"{path} is not TOML: {error}.") from None
    flat = dict(_flat(table))
    strangers = sorted(set(flat) - set(known))
    if strangers:
        raise KeymapError(f"{path} names {strangers[0]}, which is no binding; help (?) lists them.")
    for name, keys in flat.items():
        if not isinstance(keys, str) or not keys:
            raise KeymapError(f'{path}: {name} must be a text of keys such as "x" or "x,ctrl+x".')
    return {name: str(keys) for name, keys in flat.items()}


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    """`[knob] up = "x"` and `"knob.up" = "x"` mean the same."""
    for name, entry in table.items():
        if isinstance(entry, dict):
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield prefix + name, entry
