"""A local checkpoint folder as facts: config.json and the safetensors headers, no weights."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tui.frozen import frozen
from tui.models.config import (
    architectures,
    context_length,
    model_dtype,
    positive_int,
    quantization,
    read_json,
    text_config,
)
from tui.models.errors import CheckpointError
from tui.models.roles import Place, place
from tui.models.safetensors import TensorInfo, read_header

_MAX_LAYERS = 10_000
_INDEX = "model.safetensors.index.json"


@frozen(kw_only=False)
class TensorGroup:
    """Tensors of one place, type and shape (the experts of a layer are one group); nbytes is the sum in the files."""

    place: Place
    dtype: str
    shape: tuple[int, ...]
    count: int
    nbytes: int

    @property
    def numel(self) -> int:
        return self.count * math.prod(self.shape)


@frozen(kw_only=False)
class VisionConfig:
    """What SGLang's vision factor reads: layers and hidden size, None where the config is silent (SGLang then assumes
    24 layers and 1024)."""

    num_hidden_layers: int | None
    hidden_size: int | None


@frozen(kw_only=False)
class Checkpoint:
    """A checkpoint folder. Sizes are bytes in the files; context_length is what SGLang derives, in tokens."""

    path: str
    config: Mapping[str, Any]
    architectures: tuple[str, ...]
    dtype: str
    quantization: str | None
    kv_cache_dtype: str | None
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    context_length: int
    tie_word_embeddings: bool
    num_nextn_predict_layers: int | None
    vision: VisionConfig | None
    groups: tuple[TensorGroup, ...]
    num_tensors: int
    total_bytes: int

    @property
    def text(self) -> Mapping[str, Any]:
        """The language model's part of the config."""
        return text_config(self.config)

    @property
    def architecture(self) -> str:
        return self.architectures[0] if self.architectures else "unknown"


def inspect_checkpoint(path: str | Path) -> Checkpoint:
    """Read a folder's config.json and safetensors headers.

    Raises CheckpointError, one sentence, when the folder, its config or a shard is missing, damaged or not safetensors.
    """
    folder = Path(path)
    config = load_config(folder)
    # The config first: a folder of some other model should be told so, not blamed for its shards.
    _layers(text_config(config), folder)
    return describe(folder, config, [tensor for shard in shards(folder) for tensor in read_header(shard)])


def describe(folder: Path, config: Mapping[str, Any], tensors: Sequence[TensorInfo]) -> Checkpoint:
    """A checkpoint from its parts; raises CheckpointError when the config lacks what every language model has."""
    text = text_config(config)
    layers = _layers(text, folder)
    method, kv_dtype = quantization(config, folder)
    hidden = _required(text, folder, "hidden_size", "n_embd", "d_model")
    heads = positive_int(text, "num_attention_heads", "n_head") or 1
    return Checkpoint(
        path=str(folder),
        config=config,
        architectures=architectures(config),
        dtype=model_dtype(config),
        quantization=method,
        kv_cache_dtype=kv_dtype,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=_total_kv_heads(text, heads),
        vocab_size=_required(text, folder, "vocab_size", "padded_vocab_size"),
        context_length=context_length(text),
        tie_word_embeddings=_tied(config, text, tensors),
        num_nextn_predict_layers=_nextn_layers(text),
        vision=_vision(config),
        groups=group_tensors(tensors, layers),
        num_tensors=len(tensors),
        total_bytes=sum(tensor.nbytes for tensor in tensors),
    )


def load_config(folder: Path) -> dict[str, Any]:
    """config.json of a folder; raises CheckpointError with the reason a folder is not a checkpoint."""
    if not folder.exists():
        raise CheckpointError(
            f"{folder} does not exist on this machine: give the path of a downloaded checkpoint folder."
        )
    if not folder.is_dir():
        kind = "a GGUF file; its size cannot be worked out" if folder.suffix == ".gguf" else "a file"
        raise CheckpointError(f"{folder} is {kind}: give a checkpoint folder with config.json and .safetensors files.")
    if not (folder / "config.json").exists():
        snapshots = folder / "snapshots"
        if snapshots.is_dir():
            raise CheckpointError(f"{folder} is a download cache entry: give one of the folders in {snapshots}.")
        if any(folder.glob("*.gguf")):
            raise CheckpointError(
                f"{folder} holds GGUF files, whose memory cannot be worked out from their headers here."
            )
        raise CheckpointError(f"{folder} has no config.json: it is not a checkpoint folder.")
    return read_json(folder / "config.json")


