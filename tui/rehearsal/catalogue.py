"""The models that can be rehearsed: a few real ones in numbers, and a stand-in for every other path."""

import re

from tui.frozen import frozen
from tui.patterns import lazy
from tui.sglang.kvcell import KvGeometry, KvKind
from tui.sglang.memknobs import ModelTraits

GIB = 1 << 30


@frozen
class SimModel:
    """A checkpoint. `weights_gib`: of the whole model. `replicated_gib`: on every rank, however many there are.

    `tok_s`: decoding one request without speculation, with graphs for up to 128 requests. `model_class` is the class
    that SGLang names in its log.
    """

    name: str
    model_class: str
    weights_gib: float
    replicated_gib: float = 0.0
    shards: int = 1
    geometry: KvGeometry
    traits: ModelTraits
    context_len: int
    quant: str | None = None
    tok_s: float
    load_gib_s: float = 1.1  # a whole model from disk

    def per_rank_gib(self, ranks: int) -> float:
        """GiB on each of `ranks` GPUs."""
        return self.replicated_gib + (self.weights_gib - self.replicated_gib) / ranks


_KIMI = SimModel(
    name="Kimi-K2.5",
    model_class="KimiK25ForConditionalGeneration",
    weights_gib=72.33 * 8 - 2.1 * 7,  # 72.33 on each of 8
    replicated_gib=2.1,
    shards=64,
    geometry=KvGeometry(kind=KvKind.MLA, layers=61, kv_lora_rank=512, qk_rope_head_dim=64),
    traits=ModelTraits(
        architecture="KimiK25ForConditionalGeneration",
        mla=True,
        multimodal=True,
        vision_layers=27,
        vision_hidden=1152,
        context_len=262144,
    ),
    context_len=262144,
    quant="compressed-tensors",
    tok_s=89.5,
)
_LLAMA_8B = SimModel(
    name="Llama-3.1-8B",
    model_class="LlamaForCausalLM",
    weights_gib=14.99,
    shards=4,
    geometry=KvGeometry(kind=KvKind.MHA, layers=32, kv_heads=8, head_dim=128),
    traits=ModelTraits(architecture="LlamaForCausalLM", context_len=131072),
    context_len=131072,
    tok_s=96.0,
)
_QWEN3_MOE = SimModel(
    name="Qwen3-30B-A3B",
    model_class="Qwen3MoeForCausalLM",
    weights_gib=56.9,
    replicated_gib=0.5,
    shards=16,
    geometry=KvGeometry(kind=KvKind.MHA, layers=48, kv_heads=4, head_dim=128),
    traits=ModelTraits(architecture="Qwen3MoeForCausalLM", context_len=40960),
    context_len=40960,
    tok_s=145.0,
)


def _head(name: str, gib: float, layers: int = 1) -> SimModel:
    """An EAGLE-3 head: one Llama layer beside its target."""
    return SimModel(
        name=name,
        model_class="LlamaForCausalLMEagle3",
        weights_gib=gib,
        replicated_gib=gib,
        shards=1,
        geometry=KvGeometry(kind=KvKind.MHA, layers=layers, kv_heads=8, head_dim=128),
        traits=ModelTraits(architecture="LlamaForCausalLMEagle3", context_len=262144),
        context_len=262144,
        tok_s=900.0,
    )


_KIMI_HEAD = _head("Kimi-K2.5-EAGLE3", 1.5)
_SMALL_HEAD = _head("EAGLE3 head", 0.8)

# The first that is found in a path wins.
_TARGETS = (
    (lazy(r"kimi", re.IGNORECASE), _KIMI),
    (lazy(r"qwen3.*a3b|qwen3.*moe", re.IGNORECASE), _QWEN3_MOE),
    (lazy(r"llama", re.IGNORECASE), _LLAMA_8B),
)


def target(path: str) -> SimModel:
    """The model behind a --model-path; any path that no known name is in is a dense model of 8 B parameters."""
    return next((model for pattern, model in _TARGETS if pattern.search(path)), _LLAMA_8B)


def draft(path: str | None, algorithm: str | None, of: SimModel) -> SimModel:
    """The draft behind a --speculative-draft-model-path; STANDALONE takes a whole model, the others a head."""
    if algorithm == "STANDALONE":
        return target(path or "")
    return _KIMI_HEAD if of is _KIMI else _SMALL_HEAD
