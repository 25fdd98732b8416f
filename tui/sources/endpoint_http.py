"""One bounded GET at a time to one server: no redirect is followed, no answer is endless, no wait is without limit."""

import contextlib
import errno
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

from tui.frozen import frozen

LARGEST_ANSWER = 4 << 20  # bytes; /server_info is 55 kB, /metrics of many ranks some hundred kB
_CHUNK = 64 << 10
_IN_PATHS = "/%:@!$&'()*+,;=~"  # what stands for itself in a path
_PLAIN_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # a server's bind address is no address to call


@frozen(kw_only=False)
class Answer:
    """What came back. `latency_s` counts from the first byte sent to the last one read."""

    status: int
    body: bytes
    latency_s: float


class NoAnswerError(Exception):
    """There is no whole answer. `state` of `tui.facts.Endpoint`: down, slow, foreign or garbage; str() a sentence."""

    def __init__(self, state: str, sentence: str) -> None:
        super().__init__(sentence)
        self.state = state


class Http:
    """Keeps one connection open between polls. For one thread at a time.

    `url` may be "host:port"; user and password in it are dropped. Raises ValueError, with a sentence, when it is no
    address of an HTTP server or the key cannot stand in a header.
    """

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 2.0) -> None:
        self._tls, self._host, self._port, self._prefix = _split(url)
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.address = f"{shown}:{self._port}"
        self.url = f"{'https' if self._tls else 'http'}://{self.address}{self._prefix}"
        self._timeout_s = timeout_s
        # An answer may come packed by a proxy; unpacking could make it endless again, so none is asked for.
        self._headers = {"Accept": "application/json, text/plain", "Accept-Encoding": "identity"}
        if api_key:
            if not api_key.isascii() or not api_key.isprintable():
                raise ValueError("the API key has characters that cannot stand in an HTTP header")
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str) -> Answer:
        """GET `path` within the time limit. Raises NoAnswerError."""
        reused = self._connection is not None and self._connection.sock is not None
        try:
            return self._get(path)
        except NoAnswerError:
            self.close()
            raise
        except (ConnectionError, http.client.HTTPException, OSError) as error:
            self.close()
            # Servers close connections that were idle: that says nothing about the server, a new one does.
            if reused and isinstance(error, ConnectionError):
                return self.get(path)
            raise self._explain(error) from error

    def close(self) -> None:
        """Closes the connection; the next `get` opens one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _get(self, path: str) -> Answer:
        started = time.monotonic()
        connection = self._open()
        with _deadline(connection.sock, self._timeout_s) as expired:
            try:
                connection.request("GET", self._prefix + path, headers=self._headers)
                with connection.getresponse() as response:
                    body = self._read(response, path)
            except (OSError, http.client.HTTPException) as error:
                if expired.is_set() or isinstance(error, TimeoutError):
                    raise self._too_slow(path) from None
                raise
        if expired.is_set():
            raise self._too_slow(path)
        return Answer(status=response.status, body=body, latency_s=time.monotonic() - started)

    def _open(self) -> http.client.HTTPConnection:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
            self._connection = kind(self._host, self._port, timeout=self._timeout_s)
        if self._connection.sock is None:
            try:
                self._connection.connect()
            except TimeoutError:
                sentence = f"{self.address} does not accept connections within {self._timeout_s:g} s"
                raise NoAnswerError("down", sentence) from None
            except (socket.gaierror, UnicodeError):
                raise NoAnswerError("down", f"the name {self._host} is not known to this machine") from None
        return self._connection

    def _read(self, response: http.client.HTTPResponse, path: str) -> bytes:
        body = bytearray()
        while chunk := response.read1(_CHUNK):
            body += chunk
            if len(body) > LARGEST_ANSWER:
                limit = f"{LARGEST_ANSWER >> 20} MiB"
                raise NoAnswerError("garbage", f"{self.address} answers {_bare(path)} with more than {limit}")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return bytes(body)

    def _too_slow(self, path: str) -> NoAnswerError:
        return NoAnswerError(
            "slow", f"{self.address} did not finish its answer to {_bare(path)} within {self._timeout_s:g} s"
        )

    def _explain(self, error: BaseException) -> NoAnswerError:
        who = self.address
        if isinstance(error, ssl.SSLCertVerificationError):
            return NoAnswerError("foreign", f"the certificate of {who} is not trusted: {error.verify_message}")
        if isinstance(error, ssl.SSLError):
            return NoAnswerError("foreign", f"{who} does not speak TLS as asked (https): try http, or check the port")
        if isinstance(error, TimeoutError):
            return NoAnswerError("slow", f"{who} did not answer within {self._timeout_s:g} s")
        if isinstance(error, ConnectionRefusedError):
            return NoAnswerError("down", f"nothing listens on {who}")
        if isinstance(error, http.client.RemoteDisconnected | ConnectionError):
            return NoAnswerError("down", f"{who} closes the connection without an answer")
        if isinstance(error, http.client.IncompleteRead):
            return NoAnswerError("garbage", f"{who} broke off its answer")
        if isinstance(error, http.client.HTTPException):
            return NoAnswerError("foreign", f"{who} does not speak HTTP")
        number = getattr(error, "errno", None)
        reason = errno.errorcode.get(number, "") if isinstance(number, int) else ""
        return NoAnswerError("down", f"{who} cannot be reached{f' ({reason})' if reason else ''}")


@contextlib.contextmanager
def _deadline(sock: Any, seconds: float) -> Iterator[threading.Event]:
    """Ends the connection after so many seconds; the event is then set.

    A socket's own time-out starts anew with every byte, so a server that drips never meets it.
    """
    expired = threading.Event()

    def end() -> None:
        expired.set()
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def _split(url: str) -> tuple[bool, str, int, str]:
    complaint = ValueError(f"not the address of an HTTP server: {_safe(url)!r}; expected http://host:port")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        raise complaint from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise complaint
    tls = parts.scheme == "https"
    host = _PLAIN_HOSTS.get(parts.hostname, parts.hostname)
    return tls, host, port or (443 if tls else 80), quote(parts.path.rstrip("/"), safe=_IN_PATHS)


def _safe(url: str) -> str:
    """Without user and password."""
    head, at, tail = url.rpartition("@")
    return f"{head.rpartition('://')[0]}://{tail}" if at and "://" in head else tail if at else url


def _bare(path: str) -> str:
    return path.partition("?")[0]
