"""Checkpoint -> weight bytes on each rank, by what the tensors are for.

Exact where the header decides (type times shape, split as SGLang splits it); what SGLang changes while loading is added
as a stated estimate in `notes`. A measured "mem usage" of an earlier run beats this.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tui.frozen import frozen
from tui.models.allocator import rounding_bytes
from tui.models.checkpoint import Checkpoint, TensorGroup
from tui.models.config import model_dtype
from tui.models.roles import Role, Shard

VOCAB_PADDING = 64
ONLINE_8_BIT = frozenset({"fp8", "w8a8_fp8", "w8a8_int8", "mxfp8"})
"""--quantization values that halve the linear weights of a 16-bit checkpoint while loading."""

_FLOATS = frozenset({"F32", "F16", "BF16"})
_KEPT_FLOAT32 = frozenset({"A_log", "e_score_correction_bias"})
_LINEAR = frozenset({Role.ATTENTION, Role.MLP, Role.SHARED_EXPERTS, Role.EXPERTS})


@frozen(kw_only=False)
class Layout:
    """How the server spreads the model. `attn_dp` is the data-parallel size of attention (1 without DP attention)."""

    tp: int = 1
    ep: int = 1
    pp: int = 1
    attn_dp: int = 1
    moe_dense_tp: int | None = None
    replicate_shared_experts: bool = False
    encoder_dp: bool = False
    dp_lm_head: bool = False

    def __post_init__(self) -> None:
        for name in ("tp", "ep", "pp", "attn_dp"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}.")

    @property
    def attn_tp(self) -> int:
        return max(1, self.tp // self.attn_dp)

    @property
    def dense_tp(self) -> int:
        return self.tp if self.moe_dense_tp is None else self.moe_dense_tp


@frozen(kw_only=False)
class RankWeights:
    """Weight bytes on one rank.

    `by_role` splits `stored_bytes`, what the tensors occupy. `loaded_bytes` adds copies made while loading and the
    allocator's rounding: it is what SGLang logs as "mem usage", estimated. `notes` says what is estimated and why.
    """

    rank: int
    pp_rank: int
    tp_rank: int
    by_role: Mapping[Role, int]
    derived_bytes: int
    rounding_bytes: int
    notes: tuple[str, ...]

    @property
    def stored_bytes(self) -> int:
        return sum(self.by_role.values())

    @property
    def loaded_bytes(self) -> int:
        return self.stored_bytes + self.derived_bytes + self.rounding_bytes


def pp_stage(num_layers: int, pp: int, pp_rank: int) -> tuple[int, int]:
    """(first layer, one past the last) of a pipeline stage; extra layers go to the last stages.

    SGLang 0.5.9 and 0.5.23 distributed/utils.py:get_pp_indices, without SGLANG_PP_LAYER_PARTITION.
    """
    base, extra = divmod(num_layers, pp)
    plain = pp - extra
    if pp_rank < plain:
        return pp_rank * base, (pp_rank + 1) * base
    start = plain * base + (pp_rank - plain) * (base + 1)
    return start, start + base + 1


def padded_vocab(vocab_size: int, tp: int) -> int:
    """Rows of a vocab-parallel table (SGLang 0.5.23 layers/vocab_parallel_embedding.py:VocabParallelEmbedding)."""
    padded = -(-vocab_size // VOCAB_PADDING) * VOCAB_PADDING
    step = VOCAB_PADDING if padded % tp == 0 else VOCAB_PADDING * tp
    return -(-vocab_size // step) * step


def weights_per_rank(
    checkpoint: Checkpoint,
    tp: int = 1,
    ep: int = 1,
    pp: int = 1,
    *,
    attn_dp: int = 1,
    moe_dense_tp: int | None = None,
    replicate_shared_experts: bool = False,
    encoder_dp: bool = False,
    dp_lm_head: bool = False,
    language_only: bool = False,
    quantization: str | None = None,
    dtype: str = "auto",
) -> tuple[RankWeights, ...]:
    """Bytes per rank, in rank order (pp_rank * tp + tp_rank), of a target run: its NextN layers are not loaded.

    `quantization` and `dtype` are the server's flags; a quantised checkpoint ignores `quantization`.
    Raises ValueError for a size below 1 or a layout that the model cannot take.
    """
    layout = Layout(tp, ep, pp, attn_dp, moe_dense_tp, replicate_shared_experts, encoder_dp, dp_lm_head)
    if pp > checkpoint.num_hidden_layers:
        raise ValueError(f"pp {pp} is more than the model's {checkpoint.num_hidden_layers} layers.")
    stages = [_stage(checkpoint, layout, stage, language_only, quantization, dtype) for stage in range(pp)]
    return tuple(
        RankWeights(stage * tp + rank, stage, rank, roles, derived, rounding, notes)
        for stage, (roles, derived, rounding, notes) in enumerate(stages)
        for rank in range(tp)
    )


def _stage(
    checkpoint: Checkpoint, layout: Layout, stage: int, language_only: bool, quantization: str | None, dtype: str
) -> tuple[Mapping[Role, int], int, int, tuple[str, ...]]:
    """One pipeline stage: bytes by role, copies made while loading, allocator rounding, notes."""
    groups = [
        group for group in _stage_groups(checkpoint, layout, stage) if not (language_only and _is(group, Role.VISION))
    ]
    sizer = Sizer(checkpoint, layout, quantization, dtype)
    roles: dict[Role, int] = defaultdict(int)
    parameters: dict[tuple[int | None, str, str], int] = defaultdict(int)
    derived = 0
    for group in groups:
        size = sizer.bytes_of(group)
        roles[group.place.role] += size
        parameters[(group.place.layer, group.place.param, group.place.part)] += size
        derived += sizer.absorbed_bytes(group)
    if _copies_head(checkpoint, layout, stage):
        head = sum(sizer.bytes_of(group) for group in checkpoint.groups if _is(group, Role.EMBED))
        roles[Role.LM_HEAD] += head
        parameters[(None, "lm_head", "weight")] += head
    rounding = rounding_bytes(parameters.values())
    return roles, derived, rounding, tuple(sizer.notes(groups, derived, rounding))


def _stage_groups(checkpoint: Checkpoint, layout: Layout, stage: int) -> Iterator[TensorGroup]:
    """The groups that a target run loads on a stage: embedding and encoder first, head and final norm last."""
    first, last = pp_stage(checkpoint.num_hidden_layers, layout.pp, stage)
    for group in checkpoint.groups:
        where = group.place
        if where.nextn or where.shard is Shard.NOT_LOADED:
            continue
        if where.role is Role.LM_HEAD and checkpoint.tie_word_embeddings:
            continue
        if where.role in (Role.EMBED, Role.VISION):
            here = stage == 0
        elif where.layer is not None:
            here = first <= where.layer < last
        else:
            here = stage == layout.pp - 1
        if here:
            yield group


def _copies_head(checkpoint: Checkpoint, layout: Layout, stage: int) -> bool:
    """A tied head cannot alias an embedding on another stage: the last stage holds a copy."""
    return checkpoint.tie_word_embeddings and layout.pp > 1 and stage == layout.pp - 1


def _is(group: TensorGroup, role: Role) -> bool:
    return group.place.role is role


class Sizer:
    """Bytes of a tensor group on one rank under a layout, a dtype flag and a quantization flag."""

    def __init__(self, checkpoint: Checkpoint, layout: Layout, quantization: str | None, dtype: str) -> None:
        self._checkpoint = checkpoint
        self._layout = layout
        self._dtype = model_dtype(checkpoint.config, dtype)
        self._online = quantization if checkpoint.quantization is None else None

    def bytes_of(self, group: TensorGroup) -> int:
        """Bytes on one rank, rounded up where a dimension does not divide."""
        nbytes = self._loaded_bytes(group)
        if group.place.shard is Shard.VOCAB and group.shape:
            nbytes = nbytes * padded_vocab(group.shape[0], self._vocab_tp(group)) // max(1, group.shape[0])
        parts, whole = self._fraction(group)
        return -(-nbytes * parts // whole)

    def absorbed_bytes(self, group: TensorGroup) -> int:
        """MLA keeps kv_b_proj and, for the absorbed form, 16-bit copies of its two halves.

        SGLang 0.5.23 models/deepseek_common/deepseek_weight_loader.py: w_kc and w_vc.
        """
        if group.place.module != "kv_b_proj" or group.place.part not in ("weight", "qweight", "weight_packed"):
            return 0
        packed = {"qweight": 8, "weight_packed": 8}.get(group.place.part, 2 if group.dtype == "U8" else 1)
        return -(-group.numel * packed * 2 // self._layout.attn_tp)

    def notes(self, groups: list[TensorGroup], derived: int, rounding: int) -> Iterator[str]:
        """Sentences for what is not read off the header."""
        if derived:
            yield f"Absorbed MLA copies of kv_b_proj are estimated at {derived / 2**30:.2f} GiB per rank."
        if rounding:
            yield f"The allocator's rounding is estimated at {rounding / 2**30:.2f} GiB per rank."
        if any(group.dtype == "F32" and self._loaded_bytes(group) < group.nbytes for group in groups):
            yield f"The checkpoint's float32 weights are cast to {self._dtype} while loading."
        if self._online in ONLINE_8_BIT:
            yield f"--quantization {self._online} halves the linear weights while loading; the peak is higher."
        elif self._online:
            yield f"The effect of --quantization {self._online} is not known: weights are counted as stored."
        total = sum(group.nbytes for group in groups)
        unknown = [group for group in groups if group.place.role is Role.OTHER]
        if sum(group.nbytes for group in unknown) > total / 100:
            names = sorted({group.place.module for group in unknown})
            yield f"Unknown tensors are counted on every rank: {', '.join(names[:5])}."

    def _loaded_bytes(self, group: TensorGroup) -> int:
        """Bytes of the whole tensor after SGLang's cast or on-the-fly quantisation."""
        where = group.place
        plain = where.part in ("weight", "bias") and group.dtype in _FLOATS
        if not plain or where.module in _KEPT_FLOAT32:
            return group.nbytes
        if self._online in ONLINE_8_BIT and where.part == "weight" and where.role in _LINEAR and len(group.shape) > 1:
            return group.numel
        size = 4 if self._dtype == "float32" else 2
        return group.numel * size

    def _vocab_tp(self, group: TensorGroup) -> int:
        """Under DP attention the embedding follows the attention group; the head only with --enable-dp-lm-head."""
        layout = self._layout
        return layout.attn_tp if group.place.role is Role.EMBED or layout.dp_lm_head else layout.tp

    def _fraction(self, group: TensorGroup) -> tuple[int, int]:
        """The share of a tensor that one rank holds, as (numerator, denominator)."""
        layout, shard = self._layout, group.place.shard
        heads, kv_heads = self._checkpoint.num_attention_heads, self._checkpoint.num_key_value_heads
        if shard is Shard.VOCAB:
            return 1, self._vocab_tp(group)
        if shard is Shard.EXPERT:
            whole_in_group = group.place.param == "w2" and group.place.part == "bias"
            return 1, layout.ep if whole_in_group or not group.shape else layout.tp
        if group.place.role is Role.VISION:
            return 1, 1 if layout.encoder_dp or shard is Shard.REPLICATED else layout.tp
        # A per-tensor scale has nothing to split.
        if shard is Shard.REPLICATED or group.numel <= group.count:
            return 1, 1
        if group.place.role is Role.SHARED_EXPERTS:
            return 1, 1 if layout.replicate_shared_experts else layout.tp
        if group.place.role is Role.MLP:
            return 1, layout.dense_tp
        if shard is Shard.KV:
            return max(1, kv_heads // layout.attn_tp), kv_heads
        if shard is Shard.QKV:
            return heads // layout.attn_tp + 2 * max(1, kv_heads // layout.attn_tp), heads + 2 * kv_heads
        return 1, layout.attn_tp
