# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Decode and prefill lines of every era, the gate before them, and the sieve for long logs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.facts import DecodeBatch, PrefillBatch, Problem
from tui.sglang.bulk import interesting, sift
from tui.sglang.gates import gate, gate_bytes
from tui.sglang.grammar import LogGrammar
from tui.sglang.problems import RULES
from tui.sglang.startup_lines import READERS

STAMP = "[2026-11-29 12:00:00 TP0] "


def _one(read, line, kind):
    (fact,) = [fact for fact in read([line]) if isinstance(fact, kind)]
    return fact


@pytest.mark.parametrize("version", ["0.4.6", "0.5.3", "0.5.4", "0.5.23"])
def test_decode_of_every_era(version, decode_line, read):
    fact = _one(read, decode_line(version), DecodeBatch)
    assert (fact.rank, fact.running, fact.queue, fact.tokens, fact.token_usage) == ("TP0", 9, 2, 543, 0.03)
    assert (fact.accept_len, fact.accept_rate, fact.gen_tok_s, fact.graph) == (2.41, 0.47, 394.28, True)
    assert fact.more == {}


def test_decode_without_speculation(decode_line, read):
    fact = _one(read, decode_line(**{"accept len": None, "accept rate": None, "cuda graph": False}), DecodeBatch)
    assert (fact.accept_len, fact.accept_rate, fact.graph) == (None, None, False)


@pytest.mark.parametrize("label", ["cpu graph", "npu graph"])
def test_graph_of_another_device(label, decode_line, read):
    fact = _one(read, decode_line(**{"cuda graph": None, label: False}), DecodeBatch)
    assert fact.graph is False


def test_decode_of_a_hybrid_model(read):
    line = (
        STAMP + "Decode batch, #running-req: 4, #full token: 2642688, full token usage: 1.00, #swa token: 14592, "
        "swa token usage: 0.06, mamba num: 12, mamba usage: 0.30, cuda graph: True, gen throughput (token/s): 429.34, "
        "#queue-req: 3, est. decode TFLOPS/s (per GPU): 1.50, fwd occupancy: 93.10%"
    )
    fact = _one(read, line, DecodeBatch)
    assert (fact.tokens, fact.token_usage, fact.queue, fact.gen_tok_s) == (2642688, 1.0, 3, 429.34)
    assert fact.more == {
        "#full token": 2642688,
        "full token usage": 1.0,
        "#swa token": 14592,
        "swa token usage": 0.06,
        "mamba num": 12,
        "mamba usage": 0.3,
        "est. decode TFLOPS/s (per GPU)": 1.5,
        "fwd occupancy": 93.1,
    }


def test_decode_under_disaggregation_and_with_iteration(read):
    line = (
        STAMP + "Decode batch [2041], #running-req: 4, #token: 9, token usage: 0.10, pre-allocated usage: 0.20, "
        "#prealloc-req: 1, #transfer-req: 2, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 1.00, "
        "#queue-req: 3"
    )
    fact = _one(read, line, DecodeBatch)
    assert (fact.running, fact.token_usage, fact.queue) == (4, 0.1, 3)
    assert fact.more == {"pre-allocated usage": 0.2, "#prealloc-req": 1, "#transfer-req": 2, "#retracted-req": 0}


def test_a_cut_decode_line_gives_what_it_holds(decode_line, read):
    line = decode_line()
    fact = _one(read, line[: line.index("True") + 3], DecodeBatch)
    assert (fact.running, fact.accept_rate, fact.graph, fact.gen_tok_s, fact.queue) == (9, 0.47, None, None, None)


@given(st.permutations(["#running-req: 9", "#token: 543", "accept len: 2.41", "#queue-req: 2", "token usage: 0.03"]))
@settings(max_examples=30, deadline=None)
def test_pairs_in_any_order(pairs):
    line = STAMP + "Decode batch, " + ", ".join(pairs)
    (fact,) = [fact for fact in LogGrammar().feed(1, line, 0.0) if isinstance(fact, DecodeBatch)]
    assert (fact.running, fact.tokens, fact.accept_len, fact.queue, fact.token_usage) == (9, 543, 2.41, 2, 0.03)


def test_the_quick_way_gives_the_same_as_the_long_way(decode_line):
    line = decode_line()
    grammar = LogGrammar()
    long_way = grammar.feed(1, line, 0.0)[0]
    assert grammar.feed(1, line, 0.0) == [long_way]
    glued = grammar.feed(1, line + line, 0.0)
    assert glued == [long_way, long_way]


