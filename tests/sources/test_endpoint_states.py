"""The state of an endpoint: who answers there, and whether it may be asked."""

import socket
import threading
from typing import Any

import pytest
from endpoint_answers import NOW, SMALL, Connect, endpoint, kinds
from scripted import Reply, Scripted

from tui.facts import Endpoint
from tui.sources.endpoints import (
    CHECK_S,
    EndpointSource,
)


def test_nothing_listens(connect: Connect, closed_port: int) -> None:
    (fact,) = connect(f"127.0.0.1:{closed_port}").poll(NOW)
    assert fact == Endpoint(
        at=NOW,
        url=f"http://127.0.0.1:{closed_port}",
        state="down",
        detail=f"nothing listens on 127.0.0.1:{closed_port}",
    )


def test_name_that_is_not_known(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    fact = endpoint(connect("http://no-such-host.invalid:30000").poll(NOW))
    assert fact.state == "down"
    assert "no-such-host.invalid" in fact.detail


def test_from_warming_up_to_draining(server: Scripted, connect: Connect) -> None:
    source = connect(server.url)
    states = []
    for second, (status, starting) in enumerate([(503, True), (503, False), (200, True), (503, False), (503, True)]):
        server.replies = {**SMALL, "/ready": (status, b"")}
        facts = source.poll(NOW + second * CHECK_S, starting=starting)
        states.append(endpoint(facts).state)
        assert (len(facts) > 1) == (status == 200)
        assert endpoint(facts).detail.isprintable()
    assert states == ["starting", "starting", "ready", "draining", "starting"]


@pytest.mark.parametrize("status", [401, 403])
def test_key_is_wanted(server: Scripted, connect: Connect, status: int) -> None:
    """/ready and /metrics are open, so the throughput is told all the same."""
    page = b'sglang:gen_throughput{tp_rank="0"} 12.5\n'
    server.replies = {
        **SMALL,
        "/v1/loads": (status, {"error": "Unauthorized"}),
        "/server_info": (status, b""),
        "/metrics": (200, page),
    }
    facts = connect(server.url).poll(NOW)
    assert kinds(facts) == ["Endpoint", "Metrics"]
    assert endpoint(facts).state == "unauthorized"
    assert "asks for an API key" in endpoint(facts).detail

    refused = endpoint(connect(server.url, api_key="wrong").poll(NOW))
    assert refused.state == "unauthorized"
    assert "refuses this API key" in refused.detail
    assert "wrong" not in refused.detail


def test_key_is_sent(server: Scripted, connect: Connect) -> None:
    server.replies = dict(SMALL)
    assert endpoint(connect(server.url, api_key="s3cret").poll(NOW)).state == "ready"
    assert set(server.keys) == {"Bearer s3cret"}


@pytest.mark.parametrize("key", ["a\r\nHost: elsewhere", "schlüssel", "tab\t"])
def test_key_that_is_no_header(key: str) -> None:
    with pytest.raises(ValueError, match="HTTP header") as caught:
        EndpointSource("http://127.0.0.1:1", api_key=key)
    assert key not in str(caught.value)


def test_redirects_are_not_followed_and_get_no_key(server: Scripted, connect: Connect) -> None:
    with Scripted() as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.replies = {"/ready": lambda handler: handler.answer(307, b"", Location=f"{other.url}/ready")}
        fact = endpoint(connect(server.url, api_key="s3cret").poll(NOW))
        other.shutdown()
        thread.join()
        assert other.asked == []
    assert fact.state == "foreign"
    assert "not followed" in fact.detail


HTML = b"<!doctype html><title>Hello</title>"


@pytest.mark.parametrize(
    "replies",
    [
        {},
        dict.fromkeys(("/ready", "/model_info", "/server_info", "/v1/loads", "/metrics"), (200, HTML)),
        {"/ready": (200, b"OK")},
        {"/ready": (200, b""), "/server_info": (200, {"name": "other", "version": "1"})},
        {"/ready": (200, b""), "/v1/loads": (200, {"cpu": [0.5]})},
        {"/model_info": (200, {"id": "other"})},
        {"/ready": (200, b""), "/metrics": (200, b"vllm:num_requests_running 0\n")},
    ],
)
def test_another_program_answers(server: Scripted, connect: Connect, replies: dict[str, Reply]) -> None:
    server.replies = replies
    facts = connect(server.url).poll(NOW)
    assert kinds(facts) == ["Endpoint"]
    assert endpoint(facts).state == "foreign"
    assert "not SGLang" in endpoint(facts).detail


def test_another_program_in_place_of_the_server(server: Scripted, connect: Connect) -> None:
    source = connect(server.url)
    server.replies = dict(SMALL)
    assert endpoint(source.poll(NOW)).state == "ready"
    server.replies = {}
    assert endpoint(source.poll(NOW + CHECK_S)).state == "foreign"


@pytest.mark.parametrize(
    "body", [b'{"loads": [', b"[" * 100_000, b'{"loads": \xff\xfe}', b'{"loads": [{}]} trailing', b"[1, 2"]
)
@pytest.mark.parametrize("path", ["/v1/loads", "/server_info"])
def test_broken_json(server: Scripted, connect: Connect, path: str, body: bytes) -> None:
    server.replies = {**SMALL, path: (200, body)}
    fact = endpoint(connect(server.url).poll(NOW))
    assert fact.state == "garbage"
    assert fact.detail.endswith(f"answers {path} with broken JSON")


def test_form_that_is_not_known_is_told(server: Scripted, connect: Connect) -> None:
    source = connect(server.url)
    server.replies = dict(SMALL)
    source.poll(NOW)
    server.replies = {**SMALL, "/v1/loads": (200, {"ranks": []})}
    facts = source.poll(NOW + 1)
    assert kinds(facts) == ["Endpoint"]
    assert (endpoint(facts).state, endpoint(facts).detail) == ("ready", "/v1/loads answers in a form that is not known")


@pytest.mark.parametrize(("status", "state"), [(500, "garbage"), (418, "garbage"), (502, "down"), (504, "down")])
def test_readiness_that_fails(server: Scripted, connect: Connect, status: int, state: str) -> None:
    server.replies = {**SMALL, "/ready": (status, b"Internal Server Error")}
    fact = endpoint(connect(server.url).poll(NOW))
    assert fact.state == state
    assert str(status) in fact.detail
