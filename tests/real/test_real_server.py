"""The real server itself, before specdeck touches it: it starts from a profile, drafts well, and leaves nothing."""

import re

import psutil
import pytest
import serving

pytestmark = pytest.mark.sglang


def test_eagle3_profile_serves_and_its_draft_is_often_right(launch, load) -> None:
    with launch("tiny-eagle3") as server:
        server.wait_ready()
        load(server.base_url, 4, 60)
        info = serving.server_info(server.base_url)
        accepted = info["internal_states"][0]["avg_spec_accept_length"]
        log = server.text()
        tree = server.tree()
    loaded = re.findall(r"Load weight end\..* type=(\w+),", log)
    assert loaded == ["LlamaForCausalLM", "LlamaForCausalLMEagle3"]
    assert "max_total_num_tokens=20000," in log
    assert info["max_total_num_tokens"] == 20000
    # 1 would mean that no draft token is ever accepted, 4 that all are.
    assert 1.5 < accepted < 4.0
    assert len(tree) >= 3
    _, left = psutil.wait_procs(tree, timeout=5)
    assert left == []


def test_a_launch_that_fails_is_told_with_the_servers_last_lines(launch) -> None:
    told = pytest.raises(serving.LaunchError, match=r"ended with 2:(?s:.*)unrecognized arguments: --no-such-flag")
    with launch("tiny-plain", {"no-such-flag": True}) as server, told:
        server.wait_ready()