def shards(folder: Path) -> tuple[Path, ...]:
    """The safetensors files SGLang would load: those of the index, else all but Mistral's duplicate `consolidated`."""
    index = folder / _INDEX
    if index.exists():
        return _indexed(folder, index)
    found = sorted(folder.glob("*.safetensors"))
    chosen = [path for path in found if not path.name.startswith("consolidated")] or found
    if chosen:
        return tuple(chosen)
    if any(folder.glob("*.gguf")):
        raise CheckpointError(f"{folder} holds only GGUF weights: their size cannot be worked out; use safetensors.")
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth")):
        raise CheckpointError(
            f"{folder} holds only PyTorch .bin or .pt weights, which have no readable header: use safetensors."
        )
    raise CheckpointError(f"{folder} has a config.json but no .safetensors files: the weights were not downloaded.")


def has_safetensors(folder: Path) -> bool:
    return (folder / _INDEX).exists() or any(folder.glob("*.safetensors"))


def group_tensors(tensors: Iterable[TensorInfo], num_hidden_layers: int) -> tuple[TensorGroup, ...]:
    """Collapse tensors of one place, type and shape; 200 000 expert tensors become a few thousand groups."""
    sums: dict[tuple[Place, str, tuple[int, ...]], list[int]] = defaultdict(lambda: [0, 0])
    for tensor in tensors:
        entry = sums[(place(tensor.name, num_hidden_layers), tensor.dtype, tensor.shape)]
        entry[0] += 1
        entry[1] += tensor.nbytes
    return tuple(TensorGroup(key[0], key[1], key[2], count, nbytes) for key, (count, nbytes) in sums.items())


def _indexed(folder: Path, index: Path) -> tuple[Path, ...]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise CheckpointError(f"{index} has no usable weight_map: the file is damaged; download it again.")
    names = sorted(set(weight_map.values()))
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
        raise CheckpointError(f"{index} names files outside its folder: the index is damaged.")
    absent = [name for name in names if not (folder / name).exists()]
    if absent:
        raise CheckpointError(
            f"{index} names {len(names)} shards and {len(absent)} of them are absent, the first is {absent[0]}: "
            "the download is incomplete."
        )
    return tuple(folder / name for name in names)


def _layers(text: Mapping[str, Any], folder: Path) -> int:
    layers = _required(text, folder, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if layers > _MAX_LAYERS:
        raise CheckpointError(
            f"{folder / 'config.json'} claims {layers} layers: the file is damaged; download it again."
        )
    return layers


def _required(text: Mapping[str, Any], folder: Path, *keys: str) -> int:
    value = positive_int(text, *keys)
    if value is None:
        raise CheckpointError(
            f"{folder / 'config.json'} has no usable {keys[0]}: it does not describe a language model."
        )
    return value


def _total_kv_heads(text: Mapping[str, Any], heads: int) -> int:
    """SGLang 0.5.9 configs/model_config.py:get_total_num_kv_heads."""
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        # ChatGLM states its group count next to multi_query-like flags; Falcon and GPTBigCode mean one head.
        return positive_int(text, "multi_query_group_num") or 1
    keys = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
    return positive_int(text, *keys) or heads


def _nextn_layers(text: Mapping[str, Any]) -> int | None:
    value = text.get("num_nextn_predict_layers")
    return value if type(value) is int and value >= 0 else None


def _tied(config: Mapping[str, Any], text: Mapping[str, Any], tensors: Iterable[TensorInfo]) -> bool:
    """Is lm_head the embedding? Configs often stay silent; then Gemma ties, and others by the absence of an lm_head."""
    for part in (text, config):
        value = part.get("tie_word_embeddings")
        if isinstance(value, bool):
            return value
    if str(text.get("model_type", "")).startswith("gemma"):
        return True
    names = [tensor.name for tensor in tensors]
    return any("embed_tokens" in name for name in names) and not any("lm_head" in name for name in names)


def _vision(config: Mapping[str, Any]) -> VisionConfig | None:
    vision = config.get("vision_config")
    thinker = config.get("thinker_config")
    if not isinstance(vision, dict) and isinstance(thinker, dict):
        vision = thinker.get("vision_config")
    if not isinstance(vision, dict):
        return None
    if "vt_num_hidden_layers" in vision:
        return VisionConfig(positive_int(vision, "vt_num_hidden_layers"), positive_int(vision, "vt_hidden_size"))
    return VisionConfig(positive_int(vision, "num_hidden_layers"), positive_int(vision, "hidden_size"))
