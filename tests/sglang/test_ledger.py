# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""The split of a rank's memory, in every era and in damaged logs."""

import pytest

ERAS = ["0.4.6", "0.4.9", "0.5.3", "0.5.6", "0.5.9", "0.5.12", "0.5.13", "0.5.14", "0.5.16", "0.5.19", "0.5.23"]


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("spec", [False, True])
def test_split_in_every_era(version, tp, spec, writer, sizes, split):
    ranks = split(writer(version, tp=tp, spec=spec).start())
    want = sizes()
    assert list(ranks) == [f"TP{rank}" for rank in range(tp)]
    for rank in ranks.values():
        assert rank.free_before == want.before
        assert rank.base == want.base
        assert rank.kv_base == want.kv
        assert rank.graphs_base == want.decode
        assert rank.draft == (want.draft if spec else None)
        assert rank.kv_draft == (want.kv_draft if spec else None)
        draft_graphs = pytest.approx(want.draft_decode + (want.extend if version != "0.4.6" else 0))
        assert rank.graphs_draft == (draft_graphs if spec else None)
        assert rank.other == pytest.approx(want.table, abs=0.02)
        assert rank.kv_tokens == want.tokens
        assert rank.notes == ()
        parts = (rank.base, rank.draft, rank.kv_base, rank.kv_draft, rank.graphs_base, rank.graphs_draft, rank.other)
        assert sum(part or 0 for part in parts) + rank.free == pytest.approx(want.before, abs=0.02)


def test_ranks_are_in_numeric_order(split):
    lines = [
        f"[2026-11-29 12:00:00 DP{d} TP{t}] Load weight begin. avail mem=90.00 GB" for d in (1, 0) for t in (10, 9)
    ]
    assert list(split(lines)) == ["DP0 TP9", "DP0 TP10", "DP1 TP9", "DP1 TP10"]


def test_steps_telescope(writer, split):
    rank = split(writer("0.5.23", spec=True).start())["TP0"]
    avails = [step.avail for step in rank.steps]
    assert avails[0] == 94.08
    assert avails == sorted(avails, reverse=True)
    assert [step.what for step in rank.steps if step.used is not None] == [
        "target weights",
        "draft weights",
        "target verify graph",
        "draft decode graph",
        "draft extend graph",
    ]
    assert [step.what for step in rank.steps if "pool" in step.what] == ["target pool", "draft pool"]


def _lines(text):
    return [f"[2026-11-29 12:00:00] {line}" for line in text.strip().split("\n")]


def test_sliding_window_pools_are_one_pool_and_no_draft(split):
    rank = split(
        _lines("""
Load weight begin. avail mem=22.91 GB
Load weight end. elapsed=1.30 s, type=Gemma4ForCausalLM, quant=awq, bits=4, avail mem=17.50 GB, mem usage=5.41 GB.
Use sliding window memory pool. full_layer_tokens=565446, swa_layer_tokens=35340
KV Cache is allocated. #tokens: 35340, K size: 2.70 GB, V size: 2.70 GB
KV Cache is allocated. #tokens: 565446, K size: 4.31 GB, V size: 4.31 GB
SWAKVPool mem usage: 14.02 GB, swa size: 35340, full size: 565446
Memory pool end. avail mem=3.41 GB""")
    )["TP0"]
    assert (rank.kv_base, rank.kv_draft, rank.kv_tokens) == (14.02, None, 565446)
    assert rank.other == pytest.approx(0.07, abs=0.001)


def test_labelled_sliding_window_pools_without_a_total(split):
    rank = split(
        _lines("""
Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1000, K size: 4.00 GB, V size: 4.00 GB
SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 300, K size: 1.00 GB, V size: 1.00 GB
Memory pool end. avail mem=3.41 GB""")
    )["TP0"]
    assert (rank.kv_base, rank.kv_tokens) == (10.0, 1000)


def test_recurrent_state_is_its_own_part(split):
    mamba = (
        "Mamba Cache is allocated. max_mamba_cache_size: 96, conv_state size: 0.25GB, ssm_state size: 6.00GB "
        "intermediate_ssm_state_cache size: 1.50GB intermediate_conv_window_cache size: 0.05GB "
    )
    rank = split(
        _lines(f"""
Load weight begin. avail mem=90.00 GB
Load weight end. elapsed=1.30 s, type=Qwen3NextForCausalLM, avail mem=50.00 GB, mem usage=40.00 GB.
{mamba}
KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1000, K size: 5.00 GB, V size: 5.00 GB
Memory pool end. avail mem=32.00 GB""")
    )["TP0"]
    assert (rank.state, rank.kv_base, rank.other) == (7.8, 10.0, pytest.approx(0.2))


def test_adaptive_rungs_are_summed(writer, split):
    lines = writer("0.5.23", spec=True).start()
    rung = "Capture target verify CUDA graph end. elapsed=1.00 s, mem usage=0.75 GB, avail mem=3.00 GB."
    rung = f"[2026-11-29 12:10:00] {rung}"
    ready = next(i for i, line in enumerate(lines) if "max_total_num_tokens" in line)
    assert split([*lines[:ready], rung, rung, *lines[ready:]])["TP0"].graphs_base == pytest.approx(2.25 + 1.5)


