"""The HTTP side of `specdeck web`: textual-serve with a door. Imported only when that is installed."""

import hmac
import logging
import os
import re
import secrets
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

from tui.commands.web import WebError

HOST = "127.0.0.1"
# textual-serve's page asks a font service for its typeface; nothing of a server's screen should depend on the internet.
_OUTSIDE_FONT = re.compile(r'<link\s+rel="stylesheet"\s+href="https://[^"]*"\s*/?>')
_NO_ENTRY = "The token is missing or wrong: open the whole address that `specdeck web` printed.\n"


class GuardedServer(Server):
    """Nothing is answered without the token: it comes once in the URL and stays as a cookie of this browser."""

    def __init__(self, command: str, port: int, token: str, *, control: bool) -> None:
        super().__init__(command, host=HOST, port=port, title="specdeck", public_url=f"http://{HOST}:{port}")
        self.token = token
        self.control = control
        # Cookies know no ports: two of these on one machine must not take each other's.
        self.cookie = f"specdeck-{port}"

    @property
    def address(self) -> str:
        """What the operator opens."""
        return f"{self.public_url}/?token={self.token}"

    def serve(self, debug: bool = False) -> None:
        """Serve until SIGINT or SIGTERM. Raises OSError when the port is taken."""
        logging.basicConfig(level=logging.ERROR, format="%(message)s")  # no access log: it would hold the token
        # aiohttp calls `print` when it listens: only then is the address worth opening.
        web.run_app(self._make_app(), host=HOST, port=self.port, print=self._announce, access_log=None)

    def _announce(self, *_: object) -> None:
        may = "It may start and stop servers." if self.control else "It is read-only (--control lets it act)."
        print(f"Open {self.address}\n{may} Ctrl-C ends it; servers stay.", flush=True)

    async def on_startup(self, app: web.Application) -> None:
        """textual-serve's banner is not shown."""

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._door)
        return app

    async def handle_index(self, request: web.Request) -> Any:
        response = await super().handle_index(request)
        if isinstance(response, web.Response) and response.text:
            response.text = _OUTSIDE_FONT.sub("", response.text)
        return response

    @web.middleware
    async def _door(self, request: web.Request, handler: Any) -> web.StreamResponse:
        told = request.query.get("token")
        if told is not None and _same(told, self.token):
            # The token leaves the address line, so that it is in no history and no screenshot.
            answer = web.Response(status=303, headers={"Location": "/"})
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="Strict", path="/")
            return answer
        if not _same(request.cookies.get(self.cookie, ""), self.token):
            return web.Response(status=403, text=_NO_ENTRY)
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return web.Response(status=403, text="Another page asked for this one.\n")
        answer = await handler(request)
        assert isinstance(answer, web.StreamResponse)
        return answer


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def serve(command: str, port: int, *, control: bool) -> int:
    """Serve until Ctrl-C. Raises WebError when the port is taken."""
    # The browser's terminal, whatever this one is.
    os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    try:
        GuardedServer(command, port, secrets.token_urlsafe(24), control=control).serve()
    except OSError as error:
        raise WebError(
            f"Port {port} of {HOST} cannot be used ({os.strerror(error.errno or 0)}): try --port N."
        ) from None
    return 0
