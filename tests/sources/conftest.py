"""A server that does as it is told, and endpoint sources that ask it."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from endpoint_answers import Connect
from scripted import Scripted, at_work

from tui.sources.endpoints import EndpointSource


@pytest.fixture
def server() -> Iterator[Scripted]:
    with at_work(Scripted()) as scripted:
        yield scripted


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[EndpointSource] = []

    def go(url: str, **more: Any) -> EndpointSource:
        opened.append(EndpointSource(url, **{"timeout_s": 5.0, **more}))
        return opened[-1]

    yield go
    for source in opened:
        source.close()


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
