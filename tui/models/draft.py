"""Draft models: which kind a folder holds, how many layers SGLang budgets, and whether it belongs to a target."""

from enum import StrEnum
from pathlib import Path

from tui.frozen import frozen
from tui.models.checkpoint import Checkpoint, describe, has_safetensors, inspect_checkpoint, load_config
from tui.models.config import architectures, positive_int
from tui.models.draft_shapes import eagle_tensors

_ONE_LAYER_MTP = ("Qwen3Next", "Qwen3_5", "ExaoneMoE", "NemotronH")
"""Architectures whose draft form SGLang 0.5.9 gives one NextN layer (configs/model_config.py:_config_draft_model)."""

_OWN_HEADS = frozenset({"EAGLE", "NEXTN", "EAGLE3"})


class DraftKind(StrEnum):
    """What a folder is, whatever algorithm it is given to."""

    EAGLE = "EAGLE"
    EAGLE3 = "EAGLE3"
    NEXTN = "NEXTN"
    PLAIN = "STANDALONE"


@frozen(kw_only=False)
class Draft:
    """A draft model.

    `budget_layers` is what SGLang 0.5.14+ adds to the cell size, `pool_layers` what the draft's own pool has; they
    differ when a config says num_nextn_predict_layers 0. `inside_target` is true when the draft is read from the
    target's folder. `from_shapes` is true when its weights have no readable header and sizes come from config.json.
    """

    kind: DraftKind
    checkpoint: Checkpoint
    inside_target: bool
    budget_layers: int
    pool_layers: int
    draft_vocab_size: int | None
    target_hidden_size: int | None
    has_token_map: bool
    shares_embedding: bool
    shares_lm_head: bool
    from_shapes: bool


def inspect_draft(path: str | Path | None, target: Checkpoint) -> Draft:
    """Read a draft folder, or the target's own NextN layers when `path` is None or the target's folder.

    Raises CheckpointError as inspect_checkpoint does, except that an EAGLE head with only PyTorch weights is sized from
    its config.
    """
    if path is None or Path(path).resolve() == Path(target.path).resolve():
        return _draft(target, inside_target=True, from_shapes=False)
    folder = Path(path)
    config = load_config(folder)
    eagle = any("Eagle" in name for name in architectures(config))
    if eagle and not has_safetensors(folder):
        # Many published heads are one .bin file; their few tensors follow from the config.
        return _draft(describe(folder, config, eagle_tensors(config)), inside_target=False, from_shapes=True)
    return _draft(inspect_checkpoint(folder), inside_target=False, from_shapes=False)


def draft_mismatch(target: Checkpoint, draft: Draft | None, algorithm: str) -> tuple[str, ...]:
    """Sentences on why a draft does not belong to the target under --speculative-algorithm; empty when it does.

    `draft` is None when there is none to look at; algorithms without a draft model have nothing to mismatch.
    """
    name = algorithm.upper()
    if draft is None or name not in _OWN_HEADS | {"STANDALONE"}:
        return ()
    wrong_kind = _kind_mismatch(target, draft, name)
    if wrong_kind:
        return (wrong_kind,)
    return tuple(_size_mismatch(target, draft, name))


def _draft(checkpoint: Checkpoint, *, inside_target: bool, from_shapes: bool) -> Draft:
    kind = _kind(checkpoint, inside_target)
    text = checkpoint.text
    vocab = positive_int(text, "draft_vocab_size")
    target_hidden = positive_int(text, "target_hidden_size")
    shares = kind is not DraftKind.PLAIN
    own_embedding = kind is DraftKind.EAGLE3 and target_hidden not in (None, checkpoint.hidden_size)
    budget, pool = _layers(checkpoint, kind)
    return Draft(
        kind=kind,
        checkpoint=checkpoint,
        inside_target=inside_target,
        budget_layers=budget,
        pool_layers=pool,
        draft_vocab_size=vocab,
        target_hidden_size=target_hidden,
        has_token_map=from_shapes or any(group.place.module == "d2t" for group in checkpoint.groups),
        shares_embedding=shares and not own_embedding,
        # An EAGLE3 head has its own, smaller lm_head unless it names no draft vocabulary.
        shares_lm_head=shares
        and (kind is not DraftKind.EAGLE3 or (vocab is None and not checkpoint.tie_word_embeddings)),
        from_shapes=from_shapes,
    )


