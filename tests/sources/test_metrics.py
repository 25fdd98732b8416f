from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tui.sources.metrics import WANTED, parse_metrics

RECORDED = Path(__file__).parent.parent / "fixtures" / "sglang-0.5.23"


def recorded(name: str) -> str:
    return (RECORDED / name / "metrics.txt").read_text()


def one(text: str) -> dict[str, float]:
    (rank,) = parse_metrics(text)
    return dict(rank.values)


@pytest.mark.parametrize("name", ["plain", "eagle3", "standalone", "ngram"])
def test_recorded_pages(name: str) -> None:
    text = recorded(name)
    (rank,) = parse_metrics(text)  # one scheduler, so no rank label
    assert rank.dp_rank is None
    assert rank.values["max_total_num_tokens"] > 0
    assert rank.values["realtime_tokens_total.decode"] > 0
    assert {key.partition(".")[0] for key in rank.values} <= WANTED
    assert ("spec_verify_calls_total" in rank.values) == (name != "plain")
    assert "fwd_occupancy" not in rank.values  # NaN on a CPU
    # Counters split by streaming or not are one number.
    lines = [line for line in text.splitlines() if line.startswith("sglang:generation_tokens_total{")]
    assert rank.values["generation_tokens_total"] == sum(float(line.rpartition(" ")[2]) for line in lines)


def test_one_entry_per_dp_rank_and_one_for_the_rest() -> None:
    page = """\
# HELP sglang:gen_throughput The generation throughput (token/s).
# TYPE sglang:gen_throughput gauge
sglang:gen_throughput{dp_rank="1",model_name="m",tp_rank="1"} 20.5
sglang:gen_throughput{dp_rank="0",model_name="m",tp_rank="0"} 10.5
sglang:gen_throughput{dp_rank="10",model_name="m",tp_rank="0"} 30.5
sglang:generation_tokens_total{model_name="m"} 7.0
"""
    ranks = parse_metrics(page)
    assert [(rank.dp_rank, rank.values) for rank in ranks] == [
        (0, {"gen_throughput": 10.5}),
        (1, {"gen_throughput": 20.5}),
        (10, {"gen_throughput": 30.5}),
        (None, {"generation_tokens_total": 7.0}),
    ]


def test_first_scheduler_of_a_rank_speaks() -> None:
    page = "".join(
        f'sglang:gen_throughput{{pp_rank="{pp}",tp_rank="{tp}"}} {100 * pp + tp}\n'
        for pp, tp in ((1, 0), (0, 3), (0, 1), (0, 2), (1, 1))
    )
    assert one(page) == {"gen_throughput": 1.0}


def test_schedulers_counters_are_not_added_up() -> None:
    page = """\
sglang:realtime_tokens_total{mode="decode",tp_rank="1"} 50
sglang:realtime_tokens_total{mode="decode",tp_rank="0"} 50
sglang:realtime_tokens_total{mode="decode",tp_rank="2"} 50
sglang:realtime_tokens_total{mode="prefill_cache",tp_rank="0"} 8
"""
    assert one(page) == {"realtime_tokens_total.decode": 50.0, "realtime_tokens_total.prefill_cache": 8.0}


def test_counters_split_by_other_labels_are_added_up_and_gauges_are_not() -> None:
    page = """\
sglang:cached_tokens_total{cache_source="device"} 5
sglang:cached_tokens_total{cache_source="host"} 6
sglang:num_running_reqs{priority="1"} 5
sglang:num_running_reqs{priority="2"} 6
"""
    assert one(page) == {"cached_tokens_total": 11.0, "num_running_reqs": 5.0}


@pytest.mark.parametrize(
    "line",
    [
        "sglang:token_usage 0.25",
        "sglang_token_usage 0.25",
        'sglang:token_usage{model_name="a"} 0.25',
        'sglang_token_usage{ model_name = "a" , } 0.25 1700000000000',
        'sglang:token_usage{model_name="odd } # \\" name, mode=x"}  2.5e-1',
        'sglang:token_usage{dp_rank=""} 0.25\r',
        'sglang:token_usage{a="b"} 0.25 # {trace_id="x"} 1.0',
    ],
)
def test_spellings(line: str) -> None:
    assert one(f"# TYPE x gauge\n{line}\nother 1\n") == {"token_usage": 0.25}


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html>no metrics here</html>",
        'vllm:gen_throughput{model_name="a"} 3\n',
        "xsglang:token_usage 1\n",
        "sglang:token_usage_bucket 1\n",
        "sglang:token_usage",
        "sglang:token_usage \n",
        "sglang:token_usage NaN\nsglang:gen_throughput +Inf\n",
        'sglang:token_usage{model_name="never closed} 1\n',
        "sglang:token_usage{} ten\n",
    ],
)
def test_nothing_of_sglang(page: str) -> None:
    assert parse_metrics(page) == ()


@given(st.lists(st.sampled_from([*'{}",\\= \n\x00é:.0129NaN', "sglang:token_usage", 'dp_rank="1"']), max_size=60))
@example(["sglang:token_usage{dp_rank=", '"', "9" * 5000, '"', "} 1"])
@settings(max_examples=200, deadline=None)
def test_no_page_is_too_broken(parts: list[str]) -> None:
    for rank in parse_metrics("".join(parts)):
        assert set(rank.values) <= {"token_usage"}
