"""The first frame is seen before the feed is made; what cannot be made is told."""

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from tui.app.main import SpecdeckApp
from tui.app.opening import OpeningFeed
from tui.errors import SpecdeckError
from tui.port import Feed

LIMIT_S = 60.0


def app_of(open_feed: Callable[[], Feed], **options: bool) -> SpecdeckApp:
    return SpecdeckApp(OpeningFeed(), open_feed=open_feed, **options)


def footer(app: SpecdeckApp) -> str:
    return str(app.dashboard.query_one("Footer").text())


async def until(pilot, met: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not met():
            await pilot.pause(0.01)


async def test_the_first_frame_does_not_wait_for_the_feed(fake) -> None:
    asked, may_go_on = Event(), Event()
    feed = fake.FakeFeed(fake.serving())

    def slowly() -> Feed:
        asked.set()
        assert may_go_on.wait(LIMIT_S)
        return feed

    app = app_of(slowly)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, asked.is_set)
        assert "help" in footer(app)
        assert "leave" in footer(app)
        assert "restart" not in footer(app)
        shown = "\n".join(app.dashboard.query_one(name).text() for name in ("#status", "#plot", "#log-pane"))
        assert "opening" in shown
        assert "no server" not in shown.lower()
        await pilot.press("L", "S")  # nothing can be started or stopped yet
        assert app.screen is app.dashboard
        may_go_on.set()
        await until(pilot, lambda: "restart" in footer(app))
        assert app.feed is feed
        assert not app.read_only
        await pilot.press("S")
        await until(pilot, lambda: app.screen is not app.dashboard)


async def test_read_only_stays_what_was_asked_for(fake) -> None:
    app = app_of(lambda: fake.FakeFeed(fake.serving()), read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: not isinstance(app.feed, OpeningFeed))
        assert app.read_only


async def test_why_there_is_nothing_to_show_is_told_outside(fake) -> None:
    def fails() -> Feed:
        raise SpecdeckError("There is no run of that name.")

    app = app_of(fails)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.problem is not None)
    assert str(app.problem) == "There is no run of that name."
    assert app.return_value == 2


async def test_leaving_before_there_is_a_feed(fake) -> None:
    may_go_on = Event()

    def slowly() -> Feed:
        assert may_go_on.wait(LIMIT_S)
        return fake.FakeFeed(fake.serving())

    app = app_of(slowly)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
        may_go_on.set()
    assert app.return_value == 0


async def test_what_opens_refuses_to_act() -> None:
    feed = OpeningFeed()
    assert await feed.launch("p", {}) == feed.refusal
    assert [str(told) async for told in feed.restart({})] == [feed.refusal]
    with pytest.raises(SpecdeckError):
        await feed.command({})
