"""An HTTP server in this process that answers as it is told."""

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

Reply = tuple[int, Any] | Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet, or the kernel waits 40 ms between them
    server: "Scripted"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.keys.append(self.headers.get("Authorization"))
        self.server.reply(self)

    def answer(self, status: int, content: Any = b"", **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        return


def by_path(handler: Handler) -> None:
    """What `replies` of the server holds for this path; a function there answers on its own."""
    reply = handler.server.replies.get(handler.path.partition("?")[0], (404, {"detail": "Not Found"}))
    if callable(reply):
        reply(handler)
    else:
        handler.answer(*reply)


class Scripted(http.server.ThreadingHTTPServer):
    """Answers by `reply`; `over` ends replies that would last for ever."""

    daemon_threads = True

    def __init__(self, port: int = 0, reply: Callable[[Handler], None] = by_path) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.reply = reply
        self.replies: dict[str, Reply] = {}
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # a caller that hangs up is what many of these tests are about


@contextlib.contextmanager
def at_work(scripted: Scripted) -> Iterator[Scripted]:
    """Serves until the end of the block, where replies without an end are ended too."""
    with scripted:
        thread = threading.Thread(target=scripted.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield scripted
        scripted.over.set()
        scripted.shutdown()
        thread.join()
