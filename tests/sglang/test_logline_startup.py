# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Start-up lines of every era, and what carries them to the reader."""

import time

import pytest

from tui.facts import (
    CaptureProgress,
    DistributedInit,
    GraphBegin,
    GraphEnd,
    HttpListening,
    KvPool,
    LoadProgress,
    PoolEnd,
    PoolSummary,
    ServerArgs,
    ServerReady,
    Shutdown,
    StartupTimings,
    StatePool,
    SwaPool,
    VersionHint,
    WeightsBegin,
    WeightsEnd,
)

STAMP = "[2026-11-29 12:00:00 TP0] "
AT = time.mktime((2026, 11, 29, 12, 0, 0, 0, 0, -1))


def _one(read, line, kind):
    """The only fact of this kind."""
    (fact,) = [fact for fact in read([line]) if isinstance(fact, kind)]
    return fact


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (
            "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=58.12 GB",
            ("LlamaForCausalLM", "torch.bfloat16", None, 58.12, None, None),
        ),
        (
            "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, mem usage=15.54 GB.",
            ("LlamaForCausalLM", "torch.bfloat16", None, 6.09, 15.54, None),
        ),
        (
            "Load weight end. elapsed=61.20 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, "
            "mem usage=15.54 GB.",
            ("LlamaForCausalLM", "torch.bfloat16", None, 6.09, 15.54, 61.2),
        ),
        (
            "Load weight end. elapsed=1.30 s, type=GemmaForCausalLM, quant=awq, bits=4, avail mem=17.50 GB, "
            "mem usage=5.42 GB.",
            ("GemmaForCausalLM", None, "awq", 17.5, 5.42, 1.3),
        ),
        (
            "Load weight end. elapsed=0.02 s, type=LlamaForCausalLM, avail mem=20.40 GB, mem usage=-0.12 GB.",
            ("LlamaForCausalLM", None, None, 20.4, -0.12, 0.02),
        ),
        (
            "Load weight end. quant=fp8, fmt=e4m3, avail mem=12.25 GB, mem usage=125.65 GB.",
            (None, None, "fp8", 12.25, 125.65, None),
        ),
        ("Load weight end.", (None, None, None, None, None, None)),
    ],
)
def test_weights_end(read, line, want):
    fact = _one(read, STAMP + line, WeightsEnd)
    got = (fact.model_class, fact.dtype, fact.quant, fact.avail_gib, fact.used_gib, fact.elapsed_s)
    assert got == want
    assert (fact.rank, fact.line, fact.at) == ("TP0", 1, AT)


def test_weights_begin(read):
    assert _one(read, STAMP + "Load weight begin. avail mem=94.08 GB", WeightsBegin).avail_gib == 94.08


def test_the_second_half_of_overlapped_loading_is_no_second_block(read):
    line = STAMP + "Load weight end. Committed real weights after CUDA graph capture in 3.20 s"
    assert not [fact for fact in read([line]) if isinstance(fact, WeightsEnd)]


