"""The facts that the endpoint source makes of what servers say."""

import json
from typing import Any

import pytest
from endpoint_answers import INFO, NOW, OLD, RECORDED, SMALL, Connect, endpoint, kinds, only, recorded
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scripted import Scripted

from tui.factlines import dump_fact, load_fact
from tui.facts import Loads, Metrics, ServerInfo
from tui.sources import endpoint_shapes
from tui.sources.endpoints import (
    CHECK_S,
)


def no_control_characters(text: str) -> bool:
    return text.isprintable()


@pytest.mark.parametrize("name", ["plain", "eagle3", "standalone", "ngram"])
def test_recorded_server(server: Scripted, connect: Connect, name: str) -> None:
    server.replies = recorded(name)
    facts = connect(server.url).poll(NOW)

    assert kinds(facts) == ["Endpoint", "Metrics", "Loads", "ServerInfo"]
    assert all(fact.at == NOW for fact in facts)
    state = endpoint(facts)
    assert (state.url, state.state, state.detail) == (server.url, "ready", "")
    assert state.latency_s is not None
    info = only(facts, ServerInfo)
    assert (info.version, info.status) == ("0.5.23", "ready")
    assert info.args["device"] == "cpu"
    assert info.args["tp_size"] == 1
    assert "internal_states" not in info.args
    assert info.max_total_num_tokens == info.memory[0].token_capacity
    assert info.memory[0].kvcache_gib > 0
    assert set(info.memory[0].graphs_gib) >= {"decode", "target_verify", "draft_extend"}
    assert info.startup_time_s["load_weight"] > 0
    assert "--device" in info.launch_command
    assert (info.avg_accept_len[0] is None) == (name == "plain")
    (load,) = only(facts, Loads).loads
    entry = json.loads((RECORDED / name / "v1_loads.busy.json").read_text())["loads"][0]
    assert (load.dp_rank, load.running, load.waiting) == (0, entry["num_running_reqs"], entry["num_waiting_reqs"])
    assert (load.used_tokens, load.gen_tok_s, load.stamp) == (
        entry["num_used_tokens"],
        entry["gen_throughput"],
        entry["timestamp"],
    )
    assert load.max_total_num_tokens == info.max_total_num_tokens
    assert load.retracted == 0
    assert (load.accept_len is None) == (name == "plain")
    assert only(facts, Metrics).ranks[0].values["max_total_num_tokens"] == info.max_total_num_tokens


def test_two_dp_ranks(server: Scripted, connect: Connect) -> None:
    loads = {"loads": [{"dp_rank": 1, "num_running_reqs": 4, "timestamp": 9.5}, {"dp_rank": 0, "num_running_reqs": 3}]}
    states = [
        {"last_gen_throughput": 10.5, "memory_usage": {"weight": 1.5, "kvcache": 2.5, "graph": {"decode": 0.25}}},
        {"last_gen_throughput": None, "avg_spec_accept_length": 2.5, "memory_usage": {"graph": 0.75}},
        {"memory_usage": {"weight": 3.0, "cuda_graph": 0.5}},
        {},
    ]
    server.replies = {**SMALL, "/v1/loads": (200, loads), "/server_info": (200, {**INFO, "internal_states": states})}
    facts = connect(server.url).poll(NOW)
    assert [(load.dp_rank, load.running, load.stamp) for load in only(facts, Loads).loads] == [
        (1, 4, 9.5),
        (0, 3, None),
    ]
    info = only(facts, ServerInfo)
    assert info.last_gen_tok_s == (10.5, None, None, None)
    assert info.avg_accept_len == (None, 2.5, None, None)
    assert [(memory.weight_gib, dict(memory.graphs_gib)) for memory in info.memory] == [
        (1.5, {"decode": 0.25}),
        (None, {"decode": 0.75}),
        (3.0, {"decode": 0.5}),
        (None, {}),
    ]


def test_old_server_is_asked_by_the_old_names(server: Scripted, connect: Connect) -> None:
    server.replies = dict(OLD)
    source = connect(server.url)
    facts = source.poll(NOW)
    assert kinds(facts) == ["Endpoint", "Loads", "ServerInfo"]
    assert endpoint(facts).state == "ready"
    assert only(facts, ServerInfo).version == "0.4.9"
    (load,) = only(facts, Loads).loads
    assert (load.running, load.waiting, load.used_tokens) == (4, 3, None)  # its tokens count the waiting prompts too

    server.asked.clear()
    for second in (CHECK_S, 2 * CHECK_S):
        source.poll(NOW + second)
    assert set(server.asked) == {"/get_model_info", "/get_load"}  # what it lacked is not asked again


def test_secrets_are_masked(server: Scripted, connect: Connect) -> None:
    info = {**INFO, "api_key": "hush-1", "admin_api_key": "hush-2", "hf_token": "hush-3", "tokenizer_path": "t"}
    info |= {"ssl_keyfile_password": "hush-4", "launch_command": "--api-key hush-5 --port 1", "max_total_tokens": 5}
    server.replies = {**SMALL, "/server_info": (200, info)}
    found = only(connect(server.url).poll(NOW), ServerInfo)
    assert "hush" not in repr(found)
    assert (found.args["tokenizer_path"], found.args["max_total_tokens"]) == ("t", 5)
    assert found.args["api_key"] == "***"


def test_hostile_words_lose_their_control_characters(server: Scripted, connect: Connect) -> None:
    info = {**INFO, "version": "0.5\x1b[2J\r\n" + "x" * 500, "status": "re\x07ady"}
    server.replies = {**SMALL, "/server_info": (200, info)}
    found = only(connect(server.url).poll(NOW), ServerInfo)
    assert no_control_characters(found.version + found.status)
    assert len(found.version) == 80


@pytest.mark.parametrize("value", ["many", None, [1], {"a": 1}, True, 1e400, 10**400, 1.5])
def test_numbers_of_the_wrong_kind_are_unknown(server: Scripted, connect: Connect, value: Any) -> None:
    load = {"dp_rank": value, "num_running_reqs": value, "speculative": value, "queues": value, "memory": value}
    state = {"memory_usage": {"token_capacity": value}, "last_gen_throughput": "many"}
    info = {**INFO, "version": 5, "max_total_num_tokens": value, "internal_states": [state, value]}
    server.replies = {**SMALL, "/v1/loads": (200, {"loads": [load]}), "/server_info": (200, info)}
    facts = connect(server.url).poll(NOW)
    assert endpoint(facts).state == "ready"
    (read,) = only(facts, Loads).loads
    assert (read.dp_rank, read.running, read.accept_len, read.retracted) == (0, None, None, None)
    found = only(facts, ServerInfo)
    assert (found.version, found.max_total_num_tokens, found.memory[0].token_capacity) == (None, None, None)
    assert found.last_gen_tok_s[0] is None


KEYS = [
    "loads",
    "internal_states",
    "model_path",
    "tp_size",
    "memory_usage",
    "graph",
    "dp_rank",
    "speculative",
    "version",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=9),
    max_leaves=20,
)


@given(JSON)
@example({"model_path": "m", "tp_size": 1, "internal_states": [{"memory_usage": {"graph": [1]}}]})
@settings(max_examples=150, deadline=None)
def test_no_json_is_too_strange(data: Any) -> None:
    info = endpoint_shapes.server_info(data, NOW)
    assert (info is None) or {"model_path"} <= info.args.keys()
    found = endpoint_shapes.loads(data, NOW)
    assert found is None or all(isinstance(load.dp_rank, int) for load in found.loads)
    if info is not None:
        assert load_fact(dump_fact(info)) is not None
