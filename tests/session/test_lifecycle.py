"""A launch moves through SGLang's phases, and ends in the supervisor's words."""

import pytest

from tui.facts import (
    Attached,
    DecodeBatch,
    DistributedInit,
    Endpoint,
    Exited,
    Expectation,
    GraphBegin,
    HttpListening,
    KvPool,
    Launched,
    LoadProgress,
    Mark,
    PoolSummary,
    Problem,
    ServerArgs,
    ServerReady,
    Shutdown,
    StateChange,
    WeightsBegin,
    WeightsEnd,
)
from tui.session import Session
from tui.session.lifecycle import MOST_MARKS
from tui.snapshot import Phase, State

LAUNCH = Launched(at=0, run="r", profile="kimi", command=("sglang",), knobs={"tp-size": 8})
STOPPING = StateChange(at=2, state="stopping", reason="stop asked for; SIGKILL after 10 s")
TP0 = {"rank": "TP0"}


def fold(*facts) -> Session:
    session = Session()
    session.extend(facts)
    return session


def phases(*facts) -> list[Phase]:
    session, seen = Session(), []
    for fact in facts:
        session.apply(fact)
        seen.append(session.snapshot().progress.phase)
    return seen


OLD_ORDER = [
    LAUNCH,
    ServerArgs(at=1, line=1, args={}),
    DistributedInit(at=2, line=2, done=False, **TP0),
    WeightsBegin(at=3, line=3, avail_gib=94.0, **TP0),
    WeightsEnd(at=4, line=4, used_gib=72.0, **TP0),
    KvPool(at=5, line=5, label="kv", tokens=1, gib=1.0, **TP0),
    GraphBegin(at=6, line=6, name="target verify", **TP0),
    DistributedInit(at=7, line=7, done=False, **TP0),
    WeightsBegin(at=7, line=8, avail_gib=9.0, **TP0),
    WeightsEnd(at=8, line=9, used_gib=1.0, **TP0),
    KvPool(at=9, line=10, label="kv", tokens=1, gib=1.0, **TP0),
    GraphBegin(at=10, line=11, name="draft decode", **TP0),
    PoolSummary(at=11, line=12, max_total_num_tokens=5, **TP0),
    HttpListening(at=12, line=13),
    ServerReady(at=13, line=14),
]


def test_the_phases_of_a_speculative_launch_before_0_5_14_load_the_draft_after_the_graphs():
    assert phases(*OLD_ORDER) == [
        Phase.IMPORTING, Phase.IMPORTING, Phase.DISTRIBUTED, Phase.WEIGHTS, Phase.WEIGHTS, Phase.KV_POOL, Phase.GRAPHS,
        Phase.GRAPHS, Phase.DRAFT_WEIGHTS, Phase.DRAFT_WEIGHTS, Phase.KV_POOL, Phase.GRAPHS, Phase.WARMUP, Phase.WARMUP,
        Phase.SERVING,
    ]  # fmt: skip


def test_progress_says_how_far_and_since_when_and_forgets_it_in_the_next_phase():
    session = fold(*OLD_ORDER[:4], LoadProgress(at=3.5, line=3, done=12, total=64, percent=19.0))
    progress = session.snapshot().progress
    assert (progress.percent, progress.text, progress.since, progress.launched_at) == (19.0, "shard 12/64", 3, 0)
    session.apply(OLD_ORDER[5])
    assert session.snapshot().progress.percent is None


def test_what_earlier_runs_took_is_shown_for_the_phase():
    expected = Expectation(at=0, run="old", phases_s={Phase.WEIGHTS.value: 300.0}, total_s=700.0)
    progress = fold(*OLD_ORDER[:4], expected).snapshot().progress
    assert (progress.expected_phase_s, progress.expected_total_s) == (300.0, 700.0)


@pytest.mark.parametrize(
    ("tail", "state"),
    [
        ([ServerReady(at=2, line=1)], State.RUNNING),
        ([Exited(at=2, code=0)], State.FAILED),
        ([Exited(at=2, code=137, signal="SIGKILL")], State.FAILED),
        ([Exited(at=2, code=0, requested=True)], State.STOPPED),
        ([ServerReady(at=2, line=1), Exited(at=3, code=None, signal="SIGKILL", requested=True)], State.STOPPED),
        ([ServerReady(at=2, line=1), Exited(at=3, code=0)], State.EXITED),
        ([ServerReady(at=2, line=1), Exited(at=3, code=1)], State.FAILED),
        ([ServerReady(at=2, line=1), Shutdown(at=3, line=2, text="SIGTERM received")], State.STOPPING),
        ([STOPPING], State.STOPPING),
        ([STOPPING, ServerReady(at=3, line=1)], State.STOPPING),
        ([STOPPING, Exited(at=3, code=1, requested=True), STOPPING], State.STOPPED),
    ],
)
def test_an_exit_before_ready_is_a_failed_start_whatever_the_code(tail, state):
    assert fold(LAUNCH, *tail).snapshot().state is state


