"""A run on the rehearsal machine, recorded while it is watched: what is read back is what was seen."""

import asyncio
import json
from collections.abc import Callable, Iterable

import pytest

from tui.facts import CaptureProgress, DecodeBatch, Exited, Fact, GpuSample, LoadProgress, LogFact, Metrics, ServerReady
from tui.runs import recording, summaries
from tui.runs.recorder import Recorder
from tui.runs.replay import Player, SeekError
from tui.runs.store import Run, RunStore
from tui.runs.timeline import facts_of, moments
from tui.server import stopping
from tui.session import Session
from tui.snapshot import Phase, Snapshot

PEEKED = (LoadProgress, CaptureProgress)  # bars are also told while their line is not finished


def _lines_facts(facts: Iterable[Fact]) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact, LogFact) and not isinstance(fact, PEEKED)]


def ended(facts: list[Fact]) -> bool:
    return any(isinstance(fact, Exited) for fact in facts)


def served(facts: list[Fact]) -> bool:
    ready = any(isinstance(fact, ServerReady) for fact in facts)
    return (
        ready and sum(isinstance(f, DecodeBatch) for f in facts) > 8 and sum(isinstance(f, Metrics) for f in facts) > 2
    )


async def stop(run: Run) -> None:
    def all_steps() -> None:
        for _ in stopping.stop(run, 5.0, "the test stops it"):
            pass

    await asyncio.to_thread(all_steps)


@pytest.fixture
async def seen(launch: Callable[..., Run], watch: Callable[..., object], store: RunStore) -> tuple[Run, list[Fact]]:
    """A run that served, was stopped, and was recorded from beginning to end; and what its dashboard heard."""
    run = launch()
    watched = watch(run, Recorder(run.path))
    state = {"asked": False}

    def done(facts: list[Fact]) -> bool:
        if served(facts) and not state["asked"]:
            state["asked"] = True
            state["task"] = asyncio.get_running_loop().create_task(stop(run))
        return ended(facts)

    await watched.until(done)
    await state["task"]
    watched.recorder.close()
    return store.load(run.name), watched.heard


async def test_what_is_read_back_is_what_was_heard(
    seen: tuple[Run, list[Fact]], snapshot_bytes: Callable[[Snapshot], str]
) -> None:
    run, heard = seen
    live = Session()
    live.extend(heard)
    read = Session()
    read.extend(facts_of(run))
    assert snapshot_bytes(read.snapshot()) == snapshot_bytes(live.snapshot())
    assert Player(lambda: moments(run)).final() == live.snapshot()
    assert live.snapshot().kv_tokens
    assert live.snapshot().gpus
    assert live.snapshot().points

    # Packed, and without the log's facts, which the log beside it keeps.
    assert recording.path_of(run.path).name == recording.PACKED
    kept = [line.entry for line in recording.read(run.path)]
    assert all(isinstance(entry, PEEKED) for entry in kept if isinstance(entry, LogFact))
    assert sum(isinstance(entry, GpuSample) for entry in kept) == sum(isinstance(fact, GpuSample) for fact in heard)

    # Nobody's watch: the log and the journal alone tell how it went.
    recording.path_of(run.path).unlink()
    alone = Session()
    alone.extend(facts_of(run))
    shot, told = alone.snapshot(), live.snapshot()
    assert (shot.state, shot.kv_tokens, shot.ranks, shot.fraction, shot.exit_code, shot.log_lines) == (
        told.state, told.kv_tokens, told.ranks, told.fraction, told.exit_code, told.log_lines,
    )  # fmt: skip
    assert _lines_facts(facts_of(run)) == _lines_facts(heard)


