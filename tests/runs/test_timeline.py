"""Runs that nobody watched, that were damaged, and places in them."""

import json
from collections.abc import Callable

import pytest

from tui.factlines import dump_fact
from tui.facts import (
    DecodeBatch,
    Exited,
    Fact,
    GpuReading,
    GpuSample,
    HttpListening,
    Launched,
    LogTail,
    Mark,
    ServerReady,
    Signalled,
    Traceback,
)
from tui.files import append_lines
from tui.runs import recording, summaries
from tui.runs.recorder import Recorder
from tui.runs.replay import Player
from tui.runs.store import Run, RunStore
from tui.runs.timeline import facts_of, landmarks, moments
from tui.session import Session
from tui.snapshot import State

AT = 1_800_000_000.0
Make = Callable[..., Run]


def stamp(seconds: float) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(AT + seconds).strftime("[%Y-%m-%d %H:%M:%S")


def log(*lines: tuple[float, str]) -> str:
    return "".join(f"{stamp(at)}{text}\n" for at, text in lines)


SERVED = log(
    (1, " TP0] Load weight begin. avail mem=94.08 GB"),
    (5, "] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)"),
    (6, "] The server is fired up and ready to roll!"),
    (8, " TP0] Decode batch. #running-req: 1, #token: 900, token usage: 0.01, cuda graph: True, "
        "gen throughput (token/s): 88.10, #queue-req: 0, "),
    (9, " TP0] Decode batch. #running-req: 1, #token: 940, token usage: 0.01, cuda graph: True, "
        "gen throughput (token/s): 89.50, #queue-req: 0, "),
)  # fmt: skip


def test_an_unwatched_run_is_complete(made: Make) -> None:
    run = made(log=SERVED, exited=Exited(at=AT + 20, code=0, requested=True))
    facts = list(facts_of(run))
    assert isinstance(facts[0], Launched)
    assert isinstance(facts[-1], Exited)
    assert [fact.gen_tok_s for fact in facts if isinstance(fact, DecodeBatch)] == [88.1, 89.5]
    session = Session()
    session.extend(facts)
    shot = session.snapshot()
    assert (shot.state, shot.log_lines, shot.ready_at) == (State.STOPPED, 5, AT + 6)
    assert [point.gen_tok_s for point in shot.points] == [88.1, 89.5]


def test_the_launch_comes_first_and_the_end_last_whatever_the_clocks_say(made: Make) -> None:
    """A container whose clock or time zone is hours off."""
    early = SERVED.replace(stamp(0)[1:11], "2020-01-01")
    run = made(log=early, exited=Exited(at=AT + 20, code=1))
    facts = list(facts_of(run))
    assert isinstance(facts[0], Launched)
    assert isinstance(facts[-1], Exited)
    times = [moment.at for moment in moments(run)]
    assert times == sorted(times)


def test_what_the_keeper_did_stands_between_the_lines(made: Make) -> None:
    run = made(log=SERVED, exited=Exited(at=AT + 20, code=0, requested=True))
    append_lines(run.control, [dump_fact(Signalled(at=AT + 7.5, signal="SIGTERM", pids=(1,)))])
    kinds = [type(fact) for fact in facts_of(run) if not isinstance(fact, LogTail)]
    assert kinds.index(Signalled) == kinds.index(ServerReady) + 1


def test_a_traceback_at_the_end_of_the_log_is_told(made: Make) -> None:
    text = (
        SERVED
        + f"{stamp(10)} TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        + '  File "a.py", line 3, in f\n'
    )
    run = made(log=text, exited=Exited(at=AT + 20, code=1))
    assert any(isinstance(fact, Traceback) for fact in facts_of(run))
    assert any(mark.kind == "crash" for mark in landmarks(moments(run)))


def test_a_run_without_a_journal_is_still_a_run(made: Make, store: RunStore) -> None:
    run = made(log=SERVED)
    run.control.unlink()
    facts = list(facts_of(store.load(run.name)))
    assert isinstance(facts[0], Launched)
    assert facts[0].knobs == run.knobs
    assert isinstance(facts[-1], Exited)


def test_a_log_that_specdeck_does_not_keep_is_in_the_recording(made: Make, store: RunStore) -> None:
    """An adopted server writes where it always did."""
    run = made()
    (run.path / "server.log").unlink()
    heard: list[Fact] = [
        Launched(at=AT, run=run.name, profile="kimi", command=(), knobs={}),
        ServerReady(at=AT + 6, line=3),
        LogTail(at=AT + 6, lines=3, bytes=100),
        HttpListening(at=AT + 7, line=4),
        LogTail(at=AT + 7, lines=4, bytes=140),
    ]
    recorder = Recorder(run.path, summarise=lambda _: None)
    recorder.record(heard)
    recorder.close()
    found = list(facts_of(store.load(run.name)))
    assert found[: len(heard)] == heard


