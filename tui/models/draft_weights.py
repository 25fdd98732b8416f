"""Draft weights per rank: gross, as SGLang logs them, and net, after embed and head alias the target's."""

from tui.frozen import frozen
from tui.models.checkpoint import Checkpoint, TensorGroup
from tui.models.draft import Draft, DraftKind
from tui.models.roles import Role, Shard
from tui.models.weights import Layout, Sizer, padded_vocab, weights_per_rank


@frozen(kw_only=False)
class DraftWeights:
    """Draft bytes on each rank.

    `gross_bytes` is what the load takes; `shared_bytes` of it is given back when the draft's own embedding and lm_head
    are dropped for the target's: at once up to SGLang 0.5.13, after the target's pool was sized from 0.5.14.
    """

    gross_bytes: int
    shared_bytes: int
    notes: tuple[str, ...]

    @property
    def net_bytes(self) -> int:
        return self.gross_bytes - self.shared_bytes


def draft_weights(
    draft: Draft,
    tp: int = 1,
    ep: int = 1,
    *,
    attn_dp: int = 1,
    quantization: str | None = None,
    dtype: str = "auto",
) -> DraftWeights:
    """Bytes per rank of a draft run; a draft is not split into pipeline stages.

    Heads allocate an embedding and an lm_head whether or not their files hold one (SGLang 0.5.23 models/llama_eagle.py,
    llama_eagle3.py, deepseek_nextn.py). `quantization` is --speculative-draft-model-quantization.
    """
    own = draft.checkpoint
    if draft.kind is DraftKind.PLAIN:
        rank = weights_per_rank(own, tp, ep, attn_dp=attn_dp, quantization=quantization, dtype=dtype)[0]
        return DraftWeights(rank.stored_bytes + rank.derived_bytes, 0, rank.notes)
    layout = Layout(tp=tp, ep=ep, attn_dp=attn_dp)
    sizer = Sizer(own, layout, quantization, dtype)
    body = [group for group in own.groups if _is_body(group, draft)]
    derived = sum(sizer.absorbed_bytes(group) for group in body)
    embed = _table_bytes(own, own.vocab_size, layout.attn_tp)
    head = 0 if own.tie_word_embeddings else _table_bytes(own, draft.draft_vocab_size or own.vocab_size, tp)
    gross = sum(sizer.bytes_of(group) for group in body) + derived + embed + head
    shared = (embed if draft.shares_embedding else 0) + (head if draft.shares_lm_head else 0)
    notes = tuple(sizer.notes(body, derived, 0))
    if draft.from_shapes:
        notes += ("The draft's weights have no readable header: its size is worked out from config.json.",)
    return DraftWeights(gross, shared, notes)


def _is_body(group: TensorGroup, draft: Draft) -> bool:
    """Everything the head loads but the two vocabulary tables."""
    where = group.place
    if where.role in (Role.EMBED, Role.LM_HEAD, Role.VISION) or where.shard is Shard.NOT_LOADED:
        return False
    return where.nextn or not draft.inside_target


def _table_bytes(checkpoint: Checkpoint, rows: int, tp: int) -> int:
    size = 4 if checkpoint.dtype == "float32" else 2
    return padded_vocab(rows, tp) // tp * checkpoint.hidden_size * size
