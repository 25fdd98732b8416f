"""SGLang servers that run on this machine, whoever started them."""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tui.facts import ProcessId
from tui.procid import ProcessStat, alive, command_line, identity, process_table
from tui.runs.store import Run, RunStore
from tui.server import ports
from tui.server.commandline import Address, address_of, flag_value, mask_argv
from tui.server.configfile import effective_words
from tui.server.importer import server_words
from tui.server.signals import server_tree
from tui.sources.proctree import environ_value

# How a rehearsed server is known: by its command line and, whatever its title, by its environment.
_REHEARSAL_MODULE, _REHEARSAL_VARIABLE = "tui.rehearsal.server", "SPECDECK_REHEARSAL"
_CONTAINER_CLIENTS = frozenset(("docker", "podman", "nerdctl"))


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server's main process. `command` is masked, () when a title hides it; `log` is the file its output goes to.

    `device` is what its flags say. `run` is the run of it that some specdeck has launched or adopted. `listening`:
    whether its port is bound yet; None when it cannot be told. `ranks` counts its schedulers. `rehearsal`: nothing of
    it is real.
    """

    process: ProcessId
    title: str
    command: tuple[str, ...]
    host: str
    port: int
    url: str
    ranks: int
    device: str | None = None
    listening: bool | None = None
    log: Path | None = None
    run: Run | None = None
    rehearsal: bool = False


def find_servers(store: RunStore | None = None) -> list[FoundServer]:
    """Every SGLang server whose processes can be seen, oldest first."""
    table = process_table()
    lines = {pid: command_line(pid) for pid, each in table.items() if not each.dead}
    mains = _mains(table, lines)
    runs = [] if store is None else store.active()
    found = [_describe(table[pid], lines, runs) for pid in mains]
    return sorted(found, key=lambda server: server.process.start_ticks)


def shown(servers: Iterable[FoundServer]) -> list[FoundServer]:
    """Without what somebody rehearses elsewhere: only the rehearsals of one's own runs are worth a word."""
    return [server for server in servers if not server.rehearsal or server.run is not None]


def is_main(words: tuple[str, ...]) -> bool:
    """Whether these are the arguments of a server's main process."""
    return bool(words) and os.path.basename(words[0]) not in _CONTAINER_CLIENTS and server_words(words) is not None


def log_of(pid: int) -> Path | None:
    """The regular file that a process's stdout, or else stderr, goes to."""
    for handle in ("1", "2"):
        path = f"/proc/{pid}/fd/{handle}"
        try:
            if stat.S_ISREG(os.stat(path).st_mode):
                return Path(os.readlink(path))
        except OSError:
            continue
    return None


def _mains(table: Mapping[int, ProcessStat], lines: Mapping[int, tuple[str, ...]]) -> list[int]:
    by_command = {pid for pid, words in lines.items() if is_main(words) or _REHEARSAL_MODULE in words}
    # A child that was forked a moment ago still has its parent's whole command line.
    by_command -= {pid for pid in by_command if lines.get(table[pid].parent) == lines[pid]}
    # `sudo sglang serve …` and its child both look like one: the child is.
    wrappers = {table[pid].parent for pid in by_command} & by_command
    mains = by_command - wrappers
    for pid, words in lines.items():
        if not _is_rank(words):
            continue
        ancestors = _ancestors(pid, table)
        if not any(above in mains for above in ancestors):
            # The main process has a title of its own: it is the highest one above the rank that has an SGLang title.
            titled = [above for above in ancestors if lines.get(above, ("",))[0].startswith("sglang::")]
            mains.add(titled[-1] if titled else pid)
    return sorted(mains)


def _describe(main: ProcessStat, lines: Mapping[int, tuple[str, ...]], runs: list[Run]) -> FoundServer:
    process = identity(main)
    words = lines[main.pid]
    hidden = not is_main(words) and _REHEARSAL_MODULE not in words
    settings = _settings(main.pid, words)
    address = _address(settings)
    tree = server_tree(process)
    holders = ports.listeners(address.port)
    return FoundServer(
        process=process,
        title=ports.describe(process),
        command=() if hidden else mask_argv(words),
        host=address.host,
        port=address.port,
        url=address.url,
        ranks=sum(_is_rank(lines.get(each.pid, ())) for each in tree),
        device=flag_value(settings, "device"),
        listening=None if hidden else not set(holders).isdisjoint(tree),
        log=log_of(main.pid),
        run=next((run for run in runs if run.server == process and alive(run.server)), None),
        rehearsal=_REHEARSAL_MODULE in words or environ_value(main.pid, _REHEARSAL_VARIABLE) is not None,
    )


def _settings(pid: int, words: tuple[str, ...]) -> tuple[str, ...]:
    """The flags that count, as far as the file of `--config` can be read."""
    try:
        return effective_words(words, os.readlink(f"/proc/{pid}/cwd"))
    except (OSError, ValueError):
        return words


def _address(words: tuple[str, ...]) -> Address:
    try:
        return address_of(words)
    except ValueError:
        return address_of(())


def _is_rank(words: tuple[str, ...]) -> bool:
    return bool(words) and words[0].startswith("sglang::scheduler")


def _ancestors(pid: int, table: Mapping[int, ProcessStat]) -> list[int]:
    found: list[int] = []
    above = table[pid].parent
    while above in table and above > 1 and above not in found:
        found.append(above)
        above = table[above].parent
    return found
