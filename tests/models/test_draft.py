import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tui.models.checkpoint import Checkpoint, inspect_checkpoint
from tui.models.draft import DraftKind, draft_mismatch, inspect_draft
from tui.models.draft_weights import draft_weights
from tui.models.errors import CheckpointError
from tui.models.weights import padded_vocab, weights_per_rank

Make = Callable[..., Path]
Build = Callable[..., dict[str, Any]]
H, M, V, D = 128, 256, 264, 32
BODY = 4 * D * 2 * H + 2 * (2 * D * 2 * H) + H * 4 * D + 3 * H * M


def eagle3(source: int = H, draft_vocab: int = 64) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of a one-layer EAGLE3 head."""
    shapes = {f"midlayer.self_attn.{n}_proj.weight": (rows * D, 2 * H) for n, rows in (("q", 4), ("k", 2), ("v", 2))}
    shapes |= {"midlayer.self_attn.o_proj.weight": (H, 4 * D), "fc.weight": (H, 3 * source)}
    shapes |= {f"midlayer.mlp.{n}_proj.weight": (M, H) for n in ("gate", "up")}
    shapes |= {"midlayer.mlp.down_proj.weight": (H, M), "lm_head.weight": (draft_vocab, H)}
    found: dict[str, tuple[str, tuple[int, ...]]] = {name: ("BF16", shape) for name, shape in shapes.items()}
    return found | {"d2t": ("I64", (draft_vocab,)), "t2d": ("BOOL", (V,))}


@pytest.fixture
def target(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> Checkpoint:
    config = llama_config()
    return inspect_checkpoint(make_checkpoint(config, llama_tensors(config), "target"))


@pytest.fixture
def eagle3_config(llama_config: Build) -> Build:
    def config(**changes: Any) -> dict[str, Any]:
        base = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 64}
        return llama_config(**{**base, **changes})

    return config


def test_eagle3_shares_the_embedding_and_keeps_its_head(
    make_checkpoint: Make, eagle3_config: Build, target: Checkpoint
) -> None:
    draft = inspect_draft(make_checkpoint(eagle3_config(), eagle3(), "draft"), target)
    assert (draft.kind, draft.inside_target, draft.draft_vocab_size, draft.has_token_map) == (
        DraftKind.EAGLE3,
        False,
        64,
        True,
    )
    assert (draft.budget_layers, draft.pool_layers) == (1, 1)
    assert (draft.shares_embedding, draft.shares_lm_head) == (True, False)
    one = draft_weights(draft)
    embed, head = 2 * padded_vocab(V, 1) * H, 2 * 64 * H
    assert one.gross_bytes == 2 * (BODY + 3 * H * H) + embed + head
    assert (one.shared_bytes, one.net_bytes) == (embed, one.gross_bytes - embed)
    two = draft_weights(draft, tp=2)
    # fc is on every rank, the rest is split.
    assert two.gross_bytes == BODY + 2 * 3 * H * H + (2 * padded_vocab(V, 2) * H + head) // 2
    assert draft_mismatch(target, draft, "EAGLE3") == ()


def test_eagle3_without_draft_vocabulary_takes_the_targets_head(
    make_checkpoint: Make, eagle3_config: Build, target: Checkpoint
) -> None:
    config = eagle3_config(draft_vocab_size=None)
    assert inspect_draft(make_checkpoint(config, eagle3(), "draft"), target).shares_lm_head


def test_eagle3_of_another_width_keeps_its_embedding(
    make_checkpoint: Make, eagle3_config: Build, target: Checkpoint
) -> None:
    config = eagle3_config(target_hidden_size=512)
    draft = inspect_draft(make_checkpoint(config, eagle3(512), "draft"), target)
    assert not draft.shares_embedding
    assert draft_weights(draft).shared_bytes == 0
    (sentence,) = draft_mismatch(target, draft, "EAGLE3")
    assert "hidden size 512" in sentence
    assert "128" in sentence


def test_a_head_with_only_pytorch_weights_is_sized_from_its_config(
    make_checkpoint: Make, tmp_path: Path, eagle3_config: Build, target: Checkpoint
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(eagle3_config()))
    (folder / "pytorch_model.bin").write_bytes(b"PK")
    draft = inspect_draft(folder, target)
    stored = draft_weights(inspect_draft(make_checkpoint(eagle3_config(), eagle3(), "draft"), target))
    estimated = draft_weights(draft)
    assert draft.from_shapes
    assert any("config.json" in note for note in estimated.notes)
    norms = 2 * 2 * H
    assert estimated.gross_bytes == stored.gross_bytes + norms
    assert draft_mismatch(target, draft, "EAGLE3") == ()


def test_a_plain_model_with_only_pytorch_weights_is_refused(
    tmp_path: Path, llama_config: Build, target: Checkpoint
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "config.json").write_text(json.dumps(llama_config()))
    (tmp_path / "plain" / "pytorch_model.bin").write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="only PyTorch"):
        inspect_draft(tmp_path / "plain", target)


def test_eagle_shares_both_tables(make_checkpoint: Make, llama_config: Build, target: Checkpoint) -> None:
    config = llama_config(architectures=["LlamaForCausalLMEagle"], num_hidden_layers=1)
    draft = inspect_draft(make_checkpoint(config, {"fc.weight": ("BF16", (H, 2 * H))}, "draft"), target)
    assert (draft.kind, draft.shares_embedding, draft.shares_lm_head) == (DraftKind.EAGLE, True, True)
    sizes = draft_weights(draft)
    assert sizes.net_bytes == 2 * 2 * H * H
    assert sizes.shared_bytes == 2 * 2 * padded_vocab(V, 1) * H


def test_nextn_layers_inside_the_target(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> None:
    config = llama_config(architectures=["DeepseekV3ForCausalLM"], num_nextn_predict_layers=1)
    extra = {
        "model.layers.4.eh_proj.weight": ("BF16", (H, 2 * H)),
        "model.layers.4.mlp.up_proj.weight": ("BF16", (M, H)),
        "model.layers.4.embed_tokens.weight": ("BF16", (V, H)),
        "model.layers.4.shared_head.head.weight": ("BF16", (V, H)),
    }
    target = inspect_checkpoint(make_checkpoint(config, llama_tensors(config) | extra, "mtp"))
    for path in (None, target.path):
        draft = inspect_draft(path, target)
        assert (draft.kind, draft.inside_target, draft.budget_layers) == (DraftKind.NEXTN, True, 1)
        assert draft_weights(draft, tp=2).net_bytes == 2 * 2 * H * H + H * M
        assert draft_mismatch(target, draft, "NEXTN") == ()
        assert draft_mismatch(target, draft, "EAGLE") == ()


def test_mtp_without_a_stated_count(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> None:
    config = llama_config(architectures=["Qwen3NextForCausalLM"])
    extra = {"mtp.layers.0.mlp.up_proj.weight": ("BF16", (M, H)), "mtp.fc.weight": ("BF16", (H, 2 * H))}
    target = inspect_checkpoint(make_checkpoint(config, llama_tensors(config) | extra, "mtp"))
    draft = inspect_draft(None, target)
    assert (draft.budget_layers, draft.pool_layers) == (1, 1)


def test_a_stated_zero_still_has_a_pool(make_checkpoint: Make, eagle3_config: Build, target: Checkpoint) -> None:
    config = eagle3_config(num_nextn_predict_layers=0, num_hidden_layers=2)
    draft = inspect_draft(make_checkpoint(config, eagle3(), "draft"), target)
    assert (draft.budget_layers, draft.pool_layers) == (0, 2)


def test_standalone_is_a_whole_model(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build, target: Checkpoint
) -> None:
    config = llama_config(num_hidden_layers=2)
    folder = make_checkpoint(config, llama_tensors(config), "small")
    draft = inspect_draft(folder, target)
    sizes = draft_weights(draft, tp=2)
    assert (draft.kind, draft.budget_layers) == (DraftKind.PLAIN, 2)
    assert sizes.gross_bytes == sizes.net_bytes == weights_per_rank(inspect_checkpoint(folder), tp=2)[0].stored_bytes
    assert draft_mismatch(target, draft, "STANDALONE") == ()


def test_the_wrong_kind_names_the_right_algorithm(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build, eagle3_config: Build, target: Checkpoint
) -> None:
    config = llama_config(num_hidden_layers=1)
    plain = inspect_draft(make_checkpoint(config, llama_tensors(config), "plain"), target)
    head = inspect_draft(make_checkpoint(eagle3_config(), eagle3(), "head"), target)
    (sentence,) = draft_mismatch(target, plain, "EAGLE3")
    assert "not an EAGLE3 head" in sentence
    assert "--speculative-algorithm STANDALONE" in sentence
    (sentence,) = draft_mismatch(target, head, "EAGLE")
    assert "--speculative-algorithm EAGLE3" in sentence
    (sentence,) = draft_mismatch(target, head, "STANDALONE")
    assert "not a complete model" in sentence


@pytest.mark.parametrize("algorithm", ["EAGLE3", "STANDALONE", "EAGLE", "NEXTN"])
def test_a_path_is_needed_when_the_target_has_no_draft(target: Checkpoint, algorithm: str) -> None:
    (sentence,) = draft_mismatch(target, inspect_draft(None, target), algorithm)
    assert "--speculative-draft-model-path" in sentence


def test_algorithms_without_a_draft_have_nothing_to_mismatch(target: Checkpoint) -> None:
    assert draft_mismatch(target, inspect_draft(None, target), "NGRAM") == ()
    assert draft_mismatch(target, None, "EAGLE3") == ()


def test_vocabularies_and_token_maps_are_compared(
    make_checkpoint: Make, eagle3_config: Build, llama_config: Build, llama_tensors: Build, target: Checkpoint
) -> None:
    other = inspect_draft(make_checkpoint(eagle3_config(vocab_size=300), eagle3(), "other"), target)
    assert any("300" in sentence and "264" in sentence for sentence in draft_mismatch(target, other, "EAGLE3"))
    unmapped = {name: spec for name, spec in eagle3().items() if name != "d2t"}
    found = draft_mismatch(
        target, inspect_draft(make_checkpoint(eagle3_config(), unmapped, "unmapped"), target), "EAGLE3"
    )
    assert len(found) == 1
    assert "d2t" in found[0]
    for rows, sentences in ((266, 0), (300, 1)):
        config = llama_config(vocab_size=rows)
        draft = inspect_draft(make_checkpoint(config, llama_tensors(config), f"v{rows}"), target)
        assert len(draft_mismatch(target, draft, "STANDALONE")) == sentences


def test_a_head_whose_fc_does_not_fit_is_named(make_checkpoint: Make, eagle3_config: Build, target: Checkpoint) -> None:
    draft = inspect_draft(make_checkpoint(eagle3_config(), eagle3(source=100), "draft"), target)
    (sentence,) = draft_mismatch(target, draft, "EAGLE3")
    assert "300 inputs" in sentence
