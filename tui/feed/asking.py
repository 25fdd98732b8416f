"""What the screen asks of the disk and of the process table: blocking, so for a worker thread."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError
from tui.port import SeenServer
from tui.runs.store import RunStore
from tui.server.discover import find_servers, shown
from tui.server.profiles import Profile, ProfileError, file_name, load, rename, save, set_knobs, user_folder


def save_as(profile: Profile, name: str, knobs: Mapping[str, Any]) -> Path:
    """Write `profile` with these knobs, under its own name to its own file, comments kept; else to a new file.

    Of its own file what stands there now is changed: the operator may have edited it since the launch. A profile that
    has no file of the user's own goes to the user's folder. Raises SpecdeckError.
    """
    own = name == profile.name and profile.path is not None and profile.path.exists()
    if own and profile.path is not None:
        return save(set_knobs(load(profile.path), knobs))
    path = user_folder() / file_name(name)
    if path.exists():
        raise ProfileError(f"{path} is there already: choose another name.")
    return save(rename(set_knobs(profile, knobs), name, path))


def seen_servers(store: RunStore) -> tuple[SeenServer, ...]:
    """Every server that can be seen, oldest first; of the rehearsed ones those of this store."""
    try:
        found = shown(find_servers(store))
    except (OSError, SpecdeckError):
        return ()
    return tuple(
        SeenServer(
            pid=server.process.pid,
            title=server.title,
            url=server.url,
            ranks=server.ranks,
            command=shlex.join(server.command),
            log=str(server.log or ""),
            ours=server.run.name if server.run is not None else "",
            rehearsal=server.rehearsal,
        )
        for server in found
    )
