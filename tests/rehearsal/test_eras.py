"""A start in each era: lines that the grammar reads into the expected split, endpoints, the end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tui.facts import Endpoint, GraphEnd, KvPool, Loads, Metrics, PoolSummary, ServerArgs, ServerInfo, VersionHint
from tui.procid import process_id
from tui.sglang.versions import parse_version
from tui.sources.endpoints import EndpointSource
from tui.sources.proctree import server_tree

Graphs = Callable[[str, int], tuple[str, str]]
VERSIONS = ("0.4.6", "0.5.2", "0.5.5", "0.5.9", "0.5.12", "0.5.23")
# Kimi-K2.5 with the draft at 0.85: P = 94.08, 70 272 B per token, A with or without 1.5 GiB of draft. Up to 0.5.6
# 48 slots x (2 steps x top-k 4 + 4 draft tokens) + 100 are added; 0.5.23 divides by 71 424 and keeps 0.1 GiB.
TOKENS = {"0.4.6": 117383, "0.5.2": 117383, "0.5.5": 117383, "0.5.9": 116707, "0.5.12": 116707, "0.5.23": 90806}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_life_with_a_draft(start, eagle3, graphs: Graphs, version: str) -> None:
    server = start(version, (*eagle3, *graphs(version, 128), "--mem-fraction-static", "0.85"))
    server.wait_for_text("Decode batch")
    check_split(server, version)
    check_hints(server, version)
    check_endpoints(server, version)
    check_end(server, version)


def check_split(server, version: str) -> None:
    ranks = server.ledger()
    assert [rank.rank for rank in ranks] == [f"TP{i}" for i in range(8)]
    assert {rank.base for rank in ranks} == {72.33}
    assert {rank.draft for rank in ranks} == {1.5}
    assert min(rank.free_before for rank in ranks) == 94.08
    assert {rank.kv_tokens for rank in ranks} == {TOKENS[version]}
    assert {rank.draft_class for rank in ranks} == {"LlamaForCausalLMEagle3"}
    first = ranks[0]
    assert first.kv_base == pytest.approx(TOKENS[version] * 70272 / 2**30, abs=0.006)
    assert first.kv_draft == pytest.approx(TOKENS[version] * 512 / 2**30, abs=0.011)
    assert first.graphs_base is not None
    assert first.graphs_base > 0.1
    assert first.graphs_draft is not None
    # 0.37 GiB of workspaces and the request table remain.
    assert first.other == pytest.approx(0.39, abs=0.05)
    assert all(not rank.notes for rank in ranks), ranks[0].notes


def check_endpoints(server, version: str) -> None:
    source = EndpointSource(server.url)
    facts = source.poll(1e9)
    source.close()
    kinds = {type(fact): fact for fact in facts}
    assert kinds[Endpoint].state == "ready", kinds[Endpoint]
    info = kinds[ServerInfo]
    assert info.version == version
    assert info.max_total_num_tokens == TOKENS[version]
    assert info.args["speculative_num_draft_tokens"] == 4
    values = {name: value for rank in kinds[Metrics].ranks for name, value in rank.values.items()}
    assert values["num_running_reqs"] == 1
    assert values["generation_tokens_total"] > 40
    assert 1.8 < values["spec_accept_length"] < 2.6
    if version != "0.4.6":
        assert kinds[Loads].loads[0].running == 1
        assert info.memory[0].weight_gib == pytest.approx(72.33, abs=0.001)


def check_end(server, version: str) -> None:
    me = process_id(server.process.pid)
    assert me is not None
    tree = server_tree(me)
    titles = sorted(tree.names.values())
    assert [title for title in titles if "scheduler" in title] == [f"sglang::scheduler_TP{i}" for i in range(8)]
    assert "sglang::detokenizer" in titles
    code = server.stop()
    assert code == (0 if version == "0.5.23" else -9)
    server.wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in tree.pids), "end of the children")
    assert "Gracefully exiting" in server.text()


def check_hints(server, version: str) -> None:
    facts = server.read()
    asked = parse_version(version)
    assert asked is not None
    for hint in (fact for fact in facts if isinstance(fact, VersionHint)):
        oldest, newest = parse_version(hint.at_least), parse_version(hint.at_most)
        assert oldest is None or oldest.release <= asked.release, hint
        assert newest is None or asked.release <= newest.release, hint


@pytest.mark.parametrize("version", ["0.5.5", "0.5.23"])
def test_lines_are_those_of_the_version(start, kimi, graphs: Graphs, version: str) -> None:
    server = start(version, (*kimi, *graphs(version, 128), "--mem-fraction-static", "0.85"))
    server.wait_for_text("Decode batch")
    facts = server.read()
    asked = parse_version(version)
    assert asked is not None
    args = next(fact for fact in facts if isinstance(fact, ServerArgs))
    assert args.resolved == asked.at_least(0, 5, 19)
    assert args.args["mem_fraction_static"] == 0.85
    assert len([fact for fact in facts if isinstance(fact, KvPool)]) == 8
    assert len([fact for fact in facts if isinstance(fact, PoolSummary)]) == 1
    ends = {fact.name for fact in facts if isinstance(fact, GraphEnd)}
    assert ends == ({"target prefill", "target decode"} if version == "0.5.23" else {"target decode"})
