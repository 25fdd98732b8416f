"""Launch profiles: TOML files that say how a server is started. Saving keeps the operator's comments."""

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from tui.errors import SpecdeckError
from tui.facts import Json
from tui.files import write_atomically
from tui.frozen import frozen
from tui.patterns import lazy

KnobValue = Json  # bool, int, float, str, a list of those, or a table (which goes to the command line as JSON)

_TOP = ("name", "description", "server", "env", "knobs")
_SERVER = ("command", "cwd", "sglang-version")
_KNOB_NAME = lazy(r"[A-Za-z0-9][A-Za-z0-9-]*")
_ENV_NAME = lazy(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST_BYTES = 1 << 20


class ProfileError(SpecdeckError):
    """A profile that cannot be used: which file, which key, what to do."""


@frozen(kw_only=False)
class Profile:
    """How one server is started. `knobs` are flag names without dashes; `text` is the TOML with its comments.

    `path` None: it was not saved yet.
    """

    name: str
    command: tuple[str, ...]
    description: str = ""
    cwd: str | None = None
    sglang_version: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    path: Path | None = None
    text: str = field(default="", repr=False)

    @property
    def folder(self) -> Path:
        """Where `cwd` starts: the profile's own folder, or the current one when it has no file."""
        return Path.cwd() if self.path is None else self.path.absolute().parent


@frozen(kw_only=False)
class ListedProfile:
    """A profile file that was found. `profile` None: it cannot be used, for the reason in `problem`."""

    path: Path
    profile: Profile | None
    problem: str | None = None

    @property
    def name(self) -> str:
        return self.path.stem if self.profile is None else self.profile.name


def load(path: Path) -> Profile:
    """The profile of a TOML file. Raises ProfileError."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ProfileError(f"{path}: larger than 1 MiB, so it is not a profile.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ProfileError(f"{path}: there is no such profile.") from None
    except UnicodeDecodeError:
        raise ProfileError(f"{path}: not UTF-8 text.") from None
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror}.") from error
    return parse(text, path)


def parse(text: str, path: Path | None = None) -> Profile:
    """The profile of TOML text; `path` is where it is, or will be, saved. Raises ProfileError."""
    where = _Where(str(path) if path else "profile")
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ProfileError(f"{where.file}: not valid TOML: {error}.") from error
    where.only(data, _TOP, "")
    server = where.table(data, "server")
    where.only(server, _SERVER, "server.")
    name = where.string(data, "name") or (path.stem if path else "")
    if not name.strip():
        raise ProfileError(f"{where.file}: name: give the profile a name.")
    return Profile(
        name=name,
        description=where.string(data, "description") or "",
        command=where.command(server),
        cwd=where.string(server, "cwd", "server."),
        sglang_version=where.string(server, "sglang-version", "server."),
        env=where.env(where.table(data, "env")),
        knobs=where.knobs(where.table(data, "knobs")),
        path=path,
        text=text,
    )


def set_knobs(profile: Profile, knobs: Mapping[str, KnobValue]) -> Profile:
    """The profile with these knobs changed, comments kept; a value of None takes a knob out. Raises ProfileError."""
    return edit(profile, knobs=knobs)


def edit(
    profile: Profile,
    *,
    knobs: Mapping[str, KnobValue] | None = None,
    env: Mapping[str, str | None] | None = None,
    command: Sequence[str] | None = None,
) -> Profile:
    """The profile with knobs and variables changed (None takes one out), or another command, comments kept.

    Raises ProfileError. A profile is what its text says, so this, not `dataclasses.replace`, is how it changes.
    """
    import tomlkit

    document = tomlkit.parse(profile.text)
    if command is not None and tuple(command) != profile.command:
        document["server"]["command"] = list(command)
    for title, old, new in (("knobs", profile.knobs, knobs or {}), ("env", profile.env, env or {})):
        if new and title not in document:
            document[title] = tomlkit.table()
        table = document.get(title, {})
        name_in = knob_name if title == "knobs" else str
        spelled = {name_in(key): key for key in table}
        for given, value in new.items():
            name = name_in(given)
            key = spelled.get(name, name)
            if value is None:
                table.pop(key, None)
            elif not _same(old.get(name), value):
                table[key] = value
    return parse(tomlkit.dumps(document), profile.path)


def rename(profile: Profile, name: str, path: Path | None = None) -> Profile:
    """The profile under another name, for save-as; relative paths of it then start at the new folder."""
    import tomlkit

    document = tomlkit.parse(profile.text)
    document["name"] = name
    return replace(parse(tomlkit.dumps(document), path or profile.path), path=path)


def save(profile: Profile, path: Path | None = None) -> Path:
    """Write the profile as a whole, where it came from or to `path`. Raises ProfileError and StoreError."""
    target = path or profile.path
    if target is None:
        raise ProfileError(f"Profile {profile.name!r} has no file yet: say where to save it.")
    target = target.resolve()  # a link stays a link to the file that is replaced
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProfileError(f"{target.parent}: cannot be made: {error.strerror}.") from error
    write_atomically(target, profile.text)
    return target


def find(name: str) -> Profile:
    """A profile by file or by name, from the first of `folders()` that has it. Raises ProfileError."""
    path = Path(name).expanduser()
    if path.suffix == ".toml" or "/" in name:
        return load(path)
    listed = available()
    files = [item.path for item in listed if item.name == name] or [path for path in _files() if path.stem == name]
    if files:
        return load(files[0])
    known = sorted(item.name for item in listed)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else f"known are {', '.join(known) or 'none'}."
    raise ProfileError(f"No profile {name!r} in {', '.join(map(str, folders()))}: {hint}")


def available() -> list[ListedProfile]:
    """Every profile in `folders()`, those that cannot be used too; of two with one name the first counts."""
    names: set[str] = set()
    listed = []
    for path in _files():
        try:
            item = ListedProfile(path, load(path))
        except ProfileError as error:
            item = ListedProfile(path, None, str(error))
        if item.name not in names:
            names.add(item.name)
            listed.append(item)
    return listed


def folders() -> list[Path]:
    """Where profiles are looked for: ./profiles, the user's own, and the examples that come with specdeck."""
    package = Path(__file__).resolve().parent.parent
    examples = package / "profiles"
    return [Path("profiles"), user_folder(), examples if examples.is_dir() else package.parent / "profiles"]


def user_folder() -> Path:
    """The user's own profiles, in the XDG configuration folder."""
    import platformdirs

    return platformdirs.user_config_path("specdeck") / "profiles"


def file_name(name: str) -> str:
    """The file that a profile of this name is saved in: what is no letter, digit, dot or dash becomes a dash."""
    return (re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "profile")[:100] + ".toml"


def knob_name(name: str) -> str:
    """A flag's name as profiles spell it: `--mem_fraction_static` is `mem-fraction-static`."""
    return name.lstrip("-").replace("_", "-")


def _files() -> Iterator[Path]:
    seen: set[Path] = set()
    for folder in folders():
        for path in sorted(folder.glob("*.toml")):
            if path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


@frozen(kw_only=False)
class _Where:
    """Checks values and names the file and key of what is wrong."""

    file: str

    def fail(self, key: str, what: str) -> ProfileError:
        return ProfileError(f"{self.file}: {key}: {what}.")

    def only(self, data: Mapping[str, Json], known: tuple[str, ...], prefix: str) -> None:
        for key in data:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
                raise self.fail(f"{prefix}{key}", f"a profile has no such key; {hint}".rstrip("."))

    def table(self, data: Mapping[str, Json], key: str) -> Mapping[str, Json]:
        value = data.get(key, {})
        if not isinstance(value, dict):
            raise self.fail(key, f"must be a table, [{key}]")
        return value

    def string(self, data: Mapping[str, Json], key: str, prefix: str = "") -> str | None:
        value = data.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or "\0" in value:
            raise self.fail(f"{prefix}{key}", f"must be text in quotes, not {value!r}")
        return value

    def command(self, server: Mapping[str, Json]) -> tuple[str, ...]:
        words = server.get("command")
        if (
            not isinstance(words, list)
            or not words
            or not all(isinstance(w, str) and w and "\0" not in w for w in words)
        ):
            raise self.fail(
                "server.command", 'must be a list of words such as ["python3", "-m", "sglang.launch_server"]'
            )
        return tuple(words)

    def env(self, table: Mapping[str, Json]) -> dict[str, str]:
        found = {}
        for name, value in table.items():
            if not _ENV_NAME.fullmatch(name):
                raise self.fail(f"env.{name}", "is not a name that an environment variable can have")
            if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
                raise self.fail(f"env.{name}", f'must be text in quotes such as "1", not {_shown(value)}')
            found[name] = str(value)
        return found

    def knobs(self, table: Mapping[str, Json]) -> dict[str, KnobValue]:
        found: dict[str, KnobValue] = {}
        for key, value in table.items():
            name = knob_name(key)
            if not _KNOB_NAME.fullmatch(name):
                raise self.fail(
                    f"knobs.{key}", "is not a flag name; write it without dashes in front, as mem-fraction-static"
                )
            if name in found:
                raise self.fail(f"knobs.{key}", f"stands twice, as {name} in two spellings")
            if not _is_knob_value(value):
                raise self.fail(
                    f"knobs.{key}", f"must be text, a number, true, false, a list or a table, not {_shown(value)}"
                )
            found[name] = value
        if "port" in found and not _is_port(found["port"]):
            raise self.fail("knobs.port", f"must be a number from 1 to 65535, not {_shown(found['port'])}")
        return found


def _same(old: KnobValue, new: KnobValue) -> bool:
    return type(old) is type(new) and bool(old == new)


def _is_knob_value(value: Json, depth: int = 0) -> bool:
    if isinstance(value, dict):
        return depth < 20 and all(isinstance(key, str) and _is_knob_value(v, depth + 1) for key, v in value.items())
    if isinstance(value, list):
        return depth < 20 and all(_is_knob_value(v, depth + 1) for v in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool | int) or (isinstance(value, str) and "\0" not in value)


def _is_port(value: KnobValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535


def _shown(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
