from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.models.allocator import rounding_bytes
from tui.models.checkpoint import inspect_checkpoint
from tui.models.roles import Role, Shard, place
from tui.models.weights import padded_vocab, pp_stage, weights_per_rank

Make = Callable[..., Path]
Build = Callable[..., dict[str, Any]]
H, M, V, D = 128, 256, 264, 32
LAYER_NORMS = 2 * H
ATTENTION = 2 * (4 * D * H) + 2 * (2 * D * H)
MLP = 3 * H * M


def test_one_rank_holds_the_file(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> None:
    config = llama_config()
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config)))
    (rank,) = weights_per_rank(found)
    padding = 2 * 2 * (padded_vocab(V, 1) - V) * H
    assert rank.stored_bytes == found.total_bytes + padding
    assert rank.by_role[Role.ATTENTION] == 2 * 4 * ATTENTION
    assert rank.by_role[Role.MLP] == 2 * 4 * MLP
    assert rank.by_role[Role.NORM] == 2 * (4 * LAYER_NORMS + H)
    assert rank.by_role[Role.EMBED] == rank.by_role[Role.LM_HEAD] == 2 * 320 * H


def test_kv_heads_are_replicated_beyond_their_number(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config()
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config)))
    ranks = weights_per_rank(found, tp=4)
    assert [rank.rank for rank in ranks] == [0, 1, 2, 3]
    assert len({rank.stored_bytes for rank in ranks}) == 1
    # Four ranks, two kv heads: one query head and one whole kv head each.
    assert ranks[0].by_role[Role.ATTENTION] == 2 * 4 * (2 * D * H + 2 * D * H)
    assert ranks[0].by_role[Role.MLP] == 2 * 4 * MLP // 4
    assert ranks[0].by_role[Role.NORM] == 2 * (4 * LAYER_NORMS + H)


def test_experts_split_and_routers_do_not(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> None:
    config = llama_config()
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config, experts=8)))
    by_tp = weights_per_rank(found, tp=4)[0].by_role
    by_ep = weights_per_rank(found, tp=4, ep=4)[0].by_role
    assert by_tp[Role.EXPERTS] == by_ep[Role.EXPERTS] == 2 * 4 * 8 * MLP // 4
    assert by_tp[Role.ROUTER] == 2 * 4 * 8 * H


def test_experts_collapse_into_a_few_groups(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> None:
    config = llama_config()
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config, experts=64)))
    experts = [group for group in found.groups if group.place.role is Role.EXPERTS]
    assert found.num_tensors > 4 * 64 * 3
    assert sum(group.count for group in experts) == 4 * 64 * 3
    assert len(experts) <= 4 * 3


def test_pipeline_stages_take_layers_and_ends(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> None:
    config = llama_config(num_hidden_layers=5)
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config)))
    first, second = weights_per_rank(found, pp=2)
    assert first.by_role[Role.MLP] == 2 * 2 * MLP
    assert second.by_role[Role.MLP] == 2 * 3 * MLP
    assert Role.LM_HEAD not in first.by_role
    assert Role.EMBED not in second.by_role
    (whole,) = weights_per_rank(found)
    assert first.stored_bytes + second.stored_bytes == whole.stored_bytes


def test_a_tied_head_counts_once_unless_it_sits_on_another_stage(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config(tie_word_embeddings=True)
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config)))
    (whole,) = weights_per_rank(found)
    assert Role.LM_HEAD not in whole.by_role
    first, last = weights_per_rank(found, pp=2)
    assert last.by_role[Role.LM_HEAD] == first.by_role[Role.EMBED] == 2 * 320 * H


def test_nextn_layers_are_not_loaded_by_the_target(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config()
    plain = inspect_checkpoint(make_checkpoint(config, llama_tensors(config), "plain"))
    extra = {
        "model.layers.4.eh_proj.weight": ("BF16", (H, 2 * H)),
        "model.layers.4.mlp.up_proj.weight": ("BF16", (M, H)),
        "model.layers.4.embed_tokens.weight": ("BF16", (V, H)),
        "model.layers.4.shared_head.head.weight": ("BF16", (V, H)),
        "mtp.fc.weight": ("BF16", (H, 2 * H)),
        "mtp.layers.0.mlp.up_proj.weight": ("BF16", (M, H)),
    }
    both = inspect_checkpoint(make_checkpoint(config, llama_tensors(config) | extra, "both"))
    assert both.total_bytes > plain.total_bytes
    assert weights_per_rank(both, tp=2) == weights_per_rank(plain, tp=2)


def test_a_float32_checkpoint_is_cast(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> None:
    config = llama_config(torch_dtype="float32")
    half = weights_per_rank(inspect_checkpoint(make_checkpoint(config, llama_tensors(config), "half")))[0]
    full = weights_per_rank(inspect_checkpoint(make_checkpoint(config, llama_tensors(config, "F32"), "full")))[0]
    assert full.stored_bytes == half.stored_bytes
    assert any("cast to float16" in note for note in full.notes)
    wide = inspect_checkpoint(Path(make_checkpoint(config, llama_tensors(config, "F32"), "wide")))
    assert weights_per_rank(wide, dtype="float32")[0].stored_bytes == 2 * half.stored_bytes


def test_online_fp8_halves_the_linear_weights_only(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config()
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config)))
    plain, fp8 = (weights_per_rank(found, tp=2, quantization=flag)[0] for flag in (None, "fp8"))
    assert fp8.by_role[Role.MLP] * 2 == plain.by_role[Role.MLP]
    assert fp8.by_role[Role.ATTENTION] * 2 == plain.by_role[Role.ATTENTION]
    assert fp8.by_role[Role.EMBED] == plain.by_role[Role.EMBED]
    assert any("--quantization fp8" in note for note in fp8.notes)
    assert any("not known" in note for note in weights_per_rank(found, quantization="bitsandbytes")[0].notes)


