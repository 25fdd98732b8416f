"""First light: specdeck launches the real server, shows what it is, survives its own death, and leaves nothing."""

import asyncio
import os
import signal
from contextlib import suppress

import product
import pytest
import serving

from tui.feed.live import LiveFeed
from tui.feed.place import RealPlace
from tui.feed.targets import of_run
from tui.procid import alive
from tui.runs.store import Run, RunStore
from tui.server import ports
from tui.snapshot import Snapshot

pytestmark = pytest.mark.sglang

WITH_DRAFT = {"tiny-plain": False, "tiny-eagle3": True, "tiny-standalone": True, "tiny-ngram": False}


def watch_until(run: Run, store: RunStore, enough) -> Snapshot:
    """The first picture that is `enough`, out of those that a dashboard would draw."""

    async def work() -> Snapshot:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Snapshot] = loop.create_future()
        feed = LiveFeed(RealPlace(), store, of_run(run))
        task = asyncio.create_task(
            feed.run(lambda snapshot: enough(snapshot) and not found.done() and found.set_result(snapshot))
        )
        try:
            return await asyncio.wait_for(found, product.LIMIT_S)
        except TimeoutError:
            now = feed.snapshot
            told = f"{now.state}, {now.gen_tok_s} tok/s, {now.running} running, accept length {now.accept_len}"
            pytest.fail(f"{told}: not as asked within {product.LIMIT_S:.0f} s")
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return asyncio.run(work())


def busy(snapshot: Snapshot, speculative: bool) -> bool:
    """Under load; with a draft that is right now and then, as all of these are after their first batches."""
    return bool(snapshot.gen_tok_s) and bool(snapshot.running) and (not speculative or (snapshot.accept_len or 0) > 1)


def check_memory(told: dict, info: dict, draft: bool) -> None:
    """What the screen would show against what the server answers of itself."""
    memory = info["internal_states"][0]["memory_usage"]
    [rank] = told["ranks"]
    assert rank["base"] == pytest.approx(memory["weight"], abs=0.02)
    assert rank["kv_base"] == pytest.approx(memory["kvcache"], abs=0.02)
    assert told["kv_tokens"] == rank["kv_tokens"] == info["max_total_num_tokens"] == 20000
    if draft:
        assert rank["draft"] > 0.05
        assert rank["kv_draft"] > 0.02
    else:
        assert (rank["draft"], rank["kv_draft"]) == (None, None)
    [bar] = told["gpus"]
    parts = {name: amount["gib"] for name, amount in bar["segments"].items()}
    assert sum(value for value in parts.values() if value is not None) == pytest.approx(bar["total_gib"], abs=0.01)
    assert parts["kv"] == pytest.approx(rank["kv_base"] + (rank["kv_draft"] or 0.0), abs=0.001)
    assert told["disagreements"] == []


@pytest.mark.parametrize("profile", sorted(WITH_DRAFT))
def test_launch_watch_lose_the_dashboard_stop(deck, free_port, profile) -> None:
    speculative = profile != "tiny-plain"
    done = deck.launch(profile, free_port)
    assert done.returncode == 0, done.stdout + done.stderr
    run = deck.last()
    told, info = deck.status(), serving.server_info(run.url)
    assert (told["state"], told["endpoint"], told["progress"]["phase"]) == ("running", "ready", "serving")
    assert (told["run"], told["sglang_version"]) == (run.name, info["version"])
    check_memory(told, info, WITH_DRAFT[profile])

    with product.traffic(run.url) as statuses:
        watch_until(run, deck.store, lambda snapshot: busy(snapshot, speculative))
        with product.Dashboard(deck) as first:
            first.shows(profile, "serving", "tok/s", "Decode batch")
            assert first.signal(signal.SIGKILL) == -signal.SIGKILL
        assert alive(run.server)
        with product.Dashboard(deck) as second:
            second.shows(profile, "serving", "tok/s", "Decode batch", "ready")
            second.press("q")
            assert second.wait() == 0
        assert alive(run.server)
    assert set(statuses) == {200}
    assert [each.name for each in deck.store.active()] == [run.name]

    tree = product.tree_of(run)
    assert len(tree) >= 3
    assert set(product.in_session(run.server.pid)) >= {process.pid for process in tree}
    shared = [path for path in deck.last().files if os.path.exists(path)]
    assert shared
    stopped = deck.run("stop", "--yes", "--grace", "120")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert not any(map(alive, tree))
    assert product.in_session(run.server.pid) == []
    assert ports.is_free("127.0.0.1", free_port)
    assert [path for path in shared if os.path.exists(path)] == []
    after = deck.status()
    assert (after["state"], after["exit_code"]) == ("stopped", 0)
    assert deck.store.active() == []
