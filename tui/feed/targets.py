"""What can be watched: a run of ours, somebody else's log, URL or process."""

import time
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from tui.errors import SpecdeckError
from tui.facts import Attached, Fact, ProcessId
from tui.frozen import frozen
from tui.procid import process_id
from tui.runs.store import Run, RunStore
from tui.server.commandline import command_line, flag_value
from tui.server.control import profile_of
from tui.server.profiles import ProfileError

# Looking for servers and reading their command lines costs 15 ms to import, and `status` of a run needs neither.
if TYPE_CHECKING:
    from tui.server.discover import FoundServer


class AttachError(SpecdeckError):
    """There is nothing to watch there."""


@frozen(kw_only=False)
class Target:
    """One thing to watch. `facts` begin its stream; `control` is the keeper's journal, `run` its folder if it has one.

    `api_key` is sent to `url` only. `host`: the server computes on the CPU, so memory is the host's.
    """

    title: str
    facts: tuple[Fact, ...] = ()
    log: Path | None = None
    url: str | None = None
    server: ProcessId | None = None
    control: Path | None = None
    run: Run | None = None
    host: bool = False
    api_key: str | None = field(default=None, repr=False)


def nothing() -> Target:
    """No server: only the machine is watched."""
    return Target(title="")


def of_run(run: Run) -> Target:
    """A run, alive or ended."""
    log = run.log
    if run.adopted and run.server is not None and not log.exists():
        from tui.server.discover import log_of

        log = log_of(run.server.pid) or log
    return Target(
        title=run.profile or run.name,
        log=log,
        url=run.url,
        server=run.server,
        control=run.control,
        run=run,
        host=run.knobs.get("device") == "cpu",
        api_key=_api_key(run),
    )


def of_log(path: Path) -> Target:
    """A log file, there already or not yet."""
    path = path.expanduser()
    if path.is_dir():
        raise AttachError(f"{path} is a folder: name the log file in it.")
    return Target(title=str(path), log=path, facts=(Attached(at=time.time(), target=path.name),))


def of_url(url: str, api_key: str | None = None) -> Target:
    """A server's address, such as http://127.0.0.1:30000."""
    if "://" not in url:
        url = f"http://{url}"
    url = url.rstrip("/")
    return Target(title=url, url=url, api_key=api_key, facts=(Attached(at=time.time(), target=url, url=url),))


def of_pid(pid: int, store: RunStore | None = None) -> Target:
    """A server's process, as the run of it that `store` has. Raises AttachError."""
    from tui.server.adopt import AdoptError, adopted_profile
    from tui.server.discover import find_servers, log_of

    process = process_id(pid)
    if process is None:
        raise AttachError(f"There is no process {pid}.")
    found = next((server for server in find_servers(store) if server.process == process), None)
    if found is not None:
        return of_found(found)
    try:
        profile = adopted_profile(process)
    except AdoptError as error:
        raise AttachError(f"{error} `specdeck attach --log` and --url watch it without its process.") from error
    command = command_line(profile)
    return Target(
        title=f"process {pid}",
        facts=(Attached(at=time.time(), target=f"process {pid}", url=command.url),),
        log=log_of(pid),
        url=command.url,
        server=process,
        host=flag_value(command.words, "device") == "cpu",
        api_key=command.api_key,
    )


def of_found(found: "FoundServer") -> Target:
    """A server that `find_servers` saw."""
    if found.run is not None:
        return of_run(found.run)
    return Target(
        title=found.title,
        facts=(Attached(at=time.time(), target=f"process {found.process.pid}", url=found.url),),
        log=found.log,
        url=found.url,
        server=found.process,
        host=found.device == "cpu",
        api_key=_key_of_process(found),
    )


def _key_of_process(found: "FoundServer") -> str | None:
    from tui.server.adopt import adopted_profile

    try:
        return command_line(adopted_profile(found.process)).api_key
    except SpecdeckError:
        return None


def _api_key(run: Run) -> str | None:
    try:
        return command_line(profile_of(run)).api_key
    except (ProfileError, SpecdeckError):
        return None
