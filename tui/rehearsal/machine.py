"""The simulated machine, and the command that starts a server on it instead of the real one.

Everything a rehearsal server needs to know travels in one environment variable, SPECDECK_REHEARSAL, as JSON.
"""

import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError
from tui.frozen import frozen
from tui.patterns import lazy
from tui.rehearsal.scenarios import SCENARIOS, Scenario

ENVIRONMENT = "SPECDECK_REHEARSAL"
MODULE = "tui.rehearsal.server"
DEFAULT_VERSION = "0.5.9"

_SPEC = lazy(r"(?:(?P<count>\d{1,3})\s*x\s*)?(?P<size>\d{1,9}(?:\.\d{1,3})?)\s*(?P<unit>MiB|GiB)", re.IGNORECASE)
_MOST_GPUS = 64


class RehearsalError(SpecdeckError):
    """A rehearsal that cannot be set up as asked."""


@frozen(kw_only=False)
class Machine:
    """`gpus` equal GPUs of `mib` MiB each, as nvidia-smi would call their memory.total.

    `reserved_gib`: what the driver keeps of every GPU and never calls free. `idle_gib`: what it uses with no process.
    """

    gpus: int = 8
    mib: int = 97887
    name: str = "RTX PRO 6000 Blackwell (rehearsal)"
    reserved_gib: float = 0.6
    idle_gib: float = 0.004

    @property
    def total_gib(self) -> float:
        return self.mib / 1024


def parse_machine(spec: str) -> Machine:
    """A machine such as "8x97887MiB", "4 x 80 GiB" or "24564MiB". Raises RehearsalError."""
    found = _SPEC.fullmatch(spec.strip())
    if found is None:
        raise RehearsalError(f"{spec!r} is no machine: write it as 8x97887MiB (GPUs x memory of each).")
    count = int(found["count"] or 1)
    mib = round(float(found["size"]) * (1024 if found["unit"].lower() == "gib" else 1))
    if not 1 <= count <= _MOST_GPUS or mib < 1024:
        raise RehearsalError(f"{spec!r}: a rehearsal has 1 to {_MOST_GPUS} GPUs of at least 1024 MiB.")
    default = Machine()
    name = default.name if mib == default.mib else f"{mib // 1024} GiB GPU (rehearsal)"
    return Machine(gpus=count, mib=mib, name=name)


@frozen
class Settings:
    """How a rehearsal runs.

    `speed`: simulated seconds per real second until the server is ready. `serving_speed` the same afterwards; 1 keeps
    counters and the wall clock in agreement. `seed` makes every number repeat. `state_file`: where the GPUs' memory
    stands, None for nowhere. `concurrency`: requests of the built-in traffic at a time, 0 for none, None for the
    scenario's own.
    """

    speed: float = 1.0
    serving_speed: float = 1.0
    seed: int = 1
    sglang_version: str = DEFAULT_VERSION
    machine: Machine = Machine()
    state_file: str | None = None
    scenario: str = "story"
    concurrency: int | None = None

    @property
    def plot(self) -> Scenario:
        """The scenario itself."""
        return SCENARIOS[self.scenario]

    @property
    def traffic(self) -> int:
        """Requests of the built-in traffic at a time."""
        return self.plot.concurrency if self.concurrency is None else self.concurrency

    def to_json(self) -> str:
        """The value of SPECDECK_REHEARSAL."""
        return json.dumps(asdict(self))


def settings_from(environ: Mapping[str, str]) -> Settings:
    """What SPECDECK_REHEARSAL says; defaults for what it leaves out. Raises RehearsalError."""
    text = environ.get(ENVIRONMENT, "") or "{}"
    try:
        data = json.loads(text)
        known = {field.name for field in fields(Settings)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise RehearsalError(
                f"{ENVIRONMENT}: {', '.join(unknown)} is not known; known are {', '.join(sorted(known))}."
            )
        machine = data.pop("machine", None)
        settings = Settings(**data, machine=_machine(machine))
        return check(settings)
    except (TypeError, ValueError, AttributeError) as error:
        raise RehearsalError(f"{ENVIRONMENT} cannot be read: {error}.") from error


def check(settings: Settings) -> Settings:
    """The settings, if they make sense. Raises RehearsalError."""
    if settings.scenario not in SCENARIOS:
        raise RehearsalError(f"No scenario {settings.scenario!r}; known are {', '.join(SCENARIOS)}.")
    for name in ("speed", "serving_speed"):
        value = getattr(settings, name)
        if not 0 < value <= 1e6 or not math.isfinite(value):
            raise RehearsalError(f"{name} must be above 0 and at most 1000000, not {value!r}.")
    if settings.concurrency is not None and not 0 <= settings.concurrency <= 1024:
        raise RehearsalError(f"concurrency must be from 0 to 1024, not {settings.concurrency!r}.")
    return settings


def _machine(value: Any) -> Machine:
    if isinstance(value, str):
        return parse_machine(value)
    return Machine(**value) if value else Machine()


def rehearse(argv: Sequence[str], env: Mapping[str, str], settings: Settings) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command and environment that rehearse a server's command line: same flags, another program.

    `argv` as a profile gives it, such as ("python3", "-m", "sglang.launch_server", "--tp-size", "8") or ("sglang",
    "serve", …). Raises RehearsalError when the settings make no sense.
    """
    check(settings)
    root = str(Path(__file__).resolve().parents[2])
    # -S and -P: only the standard library and this package are looked for, which also starts it faster.
    command = (sys.executable, "-S", "-P", "-m", MODULE, *_flags(argv))
    path = env.get("PYTHONPATH")
    return command, {
        **env,
        "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root,
        ENVIRONMENT: settings.to_json(),
    }


def _flags(argv: Sequence[str]) -> tuple[str, ...]:
    """What stands after the program: after sglang.launch_server, after `sglang serve`, else from the first flag on."""
    for position, word in enumerate(argv):
        if word in ("sglang.launch_server", MODULE):
            return tuple(argv[position + 1 :])
        if word == "serve" and position and os.path.basename(argv[position - 1]) in ("sglang", "sglang.cli"):
            return tuple(argv[position + 1 :])
    first = next((i for i, word in enumerate(argv) if word.startswith("--")), len(argv))
    return tuple(argv[first:])
