"""Pictures of the screen, compared with the ones that were looked at and found good."""

import pytest

from tui.app.main import SpecdeckApp
from tui.snapshot import Phase

HOME, SMALL, WIDE = (120, 40), (80, 24), (200, 60)


@pytest.mark.parametrize("size", [HOME, SMALL, WIDE], ids=["120x40", "80x24", "200x60"])
@pytest.mark.parametrize("state", ["empty", "loading", "serving", "crashed"])
def test_states(fake, snap_compare, state: str, size: tuple[int, int]) -> None:
    assert snap_compare(SpecdeckApp(fake.FakeFeed(getattr(fake, state)())), terminal_size=size)


@pytest.mark.parametrize("state", ["no_machine", "cautioned", "replayed", "many", "hostile"])
def test_other_states(fake, snap_compare, state: str) -> None:
    assert snap_compare(SpecdeckApp(fake.FakeFeed(getattr(fake, state)())), terminal_size=HOME)


def test_capturing_graphs(fake, snap_compare) -> None:
    assert snap_compare(SpecdeckApp(fake.FakeFeed(fake.loading(Phase.GRAPHS))), terminal_size=HOME)


@pytest.mark.parametrize("size", [HOME, SMALL], ids=["120x40", "80x24"])
@pytest.mark.parametrize("plan", ["fitting", "refused"])
def test_pending_knobs(fake, snap_compare, plan: str, size: tuple[int, int]) -> None:
    async def change(pilot) -> None:
        from tui.app.widgets.knobs import Knobs

        knobs = pilot.app.dashboard.query_one(Knobs)
        knobs.focus()
        knobs.select("mem-fraction-static")
        await pilot.press("minus")
        await pilot.pause()

    feed = fake.FakeFeed(fake.serving(), getattr(fake, plan)())
    assert snap_compare(SpecdeckApp(feed), terminal_size=size, run_before=change)


@pytest.mark.parametrize("size", [HOME, SMALL], ids=["120x40", "80x24"])
@pytest.mark.parametrize(
    ("name", "state", "keys"),
    [
        ("restart", "crashed", ["a", "R"]),
        ("launch", "empty", ["L"]),
        ("stop", "serving", ["S"]),
        ("help", "serving", ["question_mark"]),
        ("verdict", "crashed", ["v"]),
    ],
)
def test_dialogs(fake, snap_compare, name: str, state: str, keys: list[str], size: tuple[int, int]) -> None:
    feed = fake.FakeFeed(getattr(fake, state)(), fake.fitting())
    # The help names the keymap's path, which is another one in every test run.
    app = SpecdeckApp(feed)
    app._environ["XDG_CONFIG_HOME"] = "/home/operator/.config"
    assert snap_compare(app, press=keys, terminal_size=size)


@pytest.mark.parametrize("theme", ["light", "contrast", "ansi"])
def test_themes(fake, snap_compare, theme: str) -> None:
    assert snap_compare(SpecdeckApp(fake.FakeFeed(fake.serving()), theme=theme), terminal_size=HOME)


def test_sixteen_colours(fake, snap_compare, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "screen")
    monkeypatch.delenv("COLORTERM")
    assert snap_compare(SpecdeckApp(fake.FakeFeed(fake.crashed())), terminal_size=SMALL)


def test_no_colour(fake, snap_compare, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(SpecdeckApp(fake.FakeFeed(fake.serving())), terminal_size=HOME)


def test_ascii(fake, snap_compare) -> None:
    assert snap_compare(SpecdeckApp(fake.FakeFeed(fake.serving()), ascii_only=True), terminal_size=HOME)
