"""The loop of the operator under a pilot: find a flag, plan, check, launch, stop, go back, take over."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

from tui.app.main import SpecdeckApp
from tui.app.screens.dialog import ConfirmDialog, LaunchDialog, RestartDialog
from tui.app.screens.flag_search import FlagSearch
from tui.app.screens.knob_editor import KnobEditor
from tui.app.screens.reader import Reader
from tui.app.screens.save_profile import SaveProfile
from tui.app.screens.servers import ServersScreen
from tui.app.widgets.footer import Footer
from tui.app.widgets.knobs import Knobs
from tui.app.widgets.notices import Notices
from tui.app.widgets.status_line import StatusLine
from tui.feed.live import LiveFeed
from tui.feed.place import rehearsal_place
from tui.port import SeenServer
from tui.rehearsal.machine import Settings
from tui.runs.store import RunStore
from tui.server.preflight_machine import Finding
from tui.server.stopping import kill
from tui.snapshot import State

HOME = (120, 40)
SEEN = SeenServer(4242, "sglang", "http://127.0.0.1:31000", ranks=8, command="python3 -m sglang.launch_server")


def message(app: SpecdeckApp) -> str:
    return app.dashboard.query_one(Footer).message


async def settle(pilot) -> None:
    for _ in range(4):
        await pilot.pause()


async def test_a_flag_is_found_by_its_help_and_edited_with_its_choices(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), fake.fitting())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("F")
        assert isinstance(app.screen, FlagSearch)
        await pilot.press(*"share of")
        assert "mem-fraction-static" in app.screen.query_one("#flags-list").text()
        assert "cuda-graph" not in app.screen.query_one("#flags-list").text()
        await pilot.press(*["backspace"] * 8, *"algo", "enter")
        await settle(pilot)
        assert isinstance(app.screen, KnobEditor)
        await pilot.press("down", "enter")
        await settle(pilot)
        assert "EAGLE3 → NGRAM" in app.dashboard.query_one(Knobs).text()
        assert "plan fits" in app.dashboard.query_one(Notices).text()
        await pilot.press("u")
        assert "→" not in app.dashboard.query_one(Knobs).text()
        await pilot.press("ctrl+r")
        assert "EAGLE3 → NGRAM" in app.dashboard.query_one(Knobs).text()
        await pilot.press("c")
        await settle(pilot)
        assert isinstance(app.screen, Reader)
        assert "--speculative-algorithm NGRAM" in app.clipboard


async def test_pending_knobs_are_launched_too_and_saved(fake) -> None:
    feed = fake.FakeFeed(fake.crashed(), fake.fitting())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("a", "ctrl+w")
        assert isinstance(app.screen, SaveProfile)
        await pilot.press("enter")
        await settle(pilot)
        assert "Saved as profiles/kimi-eagle3.toml" in message(app)
        await pilot.press("L")
        assert isinstance(app.screen, LaunchDialog)
        await settle(pilot)
        assert "not set -> 0.85" in app.screen.query_one("#body").text()
        await pilot.press("y")
        await settle(pilot)
    assert ("save", "kimi-eagle3", {"mem-fraction-static": 0.85}) in feed.asked
    assert ("launch", "kimi-eagle3", {"mem-fraction-static": 0.85}) in feed.asked


async def test_an_error_of_the_preflight_forbids_and_a_warning_does_not(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), fake.fitting())
    feed.findings = (Finding("error", "Port 30000 is taken by process 7.", "choose another --port"),)
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("R")
        await settle(pilot)
        assert "taken by process 7" in app.screen.query_one("#body").text()
        await pilot.press("y", "y")
        assert isinstance(app.screen, RestartDialog)
        await pilot.press("n")
        feed.findings = (Finding("warning", "Files are few.", "raise ulimit -n"),)
        await pilot.press("R")
        await settle(pilot)
        assert "Files are few" in app.screen.query_one("#body").text()
        await pilot.press("y")
        await settle(pilot)
        assert app.screen is app.dashboard
    assert ("relaunched",) in feed.asked


async def test_k_ends_the_countdown_and_survivors_are_named(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    feed.going_on.clear()
    feed.survivors = ("Process 77 (python3) still runs.",)
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("K")
        assert "S stops it" in message(app)
        await pilot.press("S", "y")
        await settle(pilot)
        assert "K kills now" in message(app)
        for key in "SRL":
            await pilot.press(key)
            assert "stopped already" in message(app)
        await pilot.press("K")
        await settle(pilot)
        assert isinstance(app.screen, Reader)
        assert "Process 77" in app.screen.query_one("#reader-body").text()
    assert feed.asked == [("stop", 10.0), ("kill",)]


async def test_escape_cancels_a_restart_between_two_steps(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), fake.fitting())
    feed.going_on.clear()
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("R", "y")
        await settle(pilot)
        await pilot.press("escape")
        feed.going_on.set()
        await settle(pilot)
        assert "nothing is launched" in message(app)
    assert ("relaunched",) not in feed.asked


async def test_a_failed_launch_goes_back_by_one_key(fake) -> None:
    feed = fake.FakeFeed(fake.crashed())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await settle(pilot)
        assert "go back" in app.dashboard.query_one(Footer).text()
        await pilot.press("B")
        await settle(pilot)
    assert feed.asked == [("go back",)]


async def test_nobody_is_sent_back_where_nothing_reached_ready(fake) -> None:
    feed = fake.FakeFeed(fake.crashed())
    feed.earlier = None
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await settle(pilot)
        footer = app.dashboard.query_one(Footer).text()
        assert "relaunch" in footer
        assert "go back" not in footer


async def test_a_server_of_another_hand_is_offered_watched_and_taken_over(fake) -> None:
    feed = fake.FakeFeed(fake.empty())
    feed.servers = (SEEN,)
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await settle(pilot)
        assert "process 4242" in app.dashboard.query_one(Notices).text()
        await pilot.press("D")
        await settle(pilot)
        assert isinstance(app.screen, ServersScreen)
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("D")
        await settle(pilot)
        await pilot.press("A")
        await settle(pilot)
        assert isinstance(app.screen, ConfirmDialog)
        assert "exit code is not known" in app.screen.query_one("#body").text()
        await pilot.press("y")
        await settle(pilot)
    assert feed.asked == [("attach", 4242), ("adopt", 4242)]


async def test_who_controls_is_said(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    feed.owner = "root on pts/3 (process 99)"
    app = SpecdeckApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "root on pts/3 (process 99) controls" in app.dashboard.query_one(StatusLine).text()


async def test_the_story_by_keys_on_the_rehearsal(tmp_path: Path) -> None:
    """A launch fails; the fix of its verdict leads to ready without a number being typed."""
    store = RunStore(tmp_path / "runs")
    feed = LiveFeed(rehearsal_place(store, Settings(speed=600.0)), store)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = SpecdeckApp(feed)

    async def until(asked) -> None:
        async with asyncio.timeout(60):
            while not asked():
                await pilot.pause(0.1)

    try:
        async with app.run_test(size=HOME) as pilot:
            assert await feed.launch("kimi-k2.5-eagle3", {"port": port}) is None
            await until(lambda: app.dashboard._snapshot.verdict and app.dashboard._snapshot.verdict.fixes)
            await until(lambda: app.dashboard._snapshot.state is State.FAILED)
            await pilot.press("a")
            await until(lambda: "plan fits" in app.dashboard.query_one(Notices).text())
            await pilot.press("R", "y")
            await until(lambda: app.dashboard._snapshot.state is State.RUNNING)
            assert app.dashboard._snapshot.fraction == 0.85
            assert app.dashboard._pending == {}
    finally:
        for run in store.active():
            list(kill(run))


async def test_knobs_are_grouped_where_there_is_room(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(replace(fake.serving(), knobs=fake.KNOBS[:6])))
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        rows = [line.strip() for line in app.dashboard.query_one(Knobs).text().split("\n")]
        assert [row for row in rows if row.startswith("- ")] == [
            "- memory",
            "- speculation",
            "- graphs",
            "- parallel",
            "- rest",
        ]