async def test_seeking_is_folding_from_the_start(seen: tuple[Run, list[Fact]]) -> None:
    run, _ = seen
    player = Player(lambda: moments(run))
    stream = list(moments(run))

    def folded(count: int, at: float) -> Snapshot:
        session = Session()
        session.extend(moment.fact for moment in stream[:count])
        return session.snapshot(at)

    for where in ("90%", "ready", "10%", "50%", "exit", "capturing", "+0:01", "0%"):
        player.seek(where)
        assert player.snapshot() == folded(player.index, player.at), where
    player.seek("loading weights")
    assert player.snapshot().progress.phase is Phase.WEIGHTS
    before, index = player.at, player.index
    player.step()
    assert player.index > index
    player.play_to(player.at)
    player.step()
    assert player.at > before
    later = player.at
    player.step(forward=False)
    assert player.at < later
    with pytest.raises(SeekError, match="ready"):
        player.seek("lunch")


async def test_the_summary_of_a_run(seen: tuple[Run, list[Fact]], store: RunStore) -> None:
    run, heard = seen
    summary = summaries.load(run.path)
    assert summary is not None
    live = Session()
    live.extend(heard)
    assert summary.final
    assert summary.outcome == "stopped"
    assert summary.kv_tokens == live.snapshot().kv_tokens
    assert summary.ready_s is not None
    assert sum(summary.phases_s.values()) == pytest.approx(summary.ready_s, abs=1.5)
    assert summary.memory_gib["base"] == live.snapshot().ranks[0].base
    decode = [fact for fact in heard if isinstance(fact, DecodeBatch)]
    assert summary.speeds[0].speed.batch == 1
    slow, fast = min(d.gen_tok_s for d in decode), max(d.gen_tok_s for d in decode)
    assert slow <= summary.speeds[0].speed.tok_s <= fast
    assert summaries.make(run) == summary

    learned = summaries.learned(store, run.knobs, summary.sglang_version, rehearsal=True)
    assert learned is not None
    assert learned.base_gib == summary.memory_gib["base"]
    assert learned.graphs_gib[(128, None)] == pytest.approx(summary.memory_gib["graphs_base"])
    assert learned.overhead_gib is not None
    assert 0 < learned.overhead_gib < 5
    assert summaries.learned(store, {**run.knobs, "tp-size": 4}, summary.sglang_version, rehearsal=True) is None
    assert summaries.learned(store, run.knobs, "0.5.1", rehearsal=True) is None
    # What was made up teaches nothing about a real machine.
    assert summaries.learned(store, run.knobs, summary.sglang_version) is None
    expected = summaries.expectation(store, run.profile, at=5.0)
    assert expected is not None
    assert (expected.run, expected.total_s, expected.at) == (run.name, summary.ready_s, 5.0)
    assert summaries.expectation(store, "another") is None


async def test_a_second_dashboard_goes_on_with_the_recording(
    launch: Callable[..., Run], watch: Callable[..., object], store: RunStore
) -> None:
    run = launch()
    first = watch(run, Recorder(run.path))
    await first.until(served)
    first.recorder.close()
    assert not (run.path / recording.PACKED).exists()
    with (run.path / recording.NAME).open("a") as file:
        file.write('{"f":"Mark","at":1')  # killed while it wrote
    await stop(run)
    second = watch(run, Recorder(run.path))
    await second.until(ended)
    second.recorder.close()

    facts = list(facts_of(store.load(run.name)))
    assert _lines_facts(facts) == _lines_facts(second.heard)
    assert sum(isinstance(fact, Exited) for fact in facts) == 1
    assert not [line for line in recording.read(run.path) if line.broken]
    early = [fact for fact in first.heard if isinstance(fact, Metrics)]
    assert [fact for fact in facts if isinstance(fact, Metrics)][: len(early)] == early
    assert summaries.load(run.path).outcome == "stopped"


async def test_only_one_dashboard_records(launch: Callable[..., Run], watch: Callable[..., object]) -> None:
    run = launch()
    first, second = Recorder(run.path), Recorder(run.path)
    watched = watch(run, first)
    await watched.until(served)
    second.record(watched.heard)
    assert first.recording
    assert not second.recording
    second.close()
    size = (run.path / recording.NAME).stat().st_size
    lines = (run.path / recording.NAME).read_text().splitlines()
    assert json.loads(lines[0]) == {"specdeck": "facts", "version": 1, "log": "beside"}
    assert size > 0
    first.close()
    assert not first.recording
