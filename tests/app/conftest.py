"""Nothing of the operator's machine reaches these tests: its environment is plain and its feed is a fake."""

import os
import time
from types import ModuleType

import fakes
import pytest


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