def test_a_ready_line_is_no_proof_when_another_program_holds_the_port():
    foreign = Endpoint(at=1, url="http://x", state="foreign")
    snapshot = fold(LAUNCH, foreign, ServerReady(at=2, line=1)).snapshot()
    assert snapshot.state is State.STARTING
    assert "another program" in snapshot.state_reason


def test_an_attached_url_is_ready_when_its_endpoint_says_so():
    snapshot = fold(Attached(at=0, target="http://x"), Endpoint(at=1, url="http://x", state="ready")).snapshot()
    assert (snapshot.state, snapshot.progress.phase) == (State.RUNNING, Phase.SERVING)


def test_a_launched_server_is_not_ready_because_some_endpoint_answers():
    assert fold(LAUNCH, Endpoint(at=1, url="http://x", state="ready")).snapshot().state is State.STARTING


def test_a_log_that_begins_in_the_middle_is_a_serving_one():
    snapshot = fold(Attached(at=0, target="a.log"), DecodeBatch(at=5, line=1, gen_tok_s=80.0)).snapshot()
    assert (snapshot.state, snapshot.progress.phase) == (State.RUNNING, Phase.SERVING)


def test_a_second_launch_in_the_same_log_begins_a_new_life():
    snapshot = fold(Attached(at=0, target="a.log"), *OLD_ORDER[1:], ServerArgs(at=50, line=99, args={})).snapshot()
    assert (snapshot.state, snapshot.ready_at, snapshot.progress.launched_at) == (State.STARTING, None, 50)


def test_a_launch_forgets_the_old_server_but_keeps_the_plot():
    session = fold(LAUNCH, ServerReady(at=1, line=1), DecodeBatch(at=2, line=2, gen_tok_s=80.0, token_usage=0.5))
    session.extend([Exited(at=3, code=0, requested=True), Launched(at=4, run="s", profile="b", command=(), knobs={})])
    snapshot = session.snapshot()
    assert snapshot.gen_tok_s is None
    assert [point.gen_tok_s for point in snapshot.points] == [80.0]
    assert [mark.text for mark in snapshot.marks] == ["launch", "ready", "exit", "launch"]


def test_a_dead_server_has_no_throughput():
    session = fold(LAUNCH, ServerReady(at=1, line=1), DecodeBatch(at=2, line=2, gen_tok_s=80.0), Exited(at=3, code=1))
    assert session.snapshot().gen_tok_s is None


def test_of_a_log_alone_the_last_line_tells_the_end():
    last = Shutdown(at=9, line=9, text="kill_process_tree called: parent_pid=1")
    log = Attached(at=0, target="a.log")
    assert fold(log, *OLD_ORDER[1:], last).snapshot().state is State.EXITED
    asked = Shutdown(at=8, line=8, text="SIGTERM received. signum=None frame=None. Draining requests")
    assert fold(log, *OLD_ORDER[1:], asked, last).snapshot().state is State.STOPPED
    failed = fold(log, *OLD_ORDER[1:4], last).snapshot()
    assert (failed.state, failed.state_reason) == (State.FAILED, "ended before it was ready")
    assert fold(LAUNCH, ServerReady(at=1, line=1), last).snapshot().state is State.STOPPING


def test_a_log_whose_process_nobody_watches_tells_the_death_by_its_own_words():
    refused = Problem(at=1, line=1, code="bad-flag", text="error: unrecognized arguments: --x")
    snapshot = fold(Attached(at=0, target="a.log"), refused).snapshot()
    assert (snapshot.state, snapshot.state_reason) == (State.FAILED, "its command line was refused")
    # A keeper watches a launched server: its word about the exit comes, and counts.
    assert fold(LAUNCH, refused).snapshot().state is State.STARTING


def test_of_very_many_marks_the_newest_are_kept() -> None:
    session = Session()
    session.extend(Mark(at=float(number), text=f"mark {number}") for number in range(1000))
    marks = session.snapshot().marks
    assert len(marks) == MOST_MARKS
    assert marks[-1].text == "mark 999"
