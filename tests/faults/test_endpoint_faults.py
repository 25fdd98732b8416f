"""A server that misbehaves on its port: the screen goes on, says so, and believes it again when it is well."""

import functools
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tui.feed.looking
from tui.feed.live import LiveFeed
from tui.feed.place import RehearsalPlace
from tui.feed.targets import of_url
from tui.rehearsal.machine import Settings
from tui.runs.store import RunStore
from tui.sources import endpoint_http
from tui.sources.endpoints import EndpointSource

TIMEOUT_S = 0.3


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.feed.looking, "EndpointSource", functools.partial(EndpointSource, timeout_s=TIMEOUT_S))
    monkeypatch.setattr(endpoint_http, "LARGEST_ANSWER", 1 << 20)
    monkeypatch.setattr("tui.sources.endpoints.BACK_OFF_S", (0.2,))
    monkeypatch.setattr("tui.sources.endpoints.READY_S", 0.2)


@pytest.fixture
def feed(tmp_path: Path) -> Callable[[str], LiveFeed]:
    return lambda url: LiveFeed(RehearsalPlace(Settings()), RunStore(tmp_path), of_url(url))


def hangs(handler) -> None:
    handler.server.over.wait()
    handler.close_connection = True


def drips(handler) -> None:
    """A byte at a time, for longer than anybody waits."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def endless(handler) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b" " * 65536)


def garbage(handler) -> None:
    handler.answer(200, b"\xff\xfe{]")


def refuses(handler) -> None:
    handler.answer(401, {"error": "Unauthorized"})


def fails(handler) -> None:
    handler.answer(500, b"Internal Server Error")


def another_program(handler) -> None:
    handler.answer(200, b"<html>Welcome to nginx</html>")


@pytest.mark.parametrize(
    ("fault", "states"),
    [
        (hangs, {"slow"}),
        (drips, {"slow"}),
        (endless, {"garbage"}),
        (garbage, {"garbage", "foreign"}),
        (refuses, {"unauthorized"}),
        (fails, {"garbage"}),
        (another_program, {"foreign", "garbage"}),
    ],
)
async def test_a_fault_is_told_while_the_rest_goes_on_and_is_over_when_it_is_over(
    server, feed, faults, fault, states: set[str]
) -> None:
    async with faults.running(feed(server.url)) as until:
        well = await until(lambda s: s.endpoint == "ready" and s.running == 3)
        server.reply = fault
        ill = await until(lambda s: s.endpoint in states)
        assert ill.endpoint_detail
        assert ill.endpoint_detail.isprintable()
        # The other sources did not wait for it.
        later = await until(lambda s: s.at > ill.at + 1.0)
        assert later.ages.gpu_s is not None
        assert later.ages.gpu_s < 2.5
        assert len(later.gpus) == len(well.gpus) == 8
        server.reply = faults.healthy
        await until(lambda s: s.endpoint == "ready" and s.at > later.at and s.running == 3)


@pytest.fixture
def speaks_tls_badly() -> Iterator[str]:
    """Answers every greeting with a TLS alert."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(65536)
                peer.sendall(b"\x15\x03\x03\x00\x02\x02\x28")

    threading.Thread(target=serve, daemon=True).start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_tls_that_fails(speaks_tls_badly: str, feed, faults, scheme: str) -> None:
    async with faults.running(feed(f"{scheme}://{speaks_tls_badly}")) as until:
        told = await until(lambda s: s.endpoint not in ("", "ready") and len(s.gpus) == 8)
        assert told.endpoint_detail.isprintable()
