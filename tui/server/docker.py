"""`docker run` read for what it does to the command inside: environment, ports, folders, GPUs."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from tui.frozen import frozen
from tui.patterns import lazy

# Options of `docker run` that take no value; any other long option without "=" takes one.
_BARE = frozenset(
    ("--rm", "-d", "--detach", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "-id", "-td",
     "--init", "--privileged", "-P", "--publish-all", "--read-only", "--no-healthcheck", "--oom-kill-disable",
     "-q", "--quiet", "--sig-proxy")
)  # fmt: skip
_SHORT_WITH_VALUE = "eahcpuvwlm"
_DEVICES = lazy(r"\"?device=([0-9,]+)\"?")


@frozen(kw_only=False)
class Container:
    """A `docker run`: the words that run inside, and what the options say. `gpus`: device numbers, None for all."""

    image: str
    words: tuple[str, ...]
    env: Mapping[str, str]
    ports: tuple[tuple[str, str], ...]
    volumes: tuple[tuple[str, str], ...]
    gpus: str | None
    folder: str | None
    left_out: tuple[str, ...]

    def host_path(self, path: str) -> str | None:
        """Where a path of the container lies on this machine; None when it is not on a mounted folder."""
        for outside, inside in sorted(self.volumes, key=lambda volume: len(volume[1]), reverse=True):
            if PurePosixPath(path).is_relative_to(inside) and outside.startswith(("/", ".", "~", "$")):
                rest = PurePosixPath(path).relative_to(inside)
                return outside if str(rest) == "." else f"{outside.rstrip('/')}/{rest}"
        return None


def read_container(words: list[str]) -> Container | None:
    """What `docker run …` or `docker exec …` (also podman) runs; None when it runs nothing."""
    rest = words[1:]
    while rest and rest[0] not in ("run", "exec"):
        rest = rest[1:]
    if not rest:
        return None
    options: list[tuple[str, str]] = []
    rest = rest[1:]
    while rest and rest[0].startswith("-"):
        name, value, rest = _option(rest)
        options.append((name, value))
    if not rest:
        return None
    entry = [value for name, value in options if name == "--entrypoint" and value]
    return Container(
        image=rest[0],
        words=(*entry, *rest[1:]),
        env=dict(_pair(value, "=") for name, value in options if name in ("-e", "--env") and "=" in value),
        ports=tuple(_port(value) for name, value in options if name in ("-p", "--publish") and ":" in value),
        volumes=tuple(volume for name, value in options if (volume := _volume(name, value)) is not None),
        gpus=_gpus(options),
        folder=next((value for name, value in options if name in ("-w", "--workdir")), None),
        left_out=tuple(_left_out(options)),
    )


def _option(words: list[str]) -> tuple[str, str, list[str]]:
    """The first option's name and value ("" for none), and the words after it."""
    word = words[0]
    if word in _BARE:
        return word, "", words[1:]
    if word.startswith("--") and "=" in word:
        name, value = _pair(word, "=")
        return name, value, words[1:]
    if not word.startswith("--") and len(word) > 2 and word[1] in _SHORT_WITH_VALUE:
        return word[:2], word[2:].removeprefix("="), words[1:]
    return word, words[1] if len(words) > 1 else "", words[2:]


def _volume(name: str, value: str) -> tuple[str, str] | None:
    if name in ("-v", "--volume"):
        parts = value.split(":")
        return (parts[0], parts[1]) if len(parts) >= 2 else None
    if name == "--mount":
        fields = dict(_pair(item, "=") for item in value.split(","))
        source, target = fields.get("source", fields.get("src")), fields.get("target", fields.get("dst"))
        return (source, target) if source and target else None
    return None


def _port(value: str) -> tuple[str, str]:
    parts = value.removesuffix("/tcp").split(":")
    return parts[-2], parts[-1]


def _gpus(options: list[tuple[str, str]]) -> str | None:
    for name, value in options:
        match = _DEVICES.search(value) if name == "--gpus" else None
        if match is not None:
            return match[1]
    return None


def _left_out(options: list[tuple[str, str]]) -> list[str]:
    used = ("-e", "--env", "-v", "--volume", "--mount", "-w", "--workdir", "--entrypoint")
    kept = [
        (name, value) for name, value in options if name not in used or (name in ("-e", "--env") and "=" not in value)
    ]
    return [f"{name} {value}".strip() for name, value in kept]


def _pair(text: str, sign: str) -> tuple[str, str]:
    name, _, value = text.partition(sign)
    return name, value
