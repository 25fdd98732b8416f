"""KV cache bytes per token slot on one rank ("cell size"), by SGLang version.

Sources: ModelRunner.profile_max_num_token (<= 0.5.6, model_executor/model_runner.py), get_cell_size_per_token (0.5.7
– 0.5.12, model_executor/model_runner_kv_cache_mixin.py), DefaultPoolConfigurator and HybridSWAPoolConfigurator (from
0.5.13 on, model_executor/pool_configurator.py).
"""

from dataclasses import replace
from enum import StrEnum

from tui.frozen import frozen
from tui.sglang.speculation import has_draft_model, is_dflash_family
from tui.sglang.versions import Version

FP8_DTYPES = ("fp8_e4m3", "fp8_e5m2", "mxfp8")
FP4_DTYPES = ("fp4_e2m1", "nvfp4", "fp4_mx_block16")
_PLAIN_ITEMSIZE = {"bfloat16": 2, "bf16": 2, "float16": 2, "fp16": 2, "half": 2, "float32": 4, "float": 4}
_FP4_BLOCK, _MXFP8_BLOCK, _DSA_BLOCK = 16, 32, 128
SWA_FULL_TOKENS_RATIO = 0.8


class KvKind(StrEnum):
    """How a model's attention layers store KV."""

    MHA = "mha"  # multi-head or grouped-query: K and V per kv head
    MLA = "mla"  # one latent vector per token, the same on every rank
    DSA = "dsa"  # MLA with a sparse-attention indexer (DeepSeek-V3.2, GLM-DSA)
    SWA = "swa"  # some layers keep only a sliding window, in a pool of their own


@frozen
class KvGeometry:
    """What of a model's config decides the size of its KV cache, for the whole model (nothing divided by tp or pp).

    `layers`: layers that keep full-length KV. Hybrid mamba/linear-attention models: only their full-attention layers;
    SWA: only the full-attention ones, the windowed ones are `swa_layers`. `kv_heads`: total KV heads of the config.
    `index_layers`: DSA layers with an index cache of their own, None = all. `state_bytes_per_request`: recurrent
    (conv + ssm) state of one request on ONE rank, all layers; 0 without recurrent layers. `dtype`: the model's dtype.
    `checkpoint_fp8_kv`: the checkpoint's quantisation config asks for an FP8 KV cache.
    """

    kind: KvKind
    layers: int
    dtype: str = "bfloat16"
    kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int | None = None  # None = head_dim
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    index_dim: int = 0
    index_layers: int | None = None
    swa_layers: int = 0
    swa_kv_heads: int | None = None  # None = kv_heads
    swa_head_dim: int | None = None  # None = head_dim
    swa_v_head_dim: int | None = None  # None = v_head_dim, then head_dim
    sliding_window: int | None = None
    state_bytes_per_request: int = 0
    checkpoint_fp8_kv: bool = False


@frozen
class CellSize:
    """Bytes per token slot on one rank.

    `target`: the target's own pool. `budgeted_draft`: what SGLang adds to the divisor for the draft. `draft_pool`:
    what the draft's pool really takes per token, None when its geometry is not known; it is paid from the slack
    before 0.5.14.
    """

    target: float
    budgeted_draft: float = 0
    draft_pool: float | None = None
    note: str | None = None

    @property
    def total(self) -> float:
        """The divisor of the pool equation."""
        return self.target + self.budgeted_draft


def resolve_kv_dtype(geometry: KvGeometry, kv_cache_dtype: str | None) -> str:
    """The dtype that "auto" (or None) means: FP8 when the checkpoint asks for it, else the model's dtype."""
    if kv_cache_dtype not in (None, "auto"):
        return str(kv_cache_dtype)
    return "fp8_e4m3" if geometry.checkpoint_fp8_kv else geometry.dtype


def kv_itemsize(dtype: str) -> int:
    """Bytes of one stored element; FP4 counts 1, because SGLang halves the cell afterwards. ValueError if not known."""
    if dtype in FP8_DTYPES or dtype in FP4_DTYPES:
        return 1
    if dtype not in _PLAIN_ITEMSIZE:
        raise ValueError(f"The KV cache dtype {dtype!r} is not one that is known; use auto, bf16 or an fp8 dtype.")
    return _PLAIN_ITEMSIZE[dtype]


