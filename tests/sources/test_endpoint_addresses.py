"""Addresses of an endpoint as operators write them."""

import pytest
from endpoint_answers import NOW, SMALL, Connect, endpoint
from scripted import Scripted

from tui.sources.endpoints import (
    EndpointSource,
)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("http://localhost:30000/", "http://localhost:30000"),
        ("http://0.0.0.0:30000", "http://127.0.0.1:30000"),
        ("http://[::]:30000", "http://[::1]:30000"),
        ("http://[fd00::1]:30000", "http://[fd00::1]:30000"),
        ("https://box", "https://box:443"),
        ("http://box/llm/", "http://box:80/llm"),
        ("http://user:hush@box:1", "http://box:1"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    assert EndpointSource(url).url == shown


@pytest.mark.parametrize(
    "url", ["", "ftp://box:1", "http://", "http://box:port", "http://box:99999", "http://b\x1b[0m"]
)
def test_addresses_of_nothing(url: str) -> None:
    with pytest.raises(ValueError, match="not the address of an HTTP server") as caught:
        EndpointSource(url)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("url", ["ftp://user:hush@box:1", "http://user:hush@box:port"])
def test_password_in_an_address_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        EndpointSource(url)
    assert "hush" not in str(caught.value)


def test_path_of_a_proxy_is_kept(server: Scripted, connect: Connect) -> None:
    server.replies = {f"/llm{path}": reply for path, reply in SMALL.items()}
    assert endpoint(connect(f"{server.url}/llm/").poll(NOW)).state == "ready"