@pytest.mark.parametrize(
    ("line", "done", "used", "elapsed"),
    [
        ("Init torch distributed begin.", False, None, None),
        ("Init torch distributed ends. mem usage=0.13 GB", True, 0.13, None),
        ("Init torch distributed ends. elapsed=1.20 s, mem usage=0.13 GB", True, 0.13, 1.2),
        ("Init parallel begin.", False, None, None),
        ("Init parallel ends. elapsed=0.01 s", True, None, 0.01),
        ("Memory baseline taken. mem usage=0.60 GB", True, 0.6, None),
    ],
)
def test_distributed(read, line, done, used, elapsed):
    fact = _one(read, STAMP + line, DistributedInit)
    assert (fact.done, fact.used_gib, fact.elapsed_s) == (done, used, elapsed)


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB", ("kv", 46611, 2.84, None, False)),
        ("KV Cache is allocated. #tokens: 46611, KV size: 3.10 GB", ("kv", 46611, 3.1, None, False)),
        (
            "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 7, K size: 0.25 GB, V size: 0.50 GB",
            ("kv", 7, 0.75, "torch.float8_e4m3fn", False),
        ),
        (
            "Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 7, KV size: 0.25 GB",
            ("full", 7, 0.25, "torch.bfloat16", False),
        ),
        (
            "SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 7, KV size: 0.25 GB",
            ("swa", 7, 0.25, "torch.bfloat16", False),
        ),
        (
            "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 9, K size: 1.00 GB, V size: 1.00 GB",
            ("kv", 9, 2.0, "torch.bfloat16", True),
        ),
        ("KV Cache is allocated.", ("kv", None, None, None, False)),
    ],
)
def test_kv_pool(read, line, want):
    fact = _one(read, STAMP + line, KvPool)
    assert (fact.label, fact.tokens, fact.gib, fact.dtype, fact.upper_bound) == want


def test_post_capture_line_is_a_pool_and_its_end(read):
    line = (
        STAMP
        + "Post-capture draft KV cache allocated. dtype: torch.bfloat16, #tokens: 8, KV size: 2.00 GB, avail mem=9.00 GB"
    )
    pool, end = [fact for fact in read([line]) if isinstance(fact, KvPool | PoolEnd)]
    assert (pool.label, pool.gib, end.avail_gib) == ("draft", 2.0, 9.0)


def test_swa_and_state_pools(read):
    swa = _one(read, STAMP + "SWAKVPool mem usage: 14.02 GB, swa size: 35340, full size: 565446", SwaPool)
    assert (swa.gib, swa.swa_tokens, swa.full_tokens) == (14.02, 35340, 565446)
    line = "Mamba Cache is allocated. max_mamba_cache_size: 96, conv_state size: 0.25GB, ssm_state size: 6.00GB "
    state = _one(read, STAMP + line, StatePool)
    assert (state.gib, state.slots, state.parts_gib) == (6.25, 96, {"conv_state": 0.25, "ssm_state": 6.0})


@pytest.mark.parametrize(
    ("line", "name", "used", "avail", "elapsed"),
    [
        (
            "Capture cuda graph end. Time elapsed: 7.23 s. avail mem=0.53 GB. mem usage=0.93 GB.",
            "target decode",
            0.93,
            0.53,
            7.23,
        ),
        (
            "Capture cuda graph end. Time elapsed: 7.23 s. mem usage=-5.29 GB. avail mem=6.73 GB.",
            "target decode",
            -5.29,
            6.73,
            7.23,
        ),
        ("Capture cuda graph end. Time elapsed: 7.23 s", "target decode", None, None, 7.23),
        (
            "Capture draft cuda graph end. Time elapsed: 1.0 s. mem usage=0.10 GB. avail mem=6.73 GB.",
            "draft decode",
            0.1,
            6.73,
            1.0,
        ),
        (
            "Capture draft extend cuda graph end. Time elapsed: 1.0 s. mem usage=0.10 GB. avail mem=6.73 GB.",
            "draft extend",
            0.1,
            6.73,
            1.0,
        ),
        (
            "Capture piecewise CUDA graph end. Time elapsed: 1.0 s. mem usage=0.10 GB. avail mem=6.73 GB.",
            "target prefill",
            0.1,
            6.73,
            1.0,
        ),
        (
            "Capture target verify CUDA graph end. elapsed=0.78 s, mem usage=0.12 GB, avail mem=0.51 GB.",
            "target verify",
            0.12,
            0.51,
            0.78,
        ),
        (
            "Capture draft prefill CUDA graph end. elapsed=0.78 s, mem usage=0.12 GB, avail mem=0.51 GB.",
            "draft prefill",
            0.12,
            0.51,
            0.78,
        ),
        (
            "Capture UNO tree draft CUDA graph end. elapsed=0.78 s, mem usage=0.12 GB, avail mem=0.51 GB.",
            "UNO tree draft",
            0.12,
            0.51,
            0.78,
        ),
    ],
)
def test_graph_end(read, line, name, used, avail, elapsed):
    fact = _one(read, STAMP + line, GraphEnd)
    assert (fact.name, fact.used_gib, fact.avail_gib, fact.elapsed_s) == (name, used, avail, elapsed)


