"""Requests that come in over the keeper's control socket, answered without ever waiting for a slow asker."""

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from tui.facts import Json
from tui.server.wire import LONGEST_REQUEST

_ASK_LIMIT_S = 5.0

Answer = Callable[[dict[str, Json]], dict[str, Json]]


class Mailbox:
    """Reads one JSON line from each connection, answers it with one, and hangs up."""

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector, answer: Answer) -> None:
        """`answer` may raise ValueError, KeyError or TypeError for a request that makes no sense."""
        self._listener = listener
        self._selector = selector
        self._answer = answer
        self._asking: dict[socket.socket, tuple[bytes, float]] = {}
        selector.register(listener, selectors.EVENT_READ)

    def handle(self, ready: Any) -> None:
        """Serve a socket of this mailbox that the selector called ready."""
        if ready is self._listener:
            self._accept()
        elif ready in self._asking:
            self._receive(ready)

    def hang_up_late(self) -> None:
        """Let go of those who connected and never asked."""
        now = time.monotonic()
        for connection in [each for each, (_, until) in self._asking.items() if now > until]:
            self._hang_up(connection)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._asking[connection] = (b"", time.monotonic() + _ASK_LIMIT_S)
            self._selector.register(connection, selectors.EVENT_READ)

    def _receive(self, connection: socket.socket) -> None:
        data, until = self._asking[connection]
        try:
            more = connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        data += more
        if b"\n" in data:
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(self._reply(data.partition(b"\n")[0])).encode() + b"\n")
        elif more and len(data) < LONGEST_REQUEST:
            self._asking[connection] = (data, until)
            return
        self._hang_up(connection)

    def _reply(self, line: bytes) -> dict[str, Json]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise TypeError("not an object")
            return {"ok": True, **self._answer(request)}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return {"ok": False, "error": f"not a request: {error}"}

    def _hang_up(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._asking[connection]
        connection.close()
