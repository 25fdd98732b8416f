"""What `attach` is asked to watch."""

import argparse
import os
from dataclasses import replace

from tui.errors import SpecdeckError
from tui.feed import targets
from tui.feed.targets import Target
from tui.runs.store import RunStore
from tui.server.adopt import adopt
from tui.server.discover import find_servers, shown


def target_of(options: argparse.Namespace, store: RunStore) -> Target:
    """What the options name; without any, the one server that runs here. Raises SpecdeckError."""
    key = _key(options.api_key_env)
    if options.pid is not None:
        target = targets.of_pid(options.pid)
        if options.adopt and target.run is None and target.server is not None:
            target = targets.of_run(adopt(target.server, store))
        target = _told(target, options)
    elif options.log is not None:
        target = targets.of_log(options.log)
        if options.url:
            target = replace(target, url=targets.of_url(options.url).url)
    elif options.url is not None:
        target = targets.of_url(options.url)
    else:
        target = _the_one(store)
    return target if key is None else replace(target, api_key=key)


def _told(target: Target, options: argparse.Namespace) -> Target:
    """A container's output goes to no file that is seen from outside, and its port may have another number there."""
    if options.log is not None:
        target = replace(target, log=options.log)
    return replace(target, url=targets.of_url(options.url).url) if options.url else target


def _the_one(store: RunStore) -> Target:
    found = shown(find_servers(store))
    if not found:
        raise SpecdeckError("No SGLang server is seen on this machine: name one with --url or --log.")
    if len(found) > 1:
        lines = "".join(f"\n  --pid {server.process.pid}  {server.url}  {server.title}" for server in found)
        raise SpecdeckError(f"Several servers run here; name one:{lines}")
    return targets.of_found(found[0])


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise SpecdeckError(f"The environment variable {variable} is not set, so there is no API key to send.")
    return key