def stage_layers(layers: int, pp_size: int) -> int:
    """Layers of the fullest pipeline stage: the pool is the minimum over stages, so this one decides.

    get_pp_indices (distributed/utils.py) spreads the remainder over single stages.
    """
    return -(-layers // max(1, pp_size))


def kv_heads_per_rank(kv_heads: int, attn_tp: int) -> int:
    """KV heads on one rank; with fewer heads than ranks each rank keeps one (configs/model_config.py)."""
    return max(1, kv_heads // max(1, attn_tp))


def _width(head_dim: int, v_head_dim: int | None) -> int:
    return head_dim + (head_dim if v_head_dim is None else v_head_dim)


def _mha_bytes(version: Version, geometry: KvGeometry, dtype: str, attn_tp: int, layers: int) -> int:
    heads = kv_heads_per_rank(geometry.kv_heads, attn_tp)
    # Up to 0.5.6 K and V were taken as equally wide.
    width = _width(geometry.head_dim, geometry.v_head_dim if version.at_least(0, 5, 7) else None)
    elements = heads * width * layers
    cell = elements * kv_itemsize(dtype)
    if dtype in FP4_DTYPES:
        return cell // 2 + heads * geometry.head_dim * layers * 2 // _FP4_BLOCK
    if dtype == "mxfp8":
        return cell + elements // _MXFP8_BLOCK
    return cell


def _mla_bytes(version: Version, geometry: KvGeometry, dtype: str, layers: int, raw_layout: bool) -> int:
    """Not divided by tp: every rank keeps the whole latent.

    From 0.5.17 on the FP8 cell of a DSA model counts the block scales and the unquantised rope part, unless the
    attention backend stores raw rows (`raw_layout`, TRT-LLM); before, only the pool did, not the equation.
    """
    lora, rope = geometry.kv_lora_rank, geometry.qk_rope_head_dim
    width = lora + rope
    scaled = geometry.kind is KvKind.DSA and dtype == "fp8_e4m3" and not raw_layout and version.at_least(0, 5, 17)
    if scaled:
        width = lora + lora // _DSA_BLOCK * 4 + rope * 2
    cell = width * layers * kv_itemsize(dtype)
    if dtype in FP4_DTYPES:
        cell = cell // 2 + (lora + rope) // _FP4_BLOCK * layers
    return cell


def _index_bytes(version: Version, geometry: KvGeometry, layers: int, pp_size: int) -> int:
    """The indexer's FP8 keys with their scales; since 0.5.18 only for layers that have an index of their own."""
    if geometry.kind is not KvKind.DSA:
        return 0
    if geometry.index_layers is not None and version.at_least(0, 5, 18):
        layers = stage_layers(geometry.index_layers, pp_size)
    return (geometry.index_dim + geometry.index_dim // _DSA_BLOCK * 4) * layers


def swa_bytes(geometry: KvGeometry, dtype: str, attn_tp: int, pp_size: int = 1) -> tuple[int, int]:
    """(bytes per full token over the full layers, bytes per window token over the windowed layers) of one rank.

    HybridSWAPoolConfigurator (pool_configurator.py) and set_num_tokens_hybrid_swa before it.
    """
    full_heads = kv_heads_per_rank(geometry.kv_heads, attn_tp)
    swa_total = geometry.kv_heads if geometry.swa_kv_heads is None else geometry.swa_kv_heads
    swa_heads = kv_heads_per_rank(swa_total, attn_tp)
    swa_head_dim = geometry.head_dim if geometry.swa_head_dim is None else geometry.swa_head_dim
    swa_v = geometry.v_head_dim if geometry.swa_v_head_dim is None else geometry.swa_v_head_dim
    if geometry.swa_v_head_dim is None and geometry.v_head_dim is None:
        swa_v = swa_head_dim
    full = full_heads * _width(geometry.head_dim, geometry.v_head_dim)
    window = swa_heads * _width(swa_head_dim, swa_v)
    size = kv_itemsize(dtype)
    scale_full = full // _MXFP8_BLOCK if dtype == "mxfp8" else 0
    scale_window = window // _MXFP8_BLOCK if dtype == "mxfp8" else 0
    full_layers = stage_layers(geometry.layers, pp_size)
    swa_layers = stage_layers(geometry.swa_layers, pp_size)
    return (full * size + scale_full) * full_layers, (window * size + scale_window) * swa_layers


def target_cell(
    version: Version,
    geometry: KvGeometry,
    *,
    kv_cache_dtype: str | None = None,
    attn_tp: int = 1,
    pp_size: int = 1,
    swa_full_tokens_ratio: float = SWA_FULL_TOKENS_RATIO,
    raw_layout: bool = False,
) -> float:
    """Bytes per token of the target's pool on one rank (the fullest pipeline stage).

    For SWA models the divisor that gives full-layer tokens: full + ratio x window, or the window alone when no layer
    keeps full-length KV. Up to 0.5.6 SWA cells were sized as if every layer were alike, and the ratio applied to
    layer counts. ValueError for an unknown dtype.
    """
    dtype = resolve_kv_dtype(geometry, kv_cache_dtype)
    layers = stage_layers(geometry.layers, pp_size)
    if geometry.kind is KvKind.SWA:
        if version.before(0, 5, 7):
            per_layer = _mha_bytes(version, geometry, dtype, attn_tp, 1)
            return per_layer * (layers + swa_full_tokens_ratio * stage_layers(geometry.swa_layers, pp_size))
        full, window = swa_bytes(geometry, dtype, attn_tp, pp_size)
        return full + swa_full_tokens_ratio * window if geometry.layers else window
    if geometry.kind is KvKind.MHA:
        return _mha_bytes(version, geometry, dtype, attn_tp, layers)
    latent = _mla_bytes(version, geometry, dtype, layers, raw_layout)
    return latent + _index_bytes(version, geometry, layers, pp_size)


def cell_size(
    version: Version,
    target: KvGeometry,
    *,
    algorithm: str | None = None,
    draft: KvGeometry | None = None,
    kv_cache_dtype: str | None = None,
    draft_kv_cache_dtype: str | None = None,
    attn_tp: int = 1,
    pp_size: int = 1,
    swa_full_tokens_ratio: float = SWA_FULL_TOKENS_RATIO,
    raw_layout: bool = False,
) -> CellSize:
    """The divisor of the pool equation with the draft's share, and what the draft's pool really takes.

    Draft share: none up to 0.5.10; 0.5.11 – 0.5.13 only DFLASH, by layer count; from 0.5.14 on EAGLE, EAGLE3, NEXTN and
    STANDALONE by layer count, int(cell x draft layers / target layers), which takes the draft's layers to be as wide as
    the target's; DFLASH and DSPARK exactly from 0.5.18 on (pool_configurator.py). SWA targets got an EAGLE share only
    after 0.5.18: the first version read with it is 0.5.23.
    """
    own = target_cell(
        version,
        target,
        kv_cache_dtype=kv_cache_dtype,
        attn_tp=attn_tp,
        pp_size=pp_size,
        swa_full_tokens_ratio=swa_full_tokens_ratio,
        raw_layout=raw_layout,
    )
    if not has_draft_model(algorithm) or draft is None:
        return CellSize(target=own, draft_pool=None if has_draft_model(algorithm) else 0)
    wanted = draft_kv_cache_dtype if draft_kv_cache_dtype is not None else kv_cache_dtype
    # The draft is not split over pipeline stages.
    pool = target_cell(version, draft, kv_cache_dtype=wanted, attn_tp=attn_tp, raw_layout=raw_layout)
    dtype = resolve_kv_dtype(target, kv_cache_dtype)
    share = _budgeted_draft(version, own, target, draft, algorithm, pool, pp_size, swa_bytes_of(target, dtype, attn_tp))
    note = None
    if share and abs(pool - share) > 0.05 * share:
        note = f"SGLang budgets {share:g} B per token for the draft's KV, its pool takes {pool:g} B."
    return CellSize(target=own, budgeted_draft=share, draft_pool=pool, note=note)


def swa_bytes_of(geometry: KvGeometry, dtype: str, attn_tp: int) -> float:
    """Bytes per token of one full-attention layer of an SWA model; 0 for other kinds."""
    if geometry.kind is not KvKind.SWA:
        return 0
    one_layer = replace(geometry, layers=1)
    return swa_bytes(one_layer, dtype, attn_tp)[0]


def _budgeted_draft(
    version: Version,
    own: float,
    target: KvGeometry,
    draft: KvGeometry,
    algorithm: str | None,
    pool: float,
    pp_size: int,
    full_layer: float,
) -> float:
    layers = stage_layers(target.layers, pp_size)
    draft_layers = draft.layers + draft.swa_layers
    if is_dflash_family(algorithm):
        if version.before(0, 5, 11):
            return 0
        if version.at_least(0, 5, 18):
            return pool
        return -(-int(own) * draft_layers // layers) if layers else 0
    if version.before(0, 5, 14) or not has_draft_model(algorithm):
        return 0
    if target.kind is KvKind.SWA:
        return full_layer * draft_layers if version.at_least(0, 5, 19) else 0
    return int(own * draft_layers / layers) if layers else 0