def test_multi_layer_drafts_are_summed(split):
    blocks = "\n".join(
        f"Load weight begin. avail mem={50 - i}.00 GB\n"
        f"Load weight end. elapsed=1.0 s, type=MiMoMTP, avail mem={49 - i}.00 GB, mem usage=1.00 GB."
        for i in range(3)
    )
    pools = "\n".join(
        f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: 10, KV size: {size} GB\n"
        "Memory pool end. avail mem=30.00 GB"
        for size in ("8.00", "0.50", "0.50", "0.50")
    )
    rank = split(
        _lines(f"""
Init parallel begin.
Load weight begin. avail mem=90.00 GB
Load weight end. elapsed=1.0 s, type=MiMoForCausalLM, avail mem=50.00 GB, mem usage=40.00 GB.
{blocks}
{pools}""")
    )["TP0"]
    assert (rank.base, rank.draft, rank.kv_base, rank.kv_draft) == (40.0, 3.0, 8.0, 1.5)


def test_a_draft_of_the_same_class_is_known_by_being_second(writer, split):
    lines = [
        line.replace("LlamaForCausalLMEagle3", "KimiK25ForConditionalGeneration")
        for line in writer("0.5.23", spec=True).start()
    ]
    rank = split(lines)["TP0"]
    assert (rank.base, rank.draft, rank.kv_draft) == (72.33, 1.5, 0.13)
    assert rank.notes == ()


def test_the_target_loaded_as_its_own_draft_is_noted(split):
    rank = split(
        _lines("""
server_args=ServerArgs(model_path='/m', speculative_algorithm='EAGLE3', speculative_draft_model_path=None)
Load weight begin. avail mem=90.00 GB
Load weight end. elapsed=1.0 s, type=LlamaForCausalLM, avail mem=75.00 GB, mem usage=15.00 GB.
Load weight begin. avail mem=75.00 GB
Load weight end. elapsed=1.0 s, type=LlamaForCausalLM, avail mem=60.00 GB, mem usage=15.00 GB.""")
    )["TP0"]
    assert (rank.base, rank.draft) == (15.0, 15.0)
    assert "loaded as the draft" in rank.notes[0]


def test_without_speculation_a_second_block_is_no_draft(split):
    rank = split(
        _lines("""
server_args=ServerArgs(model_path='/m', speculative_algorithm=None)
Load weight begin. avail mem=90.00 GB
Load weight end. elapsed=1.0 s, type=LlamaForCausalLM, avail mem=75.00 GB, mem usage=15.00 GB.
Load weight end. elapsed=1.0 s, type=LlamaForCausalLM, avail mem=75.00 GB, mem usage=15.00 GB.""")
    )["TP0"]
    assert (rank.base, rank.draft) == (15.0, None)
    assert "name no draft" in rank.notes[0]


def test_a_log_without_its_first_part(writer, split):
    """The figures of what is left are right, and nothing is attributed by mere order."""
    for version in ("0.5.6", "0.5.23"):
        lines = writer(version, tp=2, spec=True).start()
        cut = next(i for i, line in enumerate(lines) if "Load weight end" in line)
        rank = split(lines[cut:])["TP0"]
        assert (rank.free_before, rank.base, rank.draft) == (94.08, 72.33, 1.5)
        assert (rank.kv_base, rank.kv_draft) == (7.64, 0.13)


def test_old_log_that_starts_with_the_draft(writer, split):
    lines = writer("0.5.6", spec=True).start()
    cut = next(i for i, line in enumerate(lines) if "Eagle3" in line)
    rank = split(lines[cut:])["TP0"]
    assert (rank.free_before, rank.base, rank.kv_base) == (None, None, None)
    assert (rank.draft, rank.kv_draft, rank.other) == (1.5, 0.13, None)


def test_unknown_is_none_not_zero(split):
    rank = split(
        [
            "[2025-02-09 03:13:36 TP7] Load weight end. type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail mem=58.12 GB"
        ]
    )["TP7"]
    assert (rank.base, rank.free_before, rank.free, rank.kv_base) == (None, None, 58.12, None)


def test_old_weights_line_is_completed_by_its_begin(split):
    rank = split(
        _lines("""
Load weight begin. avail mem=90.00 GB
Load weight end. type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail mem=58.12 GB""")
    )["TP0"]
    assert rank.base == pytest.approx(31.88)


def test_a_missing_pool_line_leaves_other_unknown(writer, split):
    lines = [line for line in writer("0.5.23", spec=True).start() if "KV Cache" not in line]
    rank = split(lines)["TP0"]
    assert (rank.kv_base, rank.other) == (None, None)


