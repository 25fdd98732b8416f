"""A rehearsed server at work: traffic, requests, scenarios, repetition."""

import json
import statistics
import urllib.error
import urllib.request
from typing import Any

import pytest

from tui.facts import DecodeBatch, Problem

READY = ("--mem-fraction-static", "0.85")


def ask(server, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> tuple[int, str]:
    request = urllib.request.Request(
        server.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {}),
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def counter(server, name: str) -> float:
    _, page = ask(server, "/metrics")
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.split("\n") if line.startswith(f"sglang:{name}{{"))


def rates(server, count: int) -> list[DecodeBatch]:
    server.wait_for(lambda: server.text().count("Decode batch") > count, f"{count} decode lines")
    return [fact for fact in server.read() if isinstance(fact, DecodeBatch)][1:]


@pytest.mark.parametrize(("graph", "tok_s"), [("512", 82.0), ("128", 89.5)])
def test_the_baselines_of_the_story(start, kimi, graph: str, tok_s: float) -> None:
    server = start("0.5.9", (*kimi, "--cuda-graph-max-bs", graph), serving_speed=60)
    found = rates(server, 16)
    assert statistics.median(fact.gen_tok_s for fact in found) == pytest.approx(tok_s, rel=0.006)
    assert {fact.running for fact in found} == {1}


def test_the_same_seed_repeats_the_log(start, eagle3) -> None:
    flags = (*eagle3, "--cuda-graph-max-bs", "128", *READY)
    servers = [start("0.5.12", flags, seed=seed, serving_speed=100) for seed in (5, 5, 6)]
    for server in servers:
        server.wait_for(lambda server=server: server.text().count("Decode batch") > 12, "decode lines")
    logs = []
    for server in servers:
        lines = server.normalised()
        tenth = [i for i, line in enumerate(lines) if "Decode batch" in line][9]
        logs.append(lines[: tenth + 1])
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]


def test_requests_take_their_time_and_are_counted(start, eagle3) -> None:
    server = start("0.5.23", (*eagle3, *READY, "--api-key", "key"), concurrency=0)
    server.wait_ready()
    assert ask(server, "/v1/models")[0] == 401
    assert ask(server, "/ready")[0] == 200
    before = counter(server, "generation_tokens_total")
    status, text = ask(server, "/generate", {"text": "x" * 400, "sampling_params": {"max_new_tokens": 60}}, "key")
    assert status == 200
    meta = json.loads(text)["meta_info"]
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (100, 60)
    assert 20 < meta["spec_verify_ct"] < 60
    chat = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 40, "stream": True}
    status, text = ask(server, "/v1/chat/completions", chat, "key")
    pieces = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    assert pieces[-1] == "[DONE]"
    assert json.loads(pieces[-2])["usage"]["completion_tokens"] == 40
    words = "".join(json.loads(piece)["choices"][0]["delta"].get("content", "") for piece in pieces[:-1])
    assert len(words.split()) == 40
    assert counter(server, "generation_tokens_total") - before == 100
    loads = json.loads(ask(server, "/v1/loads?include=core,spec", key="key")[1])["loads"]
    assert loads[0]["num_running_reqs"] == 0
    assert 1.8 < loads[0]["speculative"]["accept_length"] < 2.6
    assert "memory" not in loads[0]
    too_long = {"input_ids": [1] * 200_000}
    assert ask(server, "/generate", too_long, "key")[0] == 400
    assert ask(server, "/nowhere", key="key")[0] == 404
    assert "POST /generate HTTP/1.1" in server.text()


def test_endpoints_appear_and_go_with_the_versions(start, kimi) -> None:
    flags = [flag for flag in (*kimi, *READY) if flag != "--enable-metrics"]
    old, new = start("0.5.2", flags, concurrency=0), start("0.5.23", flags, concurrency=0)
    for server in (old, new):
        server.wait_ready()
    paths = ("/server_info", "/get_server_info", "/v1/loads", "/get_load", "/ready", "/health", "/metrics")
    assert [ask(old, path)[0] for path in paths] == [404, 200, 404, 200, 404, 200, 404]
    assert [ask(new, path)[0] for path in paths] == [200, 200, 200, 404, 200, 200, 404]


def test_running_requests_are_drained(start, kimi) -> None:
    server = start("0.5.23", (*kimi, *READY), serving_speed=4)
    server.wait_for_text("Decode batch")
    assert server.stop() == 0
    left = [line for line in server.lines() if "Gracefully exiting" in line]
    assert "requests 1." in left[0]
    assert "requests 0." in left[-1]
    assert "Finished server process" in server.text()


def test_a_dead_dp_rank_is_silent_and_its_stamp_stands_still(start, kimi) -> None:
    flags = (*kimi, *READY, "--dp-size", "2", "--enable-dp-attention")
    server = start("0.5.12", flags, scenario="dead-dp-rank")
    server.wait_for_text("DP1 TP4] Decode batch")
    # 12 simulated seconds at 20 a second, then the other rank alone goes on.
    stamps = []

    def stands_still() -> bool:
        loads = json.loads(ask(server, "/v1/loads")[1])["loads"]
        stamps.append([load["timestamp"] for load in loads])
        return len(stamps) > 5 and stamps[-1][1] == stamps[-4][1] and stamps[-1][0] > stamps[-4][0]

    server.wait_for(stands_still, "rank that stands still")
    silent = server.text().count("DP1 TP4]")
    others = server.text().count("DP0 TP0] Decode batch")
    server.wait_for(lambda: server.text().count("DP0 TP0] Decode batch") > others + 2, "more lines of DP0")
    assert server.text().count("DP1 TP4]") == silent
    assert "error" not in server.text().lower()


def test_a_hang_ends_in_the_watchdog(start, kimi) -> None:
    server = start("0.5.9", (*kimi, *READY), scenario="hang")
    assert server.wait_end() == -9
    facts = server.read()
    assert "watchdog-timeout" in {fact.code for fact in facts if isinstance(fact, Problem)}
    assert [fact for fact in facts if isinstance(fact, DecodeBatch)]


def test_too_many_requests_are_retracted(start, kimi) -> None:
    server = start("0.5.9", (*kimi, "--mem-fraction-static", "0.78"), scenario="retract", serving_speed=200)
    server.wait_for_text("Retract requests")
    retracted = next(fact for fact in server.read() if isinstance(fact, Problem) and fact.code == "kv-retracted")
    assert retracted.numbers["requests"] >= 1
    assert counter(server, "num_retracted_requests_total") >= 1


def test_low_acceptance_shows_in_the_log(start, eagle3) -> None:
    server = start("0.5.9", (*eagle3, "--cuda-graph-max-bs", "128", *READY), scenario="low-acceptance")
    found = rates(server, 4)
    assert all(fact.accept_len < 1.4 and fact.gen_tok_s < 89.5 for fact in found)