def test_a_broken_line_costs_what_leans_on_it_and_no_more(made: Make) -> None:
    def sample(i: int) -> GpuSample:
        return GpuSample(at=AT + i, source="nvml", gpus=(GpuReading(index=0, uuid="u", name="g", free_gib=float(i)),))

    facts = [sample(i) for i in range(405)]
    run = made(facts=facts)
    recording.path_of(run.path).rename(run.path / "x.gz")
    import gzip

    lines = gzip.decompress((run.path / "x.gz").read_bytes()).decode().splitlines()
    lines[10] = lines[10][:12]
    (run.path / recording.NAME).write_text("\n".join(lines) + "\n")
    read = [fact for fact in facts_of(run) if isinstance(fact, GpuSample)]
    assert read == [*facts[:9], *facts[200:]]
    assert sum(line.broken for line in recording.read(run.path)) == 191


def test_a_packed_recording_that_was_cut_gives_what_it_holds(made: Make) -> None:
    run = made(log=SERVED, facts=[Mark(at=AT + i, text=str(i)) for i in range(500)])
    path = recording.path_of(run.path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    marks = [fact for fact in facts_of(run) if isinstance(fact, Mark)]
    assert 0 < len(marks) < 500


def test_a_recording_of_a_newer_specdeck_is_refused_in_a_sentence(made: Make) -> None:
    run = made()
    (run.path / recording.NAME).write_text(json.dumps({"specdeck": "facts", "version": 99}) + "\n")
    with pytest.raises(recording.RecordingError, match="newer specdeck"):
        list(facts_of(run))
    assert summaries.ensure(run) is None


def test_a_recorder_on_an_ended_run_writes_nothing(made: Make) -> None:
    run = made(log=SERVED, facts=[Mark(at=AT, text="a")])
    before = recording.path_of(run.path).read_bytes()
    recorder = Recorder(run.path)
    recorder.record([Mark(at=AT + 1, text="b")])
    recorder.close()
    assert not recorder.recording
    assert recording.path_of(run.path).read_bytes() == before


def test_a_recorder_that_cannot_write_says_so_and_goes_on(made: Make) -> None:
    run = made()
    (run.path / recording.NAME).mkdir()
    recorder = Recorder(run.path)
    recorder.record([Mark(at=AT, text="a")])
    assert recorder.problem is not None
    assert run.name in recorder.problem
    recorder.close()


def test_facts_are_written_within_a_second(made: Make, store: RunStore) -> None:
    clock = [0.0]
    run = made()
    recorder = Recorder(run.path, summarise=lambda _: None, clock=lambda: clock[0])
    recorder.record([Mark(at=AT, text="a")])
    clock[0] = 0.9
    recorder.record([Mark(at=AT + 1, text="b")])
    assert [line.entry for line in recording.read(run.path)] == []
    clock[0] = 1.0
    recorder.record([Mark(at=AT + 2, text="c")])
    assert len([line.entry for line in recording.read(run.path)]) == 3
    recorder.close()


def test_what_a_reader_took_for_complete_is_so_in_the_replay_too(made: Make) -> None:
    text = "Traceback (most recent call last):\nTypeError: too few\nTraceback (most recent call last):\n"
    run = made(log=text)
    told = Traceback(at=AT, line=1, last_line=2, exception="TypeError", message="too few")
    recorder = Recorder(run.path, summarise=lambda _: None)
    recorder.record([LogTail(at=AT + 1, lines=2, bytes=54)])
    recorder.record([told])  # no line after it had come
    recorder.record([Mark(at=AT + 2, text="later")])
    recorder.record([LogTail(at=AT + 3, lines=3, bytes=len(text))])
    recorder.close()
    found = [fact for fact in facts_of(run) if isinstance(fact, Traceback | Mark)]
    # The one that had only begun ends with the run.
    assert [type(fact) for fact in found] == [Traceback, Mark, Traceback]
    assert (found[0].exception, found[0].message) == (told.exception, told.message)


def test_places_in_a_recording(made: Make) -> None:
    run = made(log=SERVED, exited=Exited(at=AT + 20, code=1))
    player = Player(lambda: moments(run))
    names = [mark.name for mark in player.landmarks]
    assert names[:2] == ["importing", "launch"]
    assert {"loading weights", "serving", "ready", "exit", "exited"} <= set(names)
    player.seek("crash")
    assert player.snapshot().state is State.FAILED
    player.seek("00:08")
    assert player.at == AT + 8
    player.seek("ready")
    assert player.snapshot().state is State.RUNNING