def test_negative_graph_usage_is_noted(split):
    rank = split(
        _lines("""
Load weight begin. avail mem=22.91 GB
Load weight end. elapsed=14.00 s, type=Llava, quant=awq, bits=4, avail mem=10.00 GB, mem usage=12.91 GB.
KV Cache is allocated. #tokens: 214107, K size: 4.08 GB, V size: 4.08 GB
Memory pool end. avail mem=1.84 GB
Capture cuda graph begin. This can take up to several minutes. avail mem=1.43 GB
Capture cuda graph end. Time elapsed: 2.27 s. mem usage=-5.29 GB. avail mem=6.73 GB.""")
    )["TP0"]
    assert rank.graphs_base == -5.29
    assert rank.notes == ("weights overstated by about 5.29 GiB: memory was released during capture",)


def test_memory_that_the_draft_gives_back_is_noted(split):
    rank = split(
        _lines("""
Init parallel begin.
Load weight begin. avail mem=90.00 GB
Load weight end. elapsed=1.0 s, type=LlamaForCausalLM, avail mem=75.00 GB, mem usage=15.00 GB.
Load weight begin. avail mem=75.00 GB
Load weight end. elapsed=1.0 s, type=LlamaForCausalLMEagle, avail mem=73.00 GB, mem usage=2.00 GB.
KV Cache is allocated. dtype: torch.bfloat16, #tokens: 10, KV size: 40.00 GB
Memory pool end. avail mem=33.00 GB
KV Cache is allocated. dtype: torch.bfloat16, #tokens: 10, KV size: 1.00 GB
Memory pool end. avail mem=33.00 GB""")
    )["TP0"]
    assert rank.other is None
    assert rank.notes == ("1.00 GiB more are free than the parts leave: the draft shares tensors with the target",)


def test_pool_sized_after_the_graphs(split):
    rank = split(
        _lines("""
Load weight begin. avail mem=90.00 GB
Load weight end. elapsed=1.0 s, type=LlamaForCausalLM, avail mem=75.00 GB, mem usage=15.00 GB.
Load weight begin. avail mem=75.00 GB
Load weight end. elapsed=1.0 s, type=LlamaForCausalLMEagle3, avail mem=74.00 GB, mem usage=1.00 GB.
KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 900, K size: 35.00 GB, V size: 35.00 GB
Memory pool end. avail mem=73.00 GB
KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 900, K size: 1.00 GB, V size: 1.00 GB
Memory pool end. avail mem=73.00 GB
Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=4, avail mem=73.00 GB
Capture target verify CUDA graph end. bs=[1, 2], elapsed=1.0 s, mem usage=2.00 GB, avail mem=71.00 GB.
Post-capture KV cache allocated. dtype: torch.bfloat16, #tokens: 800, KV size: 60.00 GB, avail mem=11.00 GB
Post-capture draft KV cache allocated. dtype: torch.bfloat16, #tokens: 800, KV size: 2.00 GB, avail mem=9.00 GB""")
    )["TP0"]
    assert (rank.kv_base, rank.kv_draft, rank.graphs_base, rank.free) == (60.0, 2.0, 2.0, 9.0)
    assert rank.kv_tokens == 800


@pytest.mark.parametrize(
    "end",
    [
        "The server is fired up and ready to roll!",
        "Received sigquit from a child process. It usually means the child failed.",
    ],
)
def test_a_second_start_in_one_log_replaces_the_first(end, writer, sizes, split):
    first = writer("0.5.6", tp=2, spec=True).start()
    second = writer("0.5.6", tp=2, sizes=sizes(kv=3.0, base=70.0)).start()
    ranks = split([*first, f"[2026-11-29 12:59:00] {end}", *second])
    assert (ranks["TP0"].base, ranks["TP0"].kv_base, ranks["TP0"].draft) == (70.0, 3.0, None)
    without_args = split([*first, f"[2026-11-29 12:59:00] {end}", *second[1:]])
    assert (without_args["TP1"].base, without_args["TP1"].draft) == (70.0, None)


def test_untagged_lines_of_several_ranks_count_once(writer, sizes, split):
    lines = [line.replace(" TP0]", "]").replace(" TP1]", "]") for line in writer("0.5.23", tp=2, spec=True).start()]
    rank = split(lines)["TP0"]
    want = sizes()
    assert (rank.base, rank.draft, rank.kv_base, rank.kv_draft) == (want.base, want.draft, want.kv, want.kv_draft)
    assert "without a tag" in rank.notes[0]


def test_ngram_has_no_draft(writer, split):
    lines = writer("0.5.23").start()
    lines[0] = lines[0].replace("'speculative_algorithm': None", "'speculative_algorithm': 'NGRAM'")
    rank = split(lines)["TP0"]
    assert (rank.draft, rank.kv_draft) == (None, None)
    assert rank.other is not None


def test_every_prefix_of_a_start_is_readable(writer, split):
    """A log grows: at no line does a known figure change its owner."""
    for version in ("0.5.6", "0.5.23"):
        lines = writer(version, tp=2, spec=True).start()
        for end in range(len(lines)):
            for rank in split(lines[:end]).values():
                assert rank.base in (None, 72.33)
                assert rank.draft in (None, 1.5)
                assert rank.kv_base in (None, 7.64)
                assert rank.kv_draft in (None, 0.13)
                assert rank.other is None or 0 <= rank.other < 0.6
