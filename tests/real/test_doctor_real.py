"""The doctor on launches of the real server that fail: each is named on the screen model, and a fix leads to ready."""

import asyncio

import failing
import layout
import pytest

from tui.feed.live import LiveFeed
from tui.feed.place import RealPlace
from tui.snapshot import Source

pytestmark = pytest.mark.sglang

WAYS = failing.ways()


def sources(deck) -> dict[str, Source]:
    """Where the numbers of a forecast of the next launch come from."""
    plan = asyncio.run(LiveFeed(RealPlace(), deck.store).forecast_launch(str(layout.PROFILES / "tiny-plain.toml"), {}))
    return {"free before": plan.found.free_before.source, "base": plan.found.segments["base"].source}


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_a_failed_launch_is_named(deck, way) -> None:
    named = asyncio.run(failing.fail(deck, way))
    print(failing.table([named]))
    assert named.wrong(way) == []


def test_a_refused_budget_is_named_mended_and_serves_until_its_scheduler_is_killed(deck) -> None:
    assert Source.LEARNED not in sources(deck).values()
    refused = asyncio.run(failing.fail(deck, failing.BUDGET))
    assert refused.wrong(failing.BUDGET) == []
    [fix] = refused.verdict.remedy
    assert fix.knob == "mem-fraction-static"
    mended = failing.mend(deck, deck.store.load(refused.run))
    assert mended.name != refused.run
    assert mended.knobs["mem-fraction-static"] == fix.new
    status = deck.status()
    assert (status["state"], status["endpoint"], status["verdict"]) == ("running", "ready", None)
    killed = asyncio.run(failing.kill_the_scheduler(deck, mended))
    print(failing.table([refused, killed]))
    assert killed.wrong(failing.KILLED) == []
    # What it measured while it lived counts for the next launch.
    assert set(sources(deck).values()) == {Source.LEARNED}
