"""Answers that never end or break off, and programs that speak another protocol."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endpoint_answers import NOW, SMALL, Connect, endpoint
from scripted import Handler, Scripted

from tui.sources import endpoint_http


def hang(handler: Handler) -> None:
    handler.server.over.wait()
    handler.close_connection = True


def drip_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b"X-More: yes\r\n")
        handler.wfile.flush()


def drip_body(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b" " * 65536)


def endless_chunks(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")


def broken_off(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.wfile.write(b'{"loads": [')
    handler.close_connection = True


@pytest.mark.parametrize("path", ["/ready", "/v1/loads"])
@pytest.mark.parametrize("reply", [hang, drip_headers, drip_body])
def test_slow_answers_are_given_up(
    server: Scripted, connect: Connect, path: str, reply: Callable[[Handler], None]
) -> None:
    server.replies = {**SMALL, path: reply}
    source = connect(server.url, timeout_s=0.3)
    fact = endpoint(source.poll(NOW))
    assert fact.state == "slow"
    assert fact.detail.endswith(f"did not finish its answer to {path} within 0.3 s")
    server.replies = dict(SMALL)
    assert endpoint(source.poll(NOW + 1)).state == "ready"


@pytest.mark.parametrize("path", ["/ready", "/v1/loads", "/metrics"])
@pytest.mark.parametrize("reply", [endless, endless_chunks])
def test_endless_answers_are_cut(
    server: Scripted,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    reply: Callable[[Handler], None],
) -> None:
    monkeypatch.setattr(endpoint_http, "LARGEST_ANSWER", 1 << 20)
    server.replies = {**SMALL, path: reply}
    fact = endpoint(connect(server.url, timeout_s=60.0).poll(NOW))
    assert fact.state == "garbage"
    assert fact.detail.endswith(f"answers {path} with more than 1 MiB")


def test_answer_that_breaks_off(server: Scripted, connect: Connect) -> None:
    server.replies = {**SMALL, "/v1/loads": broken_off}
    fact = endpoint(connect(server.url).poll(NOW))
    assert fact.state == "garbage"
    assert "broke off" in fact.detail


@pytest.fixture
def raw() -> Iterator[Callable[[bytes], str]]:
    """A program that says something of its own to everybody, then hangs up."""
    listeners: list[socket.socket] = []

    def go(greeting: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(65536)
                    peer.sendall(greeting)

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield go
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize(
    ("greeting", "state"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "foreign"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "foreign"),  # TLS asked in clear
        (b"HTTP/1.1 " + b"9" * 100_000, "foreign"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000, "foreign"),
        (b"", "down"),
    ],
)
def test_programs_that_do_not_speak_http(
    raw: Callable[[bytes], str], connect: Connect, greeting: bytes, state: str
) -> None:
    fact = endpoint(connect(raw(greeting)).poll(NOW))
    assert fact.state == state
    assert fact.detail.isprintable()
    assert len(fact.detail) < 120


def test_https_where_there_is_none(server: Scripted, connect: Connect) -> None:
    fact = endpoint(connect(server.url.replace("http:", "https:")).poll(NOW))
    assert fact.state == "foreign"
    assert "TLS" in fact.detail


def test_certificate_that_nobody_vouches_for(server: Scripted, connect: Connect, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    fact = endpoint(connect(server.url.replace("http:", "https:")).poll(NOW))
    assert fact.state == "foreign"
    assert "is not trusted: self" in fact.detail
