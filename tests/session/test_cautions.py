"""Warnings come with their cause and go with it."""

import pytest

from tui.facts import (
    DecodeBatch,
    GpuProcess,
    GpuReading,
    GpuSample,
    Launched,
    Loads,
    LogTail,
    Problem,
    RankLoad,
    ServerArgs,
    ServerProcesses,
    ServerReady,
    WeightsBegin,
)
from tui.session.cautions import CautionFold
from tui.session.session import Session
from tui.snapshot import Phase, Progress, State

SERVING = Progress(phase=Phase.SERVING)


def decode(at: float, **values) -> DecodeBatch:
    return DecodeBatch(**{"at": at, "line": int(at), "running": 4, "queue": 0, "token_usage": 0.5} | values)


def loads(at: float, *stamps: float, running: int = 1, gen: float = 50.0) -> Loads:
    ranks = (RankLoad(dp_rank=i, running=running, gen_tok_s=gen, stamp=stamp) for i, stamp in enumerate(stamps))
    return Loads(at=at, loads=tuple(ranks))


@pytest.fixture
def fold() -> CautionFold:
    return CautionFold()


def kinds(fold: CautionFold, at: float, state: State = State.RUNNING, progress: Progress = SERVING) -> list[str]:
    return [caution.kind for caution in fold.now(at, state, progress)]


def test_a_full_pool(fold) -> None:
    fold.apply(decode(10, token_usage=0.98, queue=3))
    fold.apply(decode(20, token_usage=0.99, queue=3))
    (caution,) = fold.now(21, State.RUNNING, SERVING)
    assert (caution.kind, caution.since) == ("kv-exhausted", 10)
    assert "99 %" in caution.text
    assert "3 requests wait" in caution.text
    fold.apply(decode(30, token_usage=0.99, queue=0))
    assert kinds(fold, 31) == []


def test_retractions(fold) -> None:
    fold.apply(Problem(at=10, line=1, code="kv-retracted", text="…", numbers={"requests": 2.0}))
    fold.apply(Problem(at=12, line=2, code="kv-retracted", text="…", numbers={"requests": 1.0}))
    (caution,) = fold.now(20, State.RUNNING, SERVING)
    assert caution.text.startswith("3 requests")
    assert kinds(fold, 80) == []


def test_an_accept_length_that_does_not_pay(fold) -> None:
    for at in range(4):
        fold.apply(decode(10 + at, accept_len=1.1))
    assert kinds(fold, 14) == []
    fold.apply(decode(14, accept_len=1.1))
    (caution,) = fold.now(15, State.RUNNING, SERVING)
    assert caution.kind == "low-acceptance"
    assert "1.10" in caution.text
    for at in range(10):
        fold.apply(decode(20 + at, accept_len=3.0))
    assert kinds(fold, 30) == []


def test_one_dead_dp_rank(fold) -> None:
    for at in range(10, 40, 2):
        fold.apply(loads(at, 100.0 + at, 110.0))
    (caution,) = fold.now(39, State.RUNNING, SERVING)
    assert (caution.kind, caution.since) == ("hang", 10)
    assert caution.text.startswith("DP rank 1 has not stepped for 28 s")
    fold.apply(loads(40, 140.0, 140.0))
    assert kinds(fold, 41) == []


def test_an_endpoint_that_does_not_answer_says_nothing_about_ranks(fold) -> None:
    fold.apply(loads(10, 1.0))
    fold.apply(loads(30, 1.0))
    assert kinds(fold, 31) == ["hang"]
    assert kinds(fold, 60) == []


def test_decode_silence_behind_a_healthy_port(fold) -> None:
    fold.apply(decode(10))
    for at in range(11, 60):
        fold.apply(loads(at, float(at), gen=0.0))
    (caution,) = fold.now(60, State.RUNNING, SERVING)
    assert caution.kind == "hang"
    assert "no batch was logged for 49 s" in caution.text
    fold.apply(decode(60))
    assert kinds(fold, 61) == []


def test_a_failed_health_check(fold) -> None:
    fold.apply(decode(10))
    fold.apply(Problem(at=40, line=9, code="health-check-failed", text="…"))
    assert kinds(fold, 41) == ["hang"]
    fold.apply(decode(45))
    assert kinds(fold, 46) == []


@pytest.mark.parametrize(
    ("expected", "quiet", "loud"), [(None, 299.0, 301.0), (100.0, 149.0, 151.0), (4.0, 29.0, 31.0)]
)
def test_silence_that_is_longer_than_the_phase_explains(fold, expected, quiet, loud) -> None:
    fold.apply(LogTail(at=100.0, lines=5, bytes=50))
    progress = Progress(phase=Phase.WEIGHTS, expected_phase_s=expected)
    assert kinds(fold, 100 + quiet, State.STARTING, progress) == []
    assert kinds(fold, 100 + loud, State.STARTING, progress) == ["hang"]
    fold.apply(LogTail(at=100 + loud, lines=6, bytes=60))
    assert kinds(fold, 101 + loud, State.STARTING, progress) == []


def test_a_gpu_under_pressure(fold) -> None:
    fold.apply(ServerProcesses(at=1.0, pids=(7,)))
    mine, foreign = (GpuProcess(pid=pid, used_gib=79.0) for pid in (7, 8))

    def sample(free: float) -> GpuSample:
        gpus = (
            GpuReading(index=0, uuid="a", name="n", free_gib=free, processes=(mine,)),
            GpuReading(index=1, uuid="b", name="n", free_gib=0.1, processes=(foreign,)),
        )
        return GpuSample(at=2.0, source="nvml", gpus=gpus)

    fold.apply(sample(0.2))
    assert [caution.text[:5] for caution in fold.now(3, State.RUNNING, SERVING)] == ["GPU 0"]
    fold.apply(sample(2.0))
    assert kinds(fold, 3) == []


def test_nothing_is_said_of_a_server_that_ended(fold) -> None:
    fold.apply(decode(10, token_usage=0.99, queue=3))
    assert kinds(fold, 11, State.FAILED) == []


def test_the_session_carries_verdict_and_warnings() -> None:
    session = Session()
    session.apply(Launched(at=1.0, run="r", profile="p", command=(), knobs={}))
    session.apply(ServerArgs(at=2.0, line=1, args={}))
    session.apply(WeightsBegin(at=3.0, line=2, avail_gib=90.0))
    session.apply(ServerReady(at=4.0, line=3))
    session.apply(decode(10, token_usage=0.99, queue=3))
    assert [caution.kind for caution in session.snapshot(11.0).warnings] == ["kv-exhausted"]
    assert session.snapshot(11.0).verdict is None
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    session.apply(Problem(at=12.0, line=20, code="cuda-oom", text=oom, numbers={"tried_gib": 2.0}))
    verdict = session.snapshot(12.0).verdict
    assert verdict is not None
    assert verdict.kind == "runtime-oom"
    session.apply(Launched(at=20.0, run="s", profile="p", command=(), knobs={}))
    assert session.snapshot(20.0).verdict is None
    assert session.snapshot(20.0).warnings == ()
