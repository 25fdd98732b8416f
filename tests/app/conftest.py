"""Nothing of the operator's machine reaches these tests: its environment is plain and its feed is a fake."""

import os
import time
from types import ModuleType

import fakes
import pytest
from log_screen import Log, Screen

from tui.app.main import SpecdeckApp


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Nothing of the operator's terminal, time zone or configuration reaches a test."""
    for name in ("NO_COLOR", "COLORTERM", "TMUX", "TEXTUAL_THEME", "SPECDECK_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    os.environ.pop("TZ", None)
    time.tzset()


@pytest.fixture
def fake() -> ModuleType:
    """What the app is shown: `fake.serving()`, `fake.FakeFeed(...)` and so on."""
    return fakes


@pytest.fixture
def log(tmp_path):
    made = Log(tmp_path / "server.log")
    yield made
    made.index.close()


@pytest.fixture
def open_screen(fake, log):
    """`async with open_screen() as screen`: the app with `log` in its feed."""

    class Opened:
        def __init__(self, size=(120, 40), snapshot=None) -> None:
            feed = fake.FakeFeed(snapshot or fake.serving())
            feed.log = log
            self.feed = feed
            self.test = SpecdeckApp(feed).run_test(size=size)

        async def __aenter__(self) -> Screen:
            pilot = await self.test.__aenter__()
            await pilot.pause()
            screen = Screen(pilot, self.feed)
            screen.pane.focus()
            await screen.settle()
            return screen

        async def __aexit__(self, *error) -> None:
            await self.test.__aexit__(*error)

    return Opened