def test_graph_begin_and_sizes(read):
    line = "Capture draft extend CUDA graph begin. backend=full, num_tokens_per_req=4, bs=[1, 2], avail mem=0.14 GB"
    fact = _one(read, STAMP + line, GraphBegin)
    assert (fact.name, fact.backend, fact.batch_sizes, fact.avail_gib) == ("draft extend", "full", (1, 2), 0.14)
    line = "Capture target decode CUDA graph end. bs=[1, 2, 4], elapsed=0.78 s, mem usage=0.12 GB, avail mem=0.51 GB."
    assert _one(read, STAMP + line, GraphEnd).batch_sizes == (1, 2, 4)
    line = "Capture draft extend CUDA graph begin. backend=full, bs=[1, 2, 25 4, , 8"
    assert _one(read, STAMP + line, GraphBegin).batch_sizes == (1, 2, 8)
    line = "Capture Frozen-KV MTP draft cuda graph begin."
    assert _one(read, STAMP + line, GraphBegin).name == "Frozen-KV MTP draft"


def test_sizes_of_an_old_capture_come_from_their_own_line(read):
    facts = read(
        [
            STAMP + "Capture cuda graph begin. This can take up to several minutes. avail mem=1.45 GB",
            STAMP + "Capture cuda graph bs [1, 2, 4, 8]",
            STAMP + "Capture cuda graph end. Time elapsed: 7.23 s. mem usage=0.93 GB. avail mem=0.53 GB.",
        ]
    )
    assert [fact.batch_sizes for fact in facts if isinstance(fact, GraphEnd)] == [(1, 2, 4, 8)]


@pytest.mark.parametrize(
    "line",
    [
        "Loading safetensors checkpoint shards:  94% Completed | 15/16 [00:06<00:00,  2.10it/s]",
        "Multi-thread loading shards:  94% Completed | 15/16 [00:06<00:00,  2.10it/s]",
        "Loading pt checkpoint shards:  94%|█████████ | 15/16 [00:06<00:00,  2.10it/s]",
        "Multi-thread loading shards:   0% Completed | 0/16 [00:00<?, ?it/s]\rMulti-thread loading shards:  94% Completed "
        "| 15/16 [00:06<00:00,  2.10it/s]",
    ],
)
def test_shard_bars(read, line):
    fact = _one(read, line, LoadProgress)
    assert (fact.done, fact.total, fact.percent, fact.rank) == (15, 16, 94.0, None)


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (
            "Capturing batches (bs=8 avail_mem=20.10 GB):  50%|█████     | 5/10 [00:02<00:02,  2.00it/s]",
            (50.0, 5, 10, 8, 20.1),
        ),
        ("Capturing batches (avail_mem=30.87 GB", (None, None, None, None, 30.87)),
        (
            "Capturing num tokens (num_tokens=512 avail_mem=9.00 GB):   0%|          | 0/58 [00:00<?, ?it/s]",
            (0.0, 0, 58, 512, 9.0),
        ),
        ("Compiling num tokens (num_tokens=512):   2%|▏         | 1/58 [00:00<?, ?it/s]", (2.0, 1, 58, 512, None)),
    ],
)
def test_capture_bars(read, line, want):
    fact = _one(read, line, CaptureProgress)
    assert (fact.percent, fact.done, fact.total, fact.batch_size, fact.avail_gib) == want


