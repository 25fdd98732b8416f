"""Facts fold in order on one thread; great news is told at once, the same endpoint state again is none."""

from tui.facts import Endpoint, Fact, LogTail, ServerReady
from tui.feed.pump import Pump


async def test_facts_are_recorded_in_the_order_they_were_folded() -> None:
    seen: list[Fact] = []
    pump = Pump(seen.extend)
    facts = [LogTail(at=float(n), lines=n, bytes=n) for n in range(50)]
    for fact in facts:
        await pump.push([fact])
    assert (await pump.snapshot()).log_lines == 49
    pump.close()
    assert seen == facts


async def test_only_great_news_is_urgent() -> None:
    pump = Pump()
    await pump.push([LogTail(at=1, lines=1, bytes=1)])
    assert not pump.urgent.is_set()
    await pump.push([ServerReady(at=2, line=2)])
    assert pump.urgent.is_set()
    pump.close()


async def test_an_endpoint_is_news_when_its_state_changes() -> None:
    pump = Pump()
    await pump.push([Endpoint(at=1, url="u", state="ready")])
    assert pump.urgent.is_set()
    pump.urgent.clear()
    await pump.push([Endpoint(at=2, url="u", state="ready")])
    assert not pump.urgent.is_set()
    pump.close()
