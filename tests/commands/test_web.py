"""`specdeck web`: who gets in, what is served, and a click through it in Chromium where there is one."""

import asyncio
import base64
import os
import shutil
import socket
import subprocess
import sys
import time
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from tui.cli import main
from tui.commands.webserver import GuardedServer

TOKEN = "a-token-that-nobody-knows"
LIMIT_S = 60.0
SAME_PICTURES = 4  # in a row: nothing moves any more


@pytest.fixture
async def client():
    server = GuardedServer("exec true", 8017, TOKEN, control=False)
    async with TestClient(TestServer(await server._make_app()), cookie_jar=aiohttp.DummyCookieJar()) as client:
        yield client


COOKIE = {"Cookie": f"specdeck-8017={TOKEN}"}


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js", "/download/x", "/?token=wrong", "/?token="])
async def test_nothing_is_answered_without_the_token(client, path):
    answer = await client.get(path, allow_redirects=False)
    assert answer.status == 403
    assert "token" in await answer.text()


async def test_the_token_becomes_a_cookie_and_leaves_the_address(client):
    answer = await client.get(f"/?token={TOKEN}", allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    (morsel,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    assert (morsel.key, morsel.value) == ("specdeck-8017", TOKEN)
    assert morsel["httponly"]
    assert morsel["samesite"] == "Strict"


async def test_with_the_cookie_the_page_comes_and_asks_nothing_of_the_internet(client):
    answer = await client.get("/", headers=COOKIE)
    assert answer.status == 200
    text = await answer.text()
    assert "<title>" in text or "textual.js" in text
    assert "https://" not in text
    assert (await client.get("/static/js/textual.js", headers=COOKIE)).status == 200


async def test_another_page_may_not_use_the_cookie(client):
    answer = await client.get("/ws", headers={**COOKIE, "Origin": "http://elsewhere.example"})
    assert answer.status == 403
    answer = await client.get("/", headers={"Cookie": f"specdeck-8018={TOKEN}"})
    assert answer.status == 403


def test_without_textual_serve_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tui.commands.webserver", None)
    monkeypatch.delitem(sys.modules, "tui.commands.webserver")
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    code = main(["web"])
    assert (code, capsys.readouterr().err) == (
        2, "specdeck web: The browser needs textual-serve: pip install 'specdeck[web]'.\n",
    )  # fmt: skip


def test_a_taken_port_is_said(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["web", "--port", str(port)]) == 2
    assert f"Port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--port", "0"], ["--port", "65536"], ["--control", "--read-only"]])
def test_a_command_line_that_makes_no_sense(capsys, arguments):
    assert main(["web", *arguments]) == 2
    assert capsys.readouterr().err.startswith("specdeck web: ")


# ---------------------------------------------------------------------------------------------- the whole of it


@pytest.fixture
def served(tmp_path):
    """served(*arguments) -> the address that the command printed."""
    started = []

    def serve(*arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "tui", "web", "--rehearsal", "--port", str(port), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={"PATH": "/usr/bin:/bin", "SPECDECK_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)},
        )  # fmt: skip
        started.append(process)
        first = process.stdout.readline()
        assert first.startswith(f"Open http://127.0.0.1:{port}/?token="), first
        return first.removeprefix("Open ").strip(), process.stdout.readline()

    yield serve
    for process in started:
        process.terminate()
        process.wait(10)
        process.stdout.close()


async def heard(address, keys, until):
    """Bytes of the screen until `until` is among them, after pressing `keys`."""
    parts = urlsplit(address)
    token = parts.query.removeprefix("token=")
    seen = b""
    async with (
        aiohttp.ClientSession(headers={"Cookie": f"specdeck-{parts.port}={token}"}) as session,
        session.ws_connect(f"ws://{parts.netloc}/ws?width=100&height=30") as screen,
        asyncio.timeout(LIMIT_S),
    ):
        async for message in screen:
            if message.type == aiohttp.WSMsgType.BINARY:
                seen += message.data
            if until in seen:
                return seen
            if keys and b"REHEARSAL" in seen:
                await screen.send_json(["stdin", keys])
                keys = ""
    return seen


async def test_the_screen_comes_through_the_websocket_and_is_read_only(served):
    address, may = served()
    assert "read-only" in may
    # The help: launching and stopping would stand above this key.
    seen = await heard(address, "?", b"Next error in the log")
    assert b"Next error in the log" in seen
    assert b"Launch a profile" not in seen


async def test_with_control_it_may_launch(served):
    address, may = served("--control")
    assert "may start and stop" in may
    assert b"Launch a profile" in await heard(address, "?", b"Launch a profile")


def test_it_listens_on_loopback_only(served):
    address, _ = served()
    port = urlsplit(address).port
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
    ]
    assert [socket.inet_ntoa(bytes.fromhex(told.partition(":")[0])[::-1]) for told in listening] == ["127.0.0.1"]


@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="no chromium here: apt-get install chromium runs this test"
)
async def test_a_click_through_in_chromium(served, tmp_path):
    address, _ = served("--control")
    home = tmp_path / "chromium"
    browser = subprocess.Popen(  # noqa: ASYNC220
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
         f"--user-data-dir={home}", "--window-size=1280,800", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port = await told_port(home / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                page = next(page for page in await answer.json() if page["type"] == "page")
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket_:
                picture = await click_through(Tab(socket_), address)
        kept = Path(os.environ.get("SPECDECK_PICTURES") or tmp_path) / "web.png"
        kept.write_bytes(picture)
        assert picture.startswith(b"\x89PNG")
    finally:
        browser.terminate()
        browser.wait(10)


async def click_through(tab, address):
    """Open, read the help, look at the launch dialog and leave; the picture of the dialog."""
    await tab.call("Page.navigate", url=address)
    await tab.until("document.body.classList.contains('-first-byte')")
    assert await tab.value("location.search") == ""  # the token is not in the address line any more
    drawn = await tab.settled(b"")
    await tab.click(600, 400)
    await tab.press("?")
    help_ = await tab.settled(drawn)
    await tab.press("\x1b", "Escape")
    before = await tab.settled(help_)
    await tab.press("L")
    dialog = await tab.settled(before)
    await tab.press("n")
    await tab.settled(dialog)
    await tab.press("q")
    await tab.until("document.body.classList.contains('-closed')")
    return dialog


async def told_port(path):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if path.exists() and (lines := path.read_text().split()):
            return lines[0]
        await asyncio.sleep(0.1)
    pytest.fail("chromium does not answer")


class Tab:
    """One tab, driven by the DevTools protocol."""

    def __init__(self, socket_):
        self._socket = socket_
        self._count = 0

    async def call(self, method, **parameters):
        self._count += 1
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        async with asyncio.timeout(LIMIT_S):
            async for message in self._socket:
                answer = message.json()
                if answer.get("id") == self._count:
                    return answer["result"]
        pytest.fail("chromium went away")

    async def value(self, expression):
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def until(self, expression):
        async with asyncio.timeout(LIMIT_S):
            while not await self.value(expression):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def picture(self):
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])

    async def settled(self, from_):
        """Another picture than `from_`, once it stands still."""
        last, times = from_, 0
        async with asyncio.timeout(LIMIT_S):
            while last == from_ or times < SAME_PICTURES:
                now = await self.picture()
                last, times = now, times + 1 if now == last else 0
                await asyncio.sleep(0.2)
        return last

    async def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def press(self, text, key=None):
        name = key or text
        code = {"code": "Escape", "windowsVirtualKeyCode": 27} if key == "Escape" else {"text": text}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **code)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=name)