def test_a_bar_without_title_is_a_capture_only_during_a_capture(read):
    bar = " 38%|███████            | 5/13 [00:03<00:04,  1.80it/s]"
    begin = STAMP + "Capture cuda graph begin. This can take up to several minutes. avail mem=1.45 GB"
    end = STAMP + "Capture cuda graph end. Time elapsed: 7.23 s. mem usage=0.93 GB. avail mem=0.53 GB."
    bars = [fact for fact in read([bar, begin, bar, end, bar]) if isinstance(fact, CaptureProgress)]
    assert [(fact.line, fact.done, fact.total) for fact in bars] == [(3, 5, 13)]


@pytest.mark.parametrize("tail", [", available_gpu_mem=3.40 GB", ", available_cpu_mem=3.40 GB", ""])
def test_summary(read, tail):
    line = (
        "max_total_num_tokens=565446, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=48, "
        f"context_len=262144{tail}"
    )
    fact = _one(read, STAMP + line, PoolSummary)
    assert (fact.max_total_num_tokens, fact.chunked_prefill_size, fact.max_prefill_tokens) == (565446, 4096, 16384)
    assert (fact.max_running_requests, fact.context_len) == (48, 262144)
    assert fact.available_gpu_mem_gib == (3.4 if tail else None)


def test_timings(read):
    line = (
        "Engine startup timings (s): load_weight=0.03, kv_cache_allocation=0.71, cuda_graph={prefill=0.10, "
        "draft_decode=0.20}, tokenizer_e2e=8.80"
    )
    assert _one(read, STAMP + line, StartupTimings).seconds == {
        "load_weight": 0.03,
        "kv_cache_allocation": 0.71,
        "cuda_graph.prefill": 0.1,
        "cuda_graph.draft_decode": 0.2,
        "tokenizer_e2e": 8.8,
    }


def test_http_ready_and_shutdown(read):
    stamp = "[2026-11-29 12:00:00] "
    facts = read(
        [
            stamp + "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
            stamp + "The server is fired up and ready to roll!",
            stamp + "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
            stamp + "Gracefully exiting... Remaining number of requests 3. Remaining requests remaining_rids=['a'].",
            stamp + "kill_process_tree called: parent_pid=1, include_parent=False, pid=1",
        ]
    )
    facts = [fact for fact in facts if not isinstance(fact, VersionHint)]
    assert [type(fact) for fact in facts] == [HttpListening, ServerReady, Shutdown, Shutdown, Shutdown]
    assert facts[0].url == "http://127.0.0.1:30000"
    assert [fact.remaining_requests for fact in facts[2:]] == [None, 3, None]


@pytest.mark.parametrize("version", ["0.4.6", "0.5.3", "0.5.9", "0.5.13", "0.5.14", "0.5.23"])
def test_hints_agree_with_the_version(version, writer, read):
    now = tuple(int(part) for part in version.split("."))
    hints = [fact for fact in read(writer(version, spec=True).start()) if isinstance(fact, VersionHint)]
    assert hints
    for hint in hints:
        assert hint.at_least is None or tuple(int(part) for part in hint.at_least.split(".")) <= now
        assert hint.at_most is None or tuple(int(part) for part in hint.at_most.split(".")) >= now
    assert len({hint.why for hint in hints}) == len(hints)


def test_a_version_told_outright(read):
    (hint,) = [fact for fact in read(["sglang==0.5.9.post2"]) if isinstance(fact, VersionHint)]
    assert (hint.at_least, hint.at_most) == ("0.5.9.post2", "0.5.9.post2")


def test_server_args_of_a_start(writer, read):
    for version, resolved in (("0.5.6", False), ("0.5.23", True)):
        args = _one(read, writer(version, tp=4, spec=True).args(), ServerArgs)
        assert args.resolved is resolved
        assert args.args["tp_size"] == 4
        assert args.args["mem_fraction_static"] == 0.85
        assert args.args["speculative_algorithm"] == "EAGLE3"
        assert args.args["api_key"] == "***"
