"""KV cache bytes per token slot on one rank ("cell size"), by SGLang version.

Sources: ModelRunner.profile_max_num_token (<= 0.5.6, model_executor/model_runner.py), get_cell_size_per_token (0.5.7 –
0.5.12, model_executor/model_runner_kv_cache_mixin.py), DefaultPoolConfigurator and HybridSWAPoolConfigurator (from 0.5.13
on, model_executor/pool_configurator.py).
"""

from dataclasses import dataclass
from enum import StrEnum


FP8_DTYPES = ("fp8_e4m3", "fp8_e5m2", "mxfp8")
FP4_DTYPES = ("fp4_e2m1", "nvfp4", "fp4_mx_block16")
_PLAIN_ITEMSIZE = {"bfloat16": 2, "bf16": 2, "float16": 2, "fp16": 2, "half": 2, "float32": 4, "float": 4}
_FP4_BLOCK, _MXFP8_BLOCK, _DSA_BLOCK = 16, 32, 128


class KvKind(StrEnum):
    """How a model's attention layers store KV."""

    MHA = "mha"  # multi-head or grouped-query: K and V per kv head
    MLA = "mla"  # one latent vector per token, the same on every rank
    DSA = "dsa"  # MLA with a sparse-attention indexer (DeepSeek-V3.2, GLM-DSA)
    SWA = "swa"  # some layers keep only a sliding window, in a pool of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class KvGeometry:
    """What of a model's config decides the size of its KV cache, for the whole model (nothing divided by tp or pp).

    `layers`: layers that keep full-length KV. Hybrid mamba/linear-attention models: only their full-attention layers;
    SWA: only the full-attention ones, the windowed ones are `swa_layers`. `kv_heads`: total KV heads of the config.
    `index_layers`: DSA layers with an index cache of their own, None = all. `state_bytes_per_request`: recurrent (conv +
    ssm) state of one request on ONE rank, all layers; 0 without recurrent layers. `dtype`: the model's dtype.
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
