"""The bars account for every GiB: segments sum to the total, ranks land on their GPUs, growth goes to its phase."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.facts import GpuProcess, GpuReading, GpuSample
from tui.session.bars import BarInputs, gpu_index, make_bars
from tui.snapshot import SEGMENTS, GpuBar, Phase, RankMemory, Source

SERVER, STRANGER = 100, 999


def reading(
    index: int = 0, *, total: float = 95.6, free: float = 10.0, mine: float = 80.0, theirs: float = 0.0, **more
) -> GpuReading:
    processes = [GpuProcess(pid=SERVER, used_gib=mine)]
    if theirs:
        processes.append(GpuProcess(pid=STRANGER, used_gib=theirs, name="jupyter"))
    return GpuReading(
        index=index,
        uuid=f"GPU-{index}",
        name="RTX PRO 6000",
        total_gib=total,
        free_gib=free,
        used_gib=total - free,
        processes=tuple(processes),
        **more,
    )


def bars(*gpus: GpuReading, ranks=(), phases=None, source="nvml", **more) -> tuple[GpuBar, ...]:
    inputs = BarInputs(
        ranks=tuple(ranks),
        sample=GpuSample(at=0, source=source, gpus=gpus),
        pids=frozenset({SERVER}),
        args=more.pop("args", {}),
        phases=phases or {},
        **more,
    )
    return make_bars(inputs)


def gib(bar: GpuBar, name: str) -> float | None:
    return bar.segments[name].gib


RANK = RankMemory(
    rank="TP0",
    free_before=94.08,
    base=72.33,
    draft=1.5,
    kv_base=7.0,
    kv_draft=0.2,
    graphs_base=1.0,
    graphs_draft=0.5,
    free=10.0,
)


def test_named_segments_come_from_the_log_and_the_rest_is_other():
    (bar,) = bars(reading(), ranks=[RANK])
    assert (gib(bar, "base"), gib(bar, "draft"), gib(bar, "graphs")) == (72.33, 1.5, 1.5)
    assert gib(bar, "kv") == pytest.approx(7.2)
    assert gib(bar, "other") == pytest.approx(85.6 - 82.53)
    assert gib(bar, "free") == 10.0
    assert bar.segments["base"].source is Source.MEASURED


def test_memory_of_other_processes_is_foreign_and_named():
    (bar,) = bars(reading(theirs=2.0), ranks=[RANK])
    assert gib(bar, "foreign") == 2.0
    assert bar.foreign == ("jupyter 999: 2.0 GiB",)
    assert gib(bar, "other") == pytest.approx(85.6 - 82.53 - 2.0)


def test_foreign_memory_that_the_driver_hides_is_unknown_not_zero():
    (bar,) = bars(reading(processes_note="processes hidden (container)"), ranks=[RANK])
    assert bar.segments["foreign"].source is Source.UNKNOWN
    assert "hidden" in bar.note


def test_what_was_not_logged_is_unknown_not_zero():
    (bar,) = bars(reading(), ranks=[RankMemory(rank="TP0", base=72.33)])
    assert gib(bar, "draft") is None
    assert gib(bar, "kv") is None


def test_while_weights_load_the_growth_is_drawn_as_base():
    rank = RankMemory(rank="TP0", free_before=94.08)
    (bar,) = bars(reading(free=54.08), ranks=[rank], phases={"TP0": Phase.WEIGHTS})
    assert gib(bar, "base") == pytest.approx(40.0)
    assert bar.segments["base"].source is Source.ESTIMATED


def test_growth_in_capture_is_added_to_the_graphs_logged_so_far():
    rank = RankMemory(rank="TP0", free_before=94.0, base=70.0, kv_base=10.0, graphs_base=1.0, free=12.0)
    (bar,) = bars(reading(free=10.5), ranks=[rank], phases={"TP0": Phase.GRAPHS})
    assert gib(bar, "graphs") == pytest.approx(2.5)


def test_reserved_memory_that_is_not_touched_yet_is_taken_from_free_and_said():
    rank = RankMemory(rank="TP0", free_before=21.0, base=0.5, kv_base=3.0, free=17.0)
    (bar,) = bars(reading(total=24.0, free=20.0, mine=4.0), ranks=[rank])
    assert gib(bar, "other") == pytest.approx(0.5)
    (bar,) = bars(reading(total=24.0, free=22.0, mine=2.0), ranks=[rank])
    assert gib(bar, "free") == pytest.approx(20.5)
    assert "not yet touched" in bar.note


def test_a_negative_graph_usage_is_no_segment():
    (bar,) = bars(reading(), ranks=[RankMemory(rank="TP0", base=12.91, graphs_base=-5.29)])
    assert gib(bar, "graphs") == 0.0


def test_without_a_driver_the_log_makes_the_bars():
    (bar,) = make_bars(BarInputs(ranks=(RANK,), args={}, phases={}))
    assert bar.total_gib == 94.08
    assert bar.rank == "TP0"
    assert gib(bar, "foreign") is None


def test_a_lost_gpu_keeps_its_row_and_its_error():
    lost = GpuReading(index=1, uuid="GPU-1", name="H200", error="fell off the bus")
    _, bar = bars(reading(), lost, ranks=[RANK])
    assert bar.error == "fell off the bus"
    assert all(amount.gib is None for amount in bar.segments.values())


def test_the_host_bar_sums_all_ranks():
    host = reading(total=24.0, free=18.0, mine=5.0)
    ranks = [RankMemory(rank=f"TP{i}", base=1.0, kv_base=0.5) for i in range(2)]
    (bar,) = bars(host, ranks=ranks, source="host")
    assert (gib(bar, "base"), gib(bar, "kv")) == (2.0, 1.0)


def test_a_dead_server_owns_nothing():
    (bar,) = bars(reading(free=95.0, mine=0.1), ranks=[RANK], alive=False)
    assert gib(bar, "base") == 0.0
    assert bar.budget_gib is None


def test_the_budget_tick_is_the_fraction_of_the_smallest_rank():
    ranks = [RANK, RankMemory(rank="TP1", free_before=90.0)]
    first, second = bars(reading(0), reading(1), ranks=ranks, fraction=0.8)
    assert first.budget_gib == second.budget_gib == pytest.approx(72.0)


def test_before_0_5_14_the_draft_does_not_count_against_the_budget():
    (bar,) = bars(reading(), ranks=[RANK], fraction=0.8, draft_outside_fraction=True)
    assert bar.budget_gib == pytest.approx(94.08 * 0.8 + 1.5)


def test_the_tightest_gpu_is_marked_only_when_one_is_tighter():
    assert [bar.tight for bar in bars(reading(0), reading(1, free=3.0))] == [False, True]
    assert [bar.tight for bar in bars(reading(0), reading(1))] == [False, False]


def test_cuda_visible_devices_moves_the_ranks():
    first, second = bars(reading(0), reading(1), ranks=[RANK], visible_uuids=("GPU-1",))
    assert (first.rank, second.rank) == (None, "TP0")


@pytest.mark.parametrize(
    ("rank", "args", "index"),
    [
        ("TP3", {"tp_size": 8}, 3),
        ("DP1", {"dp_size": 2}, 1),
        ("DP1 TP1", {"tp_size": 2, "dp_size": 2}, 3),
        ("DP7 TP7", {"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}, 7),
        ("PP1 TP0", {"tp_size": 4, "pp_size": 2}, 4),
        ("TP1", {"tp_size": 2, "base_gpu_id": 4}, 5),
        ("TP1", {"tp_size": 2, "gpu_id_step": 2}, 2),
        ("TP0", {}, 0),
    ],
)
def test_rank_names_lead_to_gpus(rank, args, index):
    assert gpu_index(rank, args) == index


amounts = st.none() | st.floats(-6, 60, allow_nan=False)


@given(
    rank=st.builds(
        RankMemory,
        rank=st.just("TP0"),
        free_before=st.none() | st.floats(0, 95),
        base=amounts,
        draft=amounts,
        kv_base=amounts,
        kv_draft=amounts,
        state=amounts,
        graphs_base=amounts,
        graphs_draft=amounts,
        free=amounts,
    ),
    free=st.floats(0, 95.6),
    theirs=st.floats(0, 30),
    phase=st.sampled_from(list(Phase)),
    usage=st.none() | st.floats(-1, 2),
)
@settings(max_examples=300)
def test_the_segments_of_a_measured_bar_sum_to_its_total_unless_the_log_names_more_than_there_is(
    rank, free, theirs, phase, usage
):
    (bar,) = bars(reading(free=free, theirs=theirs), ranks=[rank], phases={"TP0": phase}, token_usage=usage)
    known = [bar.segments[name].gib or 0.0 for name in SEGMENTS]
    assert all(value >= 0 for value in known)
    named_or_foreign = sum(known) - (gib(bar, "free") or 0.0)
    if named_or_foreign <= 95.6 or gib(bar, "free"):
        assert sum(known) == pytest.approx(max(95.6, named_or_foreign), abs=1e-6)
