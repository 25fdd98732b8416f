"""KV bytes per token: hand-computed cells of known model shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.sglang.kvcell import KvGeometry, KvKind, cell_size, kv_itemsize, resolve_kv_dtype, stage_layers, target_cell
from tui.sglang.versions import parse_version

KIMI = KvGeometry(kind=KvKind.MLA, layers=61, kv_lora_rank=512, qk_rope_head_dim=64)
DSA = KvGeometry(kind=KvKind.DSA, layers=61, kv_lora_rank=512, qk_rope_head_dim=64, index_dim=128)
QWEN = KvGeometry(kind=KvKind.MHA, layers=94, kv_heads=4, head_dim=128)
LLAMA = KvGeometry(kind=KvKind.MHA, layers=32, kv_heads=8, head_dim=128)
SWA = KvGeometry(kind=KvKind.SWA, layers=12, swa_layers=12, kv_heads=8, head_dim=64, sliding_window=128)
EAGLE_HEAD = KvGeometry(kind=KvKind.MHA, layers=1, kv_heads=8, head_dim=128)


def v(text):
    parsed = parse_version(text)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("geometry", "dtype", "attn_tp", "expected"),
    [
        (KIMI, None, 8, 70_272),
        (KIMI, "auto", 1, 70_272),
        (KIMI, "fp8_e4m3", 8, 35_136),
        (QWEN, None, 8, 48_128),
        (QWEN, "fp8_e5m2", 8, 24_064),
        (LLAMA, "bf16", 1, 131_072),
        (LLAMA, None, 2, 65_536),
        (LLAMA, None, 16, 16_384),
        (DSA, None, 8, 70_272 + (128 + 4) * 61),
    ],
)
def test_cells_of_known_models(geometry, dtype, attn_tp, expected):
    assert target_cell(v("0.5.9"), geometry, kv_cache_dtype=dtype, attn_tp=attn_tp) == expected


def test_v_may_be_narrower_since_0_5_7():
    narrow = KvGeometry(kind=KvKind.MHA, layers=10, kv_heads=4, head_dim=192, v_head_dim=128)
    assert target_cell(v("0.5.6"), narrow) == 4 * 192 * 2 * 10 * 2
    assert target_cell(v("0.5.7"), narrow) == 4 * (192 + 128) * 10 * 2


def test_dsa_fp8_counts_scales_and_rope_since_0_5_17():
    index = (128 + 4) * 61
    raw = (512 + 64) * 61
    scaled = (512 + 16 + 128) * 61
    assert target_cell(v("0.5.16"), DSA, kv_cache_dtype="fp8_e4m3") == raw + index
    assert target_cell(v("0.5.17"), DSA, kv_cache_dtype="fp8_e4m3") == scaled + index
    assert target_cell(v("0.5.17"), DSA, kv_cache_dtype="fp8_e4m3", raw_layout=True) == raw + index
    assert target_cell(v("0.5.17"), DSA) == raw * 2 + index


def test_dsa_layers_that_share_an_index_since_0_5_18():
    shared = KvGeometry(
        kind=KvKind.DSA, layers=60, kv_lora_rank=512, qk_rope_head_dim=64, index_dim=128, index_layers=20
    )
    assert target_cell(v("0.5.17"), shared) - target_cell(v("0.5.18"), shared) == 132 * 40


def test_fp4_halves_the_cell_and_adds_scales():
    assert target_cell(v("0.5.9"), LLAMA, kv_cache_dtype="fp4_e2m1") == 65_536 // 2 + 65_536 // 16
    assert target_cell(v("0.5.9"), KIMI, kv_cache_dtype="fp4_e2m1") == 35_136 // 2 + 576 // 16 * 61


def test_mxfp8_adds_one_scale_per_32():
    assert target_cell(v("0.5.18"), LLAMA, kv_cache_dtype="mxfp8") == 65_536 + 65_536 // 32


def test_pipeline_stage_with_most_layers_decides():
    assert [stage_layers(61, pp) for pp in (1, 2, 4)] == [61, 31, 16]
    assert target_cell(v("0.5.9"), KIMI, pp_size=2) == 31 * 576 * 2


def test_sliding_window_weights_the_windowed_layers():
    full = 8 * 128 * 2 * 12
    assert target_cell(v("0.5.9"), SWA) == pytest.approx(full + 0.8 * full)
    assert target_cell(v("0.5.9"), SWA, swa_full_tokens_ratio=0.25) == pytest.approx(full * 1.25)
    assert target_cell(v("0.5.6"), SWA) == pytest.approx(full * 1.8)


def test_sliding_window_of_another_width():
    wide = KvGeometry(
        kind=KvKind.SWA,
        layers=10,
        swa_layers=40,
        kv_heads=4,
        head_dim=192,
        v_head_dim=128,
        swa_kv_heads=8,
        swa_head_dim=192,
        swa_v_head_dim=128,
    )
    full, window = 4 * 320 * 2 * 10, 8 * 320 * 2 * 40
    assert target_cell(v("0.5.9"), wide, swa_full_tokens_ratio=0.5) == full + 0.5 * window
    assert target_cell(v("0.5.9"), wide, attn_tp=4, swa_full_tokens_ratio=0.5) == full / 4 + 0.5 * window / 4


def test_a_model_with_only_windowed_layers_ignores_the_ratio():
    only = KvGeometry(kind=KvKind.SWA, layers=0, swa_layers=12, kv_heads=8, head_dim=64)
    assert target_cell(v("0.5.14"), only, swa_full_tokens_ratio=0.1) == 8 * 128 * 2 * 12


def test_auto_dtype():
    assert resolve_kv_dtype(KIMI, "auto") == "bfloat16"
    assert resolve_kv_dtype(KvGeometry(kind=KvKind.MHA, layers=1, checkpoint_fp8_kv=True), None) == "fp8_e4m3"
    assert resolve_kv_dtype(KvGeometry(kind=KvKind.MHA, layers=1, dtype="float32"), None) == "float32"
    with pytest.raises(ValueError, match="int3"):
        kv_itemsize("int3")


@pytest.mark.parametrize(
    ("version", "algorithm", "share"),
    [
        ("0.5.9", "EAGLE3", 0),
        ("0.5.13", "EAGLE3", 0),
        ("0.5.14", "EAGLE3", int(70_272 / 61)),
        ("0.5.23", "NEXTN", int(70_272 / 61)),
        ("0.5.14", "STANDALONE", int(70_272 / 61)),
        ("0.5.23", "NGRAM", 0),
        ("0.5.10", "DFLASH", 0),
        ("0.5.11", "DFLASH", 1152),
        ("0.5.18", "DFLASH", 2 * 128 * 2),
        ("0.5.18", "DSPARK", 2 * 128 * 2),
    ],
)
def test_draft_share_by_version(version, algorithm, share):
    cell = cell_size(v(version), KIMI, algorithm=algorithm, draft=EAGLE_HEAD, attn_tp=8)
    assert cell.budgeted_draft == share
    assert cell.total == 70_272 + share


def test_the_draft_pool_is_not_what_is_budgeted():
    cell = cell_size(v("0.5.14"), KIMI, algorithm="EAGLE3", draft=EAGLE_HEAD, attn_tp=1)
    assert cell.draft_pool == 8 * 128 * 2 * 2
    assert cell.note is not None
    assert "4096" in cell.note
    same = cell_size(v("0.5.14"), LLAMA, algorithm="EAGLE", draft=EAGLE_HEAD, attn_tp=1)
    assert same.note is None
    assert same.draft_pool == same.budgeted_draft == 4096


def test_draft_kv_dtype_changes_the_pool_only():
    cell = cell_size(v("0.5.18"), LLAMA, algorithm="EAGLE", draft=EAGLE_HEAD, draft_kv_cache_dtype="fp8_e4m3")
    assert (cell.budgeted_draft, cell.draft_pool) == (4096, 2048)


def test_no_draft_and_unknown_draft():
    assert cell_size(v("0.5.14"), KIMI).draft_pool == 0
    assert cell_size(v("0.5.14"), KIMI, algorithm="NGRAM").draft_pool == 0
    unknown = cell_size(v("0.5.14"), KIMI, algorithm="EAGLE3")
    assert unknown.draft_pool is None
    assert unknown.total == 70_272


def test_sliding_window_target_budgets_full_draft_layers_late():
    draft = KvGeometry(kind=KvKind.MHA, layers=1, kv_heads=8, head_dim=64)
    assert cell_size(v("0.5.18"), SWA, algorithm="EAGLE3", draft=draft).budgeted_draft == 0
    assert cell_size(v("0.5.23"), SWA, algorithm="EAGLE3", draft=draft).budgeted_draft == 8 * 128 * 2


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 128), st.sampled_from([None, "fp8_e4m3", "fp4_e2m1"]))
def test_more_ranks_never_enlarge_a_cell(heads, tp, layers, dtype):
    geometry = KvGeometry(kind=KvKind.MHA, layers=layers, kv_heads=heads, head_dim=128)
    one, split = (target_cell(v("0.5.9"), geometry, kv_cache_dtype=dtype, attn_tp=ranks) for ranks in (1, tp))
    assert 0 < split <= one
    assert split >= one / heads