@pytest.mark.parametrize(
    ("line", "queue", "usage", "speed"),
    [
        (
            "Prefill batch. #new-seq: 1, #new-token: 28, #cached-token: 5, token usage: 0.20, #running-req: 3, #queue-req: 4, ",
            4,
            0.2,
            None,
        ),
        (
            "Prefill batch, #new-seq: 1, #new-token: 28, #cached-token: 5, full token usage: 0.20, swa token usage: 0.10, #running-req: 3, #queue-req: 4, #pending-token: 0, cuda graph: False, input throughput (token/s): 26.05",
            4,
            0.2,
            26.05,
        ),
        (
            "Prefill batch [7], #new-seq: 1, #new-token: 28, #cached-token: 5, token usage: 0.20, #running-req: 3, #queue-req: 4, #bootstrap-req: 1, #inflight-req: 2",
            4,
            0.2,
            None,
        ),
    ],
)
def test_prefill(read, line, queue, usage, speed):
    fact = _one(read, STAMP + line, PrefillBatch)
    assert (fact.new_seq, fact.new_tokens, fact.cached_tokens, fact.running) == (1, 28, 5, 3)
    assert (fact.queue, fact.token_usage, fact.input_tok_s) == (queue, usage, speed)


def test_what_a_user_wrote_to_the_model_is_no_log_line(decode_line, read):
    assert read([STAMP + f"Receive: obj=GenerateReqInput(text='{decode_line()[26:]} ptxas fatal: x')"]) == []


def test_the_gate_lets_every_needle_pass():
    needles = [rule.needle for rule in RULES if not rule.exception]
    needles += [needle for needle, _ in READERS if needle != "shards"]
    for needle in needles:
        assert gate()(f"some {needle} text"), needle
        assert gate_bytes()(f"some {needle} text".encode()), needle


def test_the_gate_stops_ordinary_lines():
    for line in (
        '[2026-11-29 13:16:41] INFO:     127.0.0.1:33192 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "[2026-11-29 13:16:41 TP0] Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False",
        "plain words of another program",
    ):
        assert not gate()(line)
        assert not gate_bytes()(line.encode())


def test_what_the_sieve_keeps(writer, decode_line, traceback_text):
    for line in writer("0.5.23", tp=2, spec=True).start():
        known = "INFO:     Started server process" not in line
        assert interesting(line.encode()) is known, line
    for line in traceback_text.split("\n"):
        assert interesting(line.encode()), line
    assert not interesting(decode_line().encode())
    assert not interesting(b"sglang-1  | " + decode_line().encode())
    assert not interesting(b'[2026-11-29 13:16:41] INFO:     1.2.3.4:1 - "GET /health HTTP/1.1" 200 OK')
    assert interesting(decode_line().encode() + b"[2026-11-29 13:00:01 TP0] Scheduler hit an exception: Traceback")


_LINES = {
    "decode": b"[2026-11-29 13:16:41 TP0] Decode batch, #running-req: 1, #token: 2, #queue-req: 0" + b" " * 60,
    "access": b'[2026-11-29 13:16:41] INFO:     1.2.3.4:1 - "GET /health HTTP/1.1" 200 OK',
    "text": b"words",
    "stamped": b"[2026-11-29 13:16:41 TP0] nothing of note",
    "problem": b"[2026-11-29 13:16:41] Received sigquit from a child process. It usually means the child failed.",
}
_LINES["two decodes"] = _LINES["decode"] * 2
_LINES["decode and access"] = _LINES["decode"] + _LINES["access"]
_LINES["decode and problem"] = _LINES["decode"] + _LINES["problem"]


@given(
    st.lists(st.sampled_from(sorted(_LINES)), max_size=300), st.booleans(), st.sampled_from([b"", b"[pod/s-0/main] "])
)
@settings(max_examples=80, deadline=None)
def test_sifting_a_block_is_the_same_as_asking_every_line(kinds, ended, transport):
    lines = [transport + _LINES[kind] for kind in kinds]
    block = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    found, following = sift(block, 7)
    count = block.count(b"\n") + (1 if block and not block.endswith(b"\n") else 0)
    assert following == 7 + count
    assert found == [(7 + i, line) for i, line in enumerate(lines[:count]) if interesting(line)]


def test_a_failure_among_many_decode_lines_is_found(decode_line, traceback_text):
    head = (
        STAMP
        + "Scheduler hit an exception: "
        + traceback_text
        + "RuntimeError: CUDA error: an illegal memory access was encountered"
    )
    lines = [decode_line(second=i) for i in range(5000)]
    lines[4000:4000] = head.split("\n")
    found, following = sift("\n".join(lines).encode(), 1)
    assert following == len(lines) + 1
    grammar = LogGrammar()
    facts = [fact for number, raw in found for fact in grammar.feed(number, raw.decode(), 0.0)]
    facts += grammar.finish(0.0)
    assert len(found) < 10
    assert [fact.code for fact in facts if isinstance(fact, Problem)] == ["process-exception", "cuda-fault"]