def _kind(checkpoint: Checkpoint, inside_target: bool) -> DraftKind:
    name = checkpoint.architecture
    if "Eagle3" in name:
        return DraftKind.EAGLE3
    if "Eagle" in name:
        return DraftKind.EAGLE
    if name.endswith(("NextN", "MTP")):
        return DraftKind.NEXTN
    has_nextn = any(group.place.nextn for group in checkpoint.groups)
    return DraftKind.NEXTN if has_nextn and inside_target else DraftKind.PLAIN


def _layers(checkpoint: Checkpoint, kind: DraftKind) -> tuple[int, int]:
    """(layers in the budget, layers in the draft's pool).

    SGLang 0.5.23 model_executor/model_runner_components/spec_aux_hidden_state.py and layer_setup.py.
    """
    stated = checkpoint.num_nextn_predict_layers
    if kind is DraftKind.NEXTN and stated is None and checkpoint.architecture.startswith(_ONE_LAYER_MTP):
        stated = 1
    if stated is None and kind is DraftKind.NEXTN:
        layers = {group.place.layer for group in checkpoint.groups if group.place.nextn}
        stated = max(1, len(layers - {None})) if layers else None
    attention = 2 if "LongcatFlashForCausalLM" in checkpoint.architectures else 1
    plain = checkpoint.num_hidden_layers * attention
    return (plain, plain) if stated is None else (stated, stated or plain)


def _kind_mismatch(target: Checkpoint, draft: Draft, algorithm: str) -> str | None:
    path, name = draft.checkpoint.path, draft.checkpoint.architecture
    if draft.inside_target:
        if algorithm in ("EAGLE3", "STANDALONE"):
            return (
                f"{algorithm} needs --speculative-draft-model-path: without it SGLang loads the target a second time "
                "as its own draft."
            )
        if draft.kind is DraftKind.PLAIN:
            return f"{target.path} has no NextN layers of its own: {algorithm} needs --speculative-draft-model-path."
        return None
    if algorithm == "EAGLE3" and draft.kind is not DraftKind.EAGLE3:
        return f"{path} is a {_what(draft)} ({name}), not an EAGLE3 head: {_advice(draft)}."
    if algorithm in ("EAGLE", "NEXTN") and draft.kind in (DraftKind.EAGLE3, DraftKind.PLAIN):
        return f"{path} is a {_what(draft)} ({name}), not an EAGLE or NextN head: {_advice(draft)}."
    if algorithm == "STANDALONE" and draft.kind is not DraftKind.PLAIN:
        return f"{path} is a {_what(draft)} ({name}), not a complete model: {_advice(draft)}."
    return None


def _what(draft: Draft) -> str:
    return "plain model" if draft.kind is DraftKind.PLAIN else f"{draft.kind.value} head"


def _advice(draft: Draft) -> str:
    return f"use --speculative-algorithm {draft.kind.value} or another draft"


def _size_mismatch(target: Checkpoint, draft: Draft, algorithm: str) -> list[str]:
    found = []
    own = draft.checkpoint
    if algorithm != "STANDALONE" and not draft.inside_target:
        expected = draft.target_hidden_size or own.hidden_size
        if expected != target.hidden_size:
            found.append(
                f"The draft was made for a target of hidden size {expected}, but this target has {target.hidden_size}: "
                "take the draft that names this target."
            )
        fc = _fc_inputs(draft)
        if fc is not None and found == [] and fc % target.hidden_size:
            found.append(
                f"The draft's fc layer takes {fc} inputs, which is no multiple of the target's hidden size "
                f"{target.hidden_size}: take the draft that names this target."
            )
    # Sizes of one family differ by some unused rows; an aliased table must match exactly.
    slack = target.vocab_size // 100 if algorithm == "STANDALONE" else 0
    if not draft.inside_target and abs(own.vocab_size - target.vocab_size) > slack:
        found.append(
            f"The draft's vocabulary has {own.vocab_size} tokens and the target's {target.vocab_size}: "
            "their tokenizers differ, so draft tokens mean nothing to the target."
        )
    small = draft.draft_vocab_size
    if small is not None and small != own.vocab_size and not draft.has_token_map:
        found.append(
            f"The draft predicts {small} of {own.vocab_size} tokens but has no d2t table to map them back: "
            "the checkpoint is incomplete."
        )
    return found


def _fc_inputs(draft: Draft) -> int | None:
    for group in draft.checkpoint.groups:
        if group.place.module == "fc" and group.place.part == "weight" and len(group.shape) == 2:
            return group.shape[1]
    return None