QUANTISED: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {
    "fp8": {"weight": ("F8_E4M3", (M, H)), "weight_scale_inv": ("F32", (M // 128, H // 128))},
    "awq": {"qweight": ("I32", (H, M // 8)), "qzeros": ("I32", (H // 128, M // 8)), "scales": ("F16", (H // 128, M))},
    "gptq": {"qweight": ("I32", (H // 8, M)), "qzeros": ("I32", (1, M // 8)), "scales": ("F16", (1, M))},
    "compressed-tensors": {"weight_packed": ("I32", (M, H // 8)), "weight_scale": ("BF16", (M, H // 32))},
    "modelopt_fp4": {"weight": ("U8", (M, H // 2)), "weight_scale": ("F8_E4M3", (M, H // 16))},
}


@pytest.mark.parametrize("method", QUANTISED)
def test_quantised_linears_shard_with_their_scales(make_checkpoint: Make, llama_config: Build, method: str) -> None:
    parts = QUANTISED[method]
    tensors = {f"model.layers.0.mlp.up_proj.{part}": spec for part, spec in parts.items()}
    scalars = {f"model.layers.0.mlp.up_proj.{part}": ("F32", ()) for part in ("weight_scale_2", "input_scale")}
    config = llama_config(quantization_config={"quant_method": method})
    found = inspect_checkpoint(make_checkpoint(config, tensors | scalars))
    one, two = (weights_per_rank(found, tp=tp)[0].by_role[Role.MLP] for tp in (1, 2))
    assert one == found.total_bytes
    assert two - 8 == (one - 8) // 2
    # Already quantised weights ignore the flag.
    assert weights_per_rank(found, quantization="fp8")[0].by_role[Role.MLP] == one


def test_small_mla_projections_are_replicated_and_absorbed_copies_stated(
    make_checkpoint: Make, llama_config: Build
) -> None:
    shapes = {"q_a_proj": (96, H), "q_b_proj": (192, 96), "kv_a_proj_with_mqa": (80, H), "kv_b_proj": (256, 64)}
    tensors = {f"model.layers.0.self_attn.{n}.weight": ("BF16", shape) for n, shape in shapes.items()}
    tensors["model.layers.0.self_attn.o_proj.weight"] = ("BF16", (H, H))
    tensors["model.layers.0.self_attn.indexer.wq_b.weight"] = ("BF16", (64, 96))
    found = inspect_checkpoint(make_checkpoint(llama_config(), tensors))
    whole = 2 * (96 * H + 80 * H + 64 * 96)
    split = 2 * (192 * 96 + 256 * 64 + H * H)
    rank = weights_per_rank(found, tp=4)[0]
    assert rank.by_role[Role.ATTENTION] == whole + split // 4
    assert rank.derived_bytes == 2 * 256 * 64 // 4
    assert rank.loaded_bytes == rank.stored_bytes + rank.derived_bytes + rank.rounding_bytes
    dp = weights_per_rank(found, tp=4, attn_dp=4)[0]
    assert dp.by_role[Role.ATTENTION] == whole + split


def test_the_encoder_loads_on_the_first_stage_and_can_be_left_out(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config()
    vision = {
        "vision_tower.encoder.blocks.30.wqkv.weight": ("BF16", (3 * 64, 64)),
        "vision_tower.patch_embed.proj.weight": ("BF16", (64, 3, 14, 14)),
        "multi_modal_projector.linear_1.weight": ("BF16", (H, 64)),
    }
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config) | vision))
    block, rest = 2 * 3 * 64 * 64, 2 * (64 * 3 * 14 * 14 + H * 64)
    ranks = weights_per_rank(found, tp=2, pp=2)
    assert ranks[0].by_role[Role.VISION] == block // 2 + rest
    assert Role.VISION not in ranks[2].by_role
    assert weights_per_rank(found, tp=2, encoder_dp=True)[0].by_role[Role.VISION] == block + rest
    assert Role.VISION not in weights_per_rank(found, language_only=True)[0].by_role


def test_unknown_tensors_are_named_and_counted_everywhere(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config()
    tensors = llama_tensors(config) | {"model.layers.0.zap.weight": ("BF16", (999, H))}
    rank = weights_per_rank(inspect_checkpoint(make_checkpoint(config, tensors)), tp=8)[0]
    assert rank.by_role[Role.OTHER] == 2 * 999 * H
    assert any("zap" in note for note in rank.notes)


@pytest.mark.parametrize("bad", [{"tp": 0}, {"pp": 0}, {"ep": -1}, {"attn_dp": 0}, {"pp": 5}])
def test_impossible_layouts_are_refused(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build, bad: dict[str, int]
) -> None:
    config = llama_config()
    found = inspect_checkpoint(make_checkpoint(config, llama_tensors(config)))
    with pytest.raises(ValueError):
        weights_per_rank(found, **bad)


@pytest.mark.parametrize(
    ("name", "role", "shard"),
    [
        ("model.layers.3.self_attn.qkv_proj.weight", Role.ATTENTION, Shard.QKV),
        ("model.layers.3.self_attn.o_proj.bias", Role.ATTENTION, Shard.REPLICATED),
        ("model.layers.3.self_attn.q_proj.bias", Role.ATTENTION, Shard.COLUMN),
        ("model.layers.3.self_attn.sinks", Role.ATTENTION, Shard.COLUMN),
        ("model.layers.3.mlp.experts.gate_up_proj_blocks", Role.EXPERTS, Shard.EXPERT),
        ("model.layers.3.mlp.router.weight", Role.ROUTER, Shard.REPLICATED),
        ("model.layers.3.mlp.gate.e_score_correction_bias", Role.ROUTER, Shard.REPLICATED),
        ("model.layers.3.mlp.shared_experts.down_proj.weight", Role.SHARED_EXPERTS, Shard.ROW),
        ("model.layers.3.mlp.shared_expert_gate.weight", Role.ROUTER, Shard.REPLICATED),
        ("model.layers.3.block_sparse_moe.experts.7.w2.weight", Role.EXPERTS, Shard.EXPERT),
        ("model.layers.3.linear_attn.in_proj_qkvz.weight", Role.ATTENTION, Shard.COLUMN),
        ("model.layers.3.linear_attn.dt_bias", Role.ATTENTION, Shard.COLUMN),
        ("model.layers.3.linear_attn.A_log", Role.ATTENTION, Shard.COLUMN),
        ("language_model.model.layers.3.feed_forward.shared_expert.up_proj.weight", Role.SHARED_EXPERTS, Shard.COLUMN),
        ("language_model.lm_head.weight", Role.LM_HEAD, Shard.VOCAB),
        ("model.visual.merger.mlp.0.weight", Role.VISION, Shard.REPLICATED),
        ("model.layers.3.self_attn.rotary_emb.inv_freq", Role.OTHER, Shard.NOT_LOADED),
    ],
)
def test_names_have_roles(name: str, role: Role, shard: Shard) -> None:
    found = place(name, 4)
    assert (found.role, found.shard, found.nextn) == (role, shard, False)


@given(layers=st.integers(1, 100), pp=st.integers(1, 16))
def test_stages_cover_every_layer_once_and_evenly(layers: int, pp: int) -> None:
    stages = [pp_stage(layers, pp, rank) for rank in range(pp)]
    assert [layer for start, end in stages for layer in range(start, end)] == list(range(layers))
    sizes = [end - start for start, end in stages]
    assert sizes == sorted(sizes)
    assert max(sizes) - min(sizes) <= 1


@given(vocab=st.integers(1, 300_000), tp=st.integers(1, 16))
def test_padded_vocab_divides_and_is_tight(vocab: int, tp: int) -> None:
    padded = padded_vocab(vocab, tp)
    assert padded >= vocab
    assert padded % 64 == 0
    assert padded % tp == 0
    assert padded - vocab < 64 * tp


@given(st.lists(st.integers(0, 1 << 28), max_size=30))
def test_rounding_is_bounded_by_the_segments(sizes: list[int]) -> None:
    extra = rounding_bytes(sizes)
    assert 0 <= extra < (len(sizes) + 1) * (2 << 20) + (20 << 20)


def test_rounding_of_known_sizes() -> None:
    mib = 1 << 20
    assert rounding_bytes([12 * mib, 136 * mib]) == 0
    assert rounding_bytes([12 * mib + 1]) == 2 * mib - 1
    assert rounding_bytes([5 * mib, 5 * mib]) == 10 * mib
    assert rounding_bytes([1]) == 2 * mib - 1
