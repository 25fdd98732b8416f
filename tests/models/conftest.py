"""Checkpoint folders without weights: true safetensors headers, sparse data."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "U8": 8, "I32": 32, "I64": 64, "BOOL": 8}


def write_safetensors(path: Path, tensors: Tensors) -> int:
    """Write a header and reserve the data as a hole; returns the data bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + offset)
    return offset


@pytest.fixture
def make_checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """make(config, tensors, name="model", shards=1) -> folder."""

    def make(config: Mapping[str, Any], tensors: Tensors, name: str = "model", shards: int = 1) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        if shards == 1:
            write_safetensors(folder / "model.safetensors", tensors)
            return folder
        weight_map = {}
        for index in range(shards):
            part = {key: tensors[key] for key in list(tensors)[index::shards]}
            file = f"model-{index + 1:05d}-of-{shards:05d}.safetensors"
            write_safetensors(folder / file, part)
            weight_map |= dict.fromkeys(part, file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        return folder

    return make


@pytest.fixture
def llama_config() -> Callable[..., dict[str, Any]]:
    """A Llama-like config; keyword arguments override."""

    def config(**changes: Any) -> dict[str, Any]:
        base: dict[str, Any] = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 2048,
            "vocab_size": 264,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        }
        return {**base, **changes}

    return config


@pytest.fixture
def llama_tensors() -> Callable[..., dict[str, tuple[str, tuple[int, ...]]]]:
    """The tensors of such a config, in `dtype`; `experts` adds a mixture in place of the dense MLP."""

    def tensors(config: Mapping[str, Any], dtype: str = "BF16", experts: int = 0, head: bool = True) -> dict[str, Any]:
        hidden, middle, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
        q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
        found: dict[str, Any] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
        for layer in range(config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            found |= {f"{at}input_layernorm.weight": (hidden,), f"{at}post_attention_layernorm.weight": (hidden,)}
            found |= {f"{at}self_attn.{n}_proj.weight": (rows, hidden) for n, rows in (("q", q), ("k", kv), ("v", kv))}
            found[f"{at}self_attn.o_proj.weight"] = (hidden, q)
            mlps = [f"{at}mlp.experts.{e}." for e in range(experts)] or [f"{at}mlp."]
            for mlp in mlps:
                found |= {f"{mlp}{n}_proj.weight": (middle, hidden) for n in ("gate", "up")}
                found[f"{mlp}down_proj.weight"] = (hidden, middle)
            if experts:
                found[f"{at}mlp.gate.weight"] = (experts, hidden)
        found["model.norm.weight"] = (hidden,)
        if head:
            found["lm_head.weight"] = (config["vocab_size"], hidden)
        return {name: (dtype, shape) for name, shape in found.items()}

    return tensors
