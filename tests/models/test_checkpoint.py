import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tui.models.checkpoint import VisionConfig, inspect_checkpoint
from tui.models.errors import CheckpointError

Make = Callable[..., Path]
Build = Callable[..., dict[str, Any]]


def test_a_plain_model(make_checkpoint: Make, llama_config: Build, llama_tensors: Build) -> None:
    config = llama_config()
    tensors = llama_tensors(config)
    found = inspect_checkpoint(make_checkpoint(config, tensors, shards=3))
    assert (found.architecture, found.dtype, found.quantization, found.vision) == (
        "LlamaForCausalLM",
        "bfloat16",
        None,
        None,
    )
    assert (found.num_hidden_layers, found.hidden_size, found.num_attention_heads, found.num_key_value_heads) == (
        4,
        128,
        4,
        2,
    )
    assert (found.vocab_size, found.context_length, found.tie_word_embeddings) == (264, 2048, False)
    # 4 layers of (q 4*32 + k, v 2*32 each) rows of 128, o, gate, up, down, two norms; embedding, head, final norm.
    per_layer = 128 * (128 + 64 + 64) + 128 * 128 + 3 * 128 * 256 + 2 * 128
    assert found.total_bytes == 2 * (4 * per_layer + 2 * 264 * 128 + 128)
    assert found.num_tensors == len(tensors)


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, 2048),
        ({"rope_type": "linear", "factor": 4.0}, 8192),
        ({"type": "dynamic", "factor": 2.5}, 5120),
        ({"rope_type": "llama3", "factor": 8.0}, 2048),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}, 2048),
        ({"rope_type": "yarn"}, 2048),
    ],
)
def test_context_length_follows_the_rope_rule(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build, scaling: object, expected: int
) -> None:
    config = llama_config(rope_scaling=scaling)
    assert inspect_checkpoint(make_checkpoint(config, llama_tensors(config))).context_length == expected


@pytest.mark.parametrize(
    ("changes", "dtype"),
    [
        ({"torch_dtype": "float16"}, "float16"),
        ({"torch_dtype": "float32"}, "float16"),
        ({"torch_dtype": None}, "float16"),
        ({"torch_dtype": "float32", "model_type": "gemma2"}, "bfloat16"),
        ({"torch_dtype": None, "dtype": "bfloat16"}, "bfloat16"),
    ],
)
def test_dtype_is_the_one_the_server_will_use(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build, changes: dict[str, Any], dtype: str
) -> None:
    config = llama_config(**changes)
    assert inspect_checkpoint(make_checkpoint(config, llama_tensors(config))).dtype == dtype


def test_a_wrapper_is_read_through_its_text_config(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    text = llama_config(torch_dtype=None, dtype="bfloat16")
    del text["architectures"]
    wrapper = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "text_config": text,
        "vision_config": {"vt_num_hidden_layers": 27, "vt_hidden_size": 1152},
    }
    found = inspect_checkpoint(make_checkpoint(wrapper, llama_tensors(text)))
    assert (found.hidden_size, found.dtype, found.vision) == (128, "bfloat16", VisionConfig(27, 1152))


def test_a_vision_config_without_layer_count_stays_unknown(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config(vision_config={"depth": 32, "hidden_size": 1280})
    assert inspect_checkpoint(make_checkpoint(config, llama_tensors(config))).vision == VisionConfig(None, 1280)


@pytest.mark.parametrize(
    ("where", "value", "method", "kv"),
    [
        ("quantization_config", {"quant_method": "awq", "bits": 4}, "awq", None),
        ("compression_config", {"quant_method": "compressed-tensors"}, "compressed-tensors", None),
        ("quantization_config", {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "modelopt_fp4", "fp8_e4m3"),
        ("hf_quant_config.json", {"quant_algo": "FP8", "kv_cache_quant_algo": None}, "modelopt_fp8", None),
        ("hf_quant_config.json", {"quant_algo": "MIXED_PRECISION"}, "w4afp8", None),
    ],
)
def test_quantisation_is_named_as_the_server_names_it(
    make_checkpoint: Make,
    llama_config: Build,
    llama_tensors: Build,
    where: str,
    value: dict[str, Any],
    method: str,
    kv: str | None,
) -> None:
    in_config = not where.endswith(".json")
    config = llama_config(**({where: value} if in_config else {}))
    folder = make_checkpoint(config, llama_tensors(config))
    if not in_config:
        (folder / where).write_text(json.dumps({"quantization": value}))
    found = inspect_checkpoint(folder)
    assert (found.quantization, found.kv_cache_dtype) == (method, kv)


def test_a_silent_config_is_tied_when_there_is_no_head(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config()
    del config["tie_word_embeddings"]
    assert not inspect_checkpoint(make_checkpoint(config, llama_tensors(config), "with")).tie_word_embeddings
    assert inspect_checkpoint(make_checkpoint(config, llama_tensors(config, head=False), "without")).tie_word_embeddings


def test_each_broken_folder_says_what_to_do(
    tmp_path: Path, make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config()

    def folder(name: str, *files: str, config_text: str | None = json.dumps(config)) -> Path:
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_bytes(b"x")
        if config_text is not None:
            (tmp_path / name / "config.json").write_text(config_text)
        return tmp_path / name

    cached = folder("models--a--b", config_text=None)
    (cached / "snapshots").mkdir()
    gguf_file = folder("file", "m.gguf") / "m.gguf"
    lost_shard = make_checkpoint(config, llama_tensors(config), "lost", shards=3)
    (lost_shard / "model-00002-of-00003.safetensors").unlink()
    escaping = folder("escaping")
    (escaping / "model.safetensors.index.json").write_text('{"weight_map": {"w": "../../etc/passwd"}}')
    no_map = folder("nomap")
    (no_map / "model.safetensors.index.json").write_text('{"weight_map": []}')
    cases = {
        tmp_path / "nowhere": "does not exist",
        cached: "snapshots",
        gguf_file: "GGUF",
        folder("empty", config_text=None): "no config.json",
        folder("ggufs", "m.gguf", config_text=None): "GGUF",
        folder("gguf-only", "m.gguf"): "only GGUF",
        folder("bin-only", "pytorch_model.bin"): "only PyTorch",
        folder("bare"): "no .safetensors",
        folder("torn", config_text='{"hidden'): "not JSON",
        folder("list", config_text="[1]"): "JSON object",
        folder("other", "m.safetensors", config_text='{"model_type": "clip"}'): "num_hidden_layers",
        lost_shard: "names 3 shards and 1 of them are absent, the first is model-00002-of-00003.safetensors",
        escaping: "outside its folder",
        no_map: "weight_map",
    }
    for path, says in cases.items():
        with pytest.raises(CheckpointError) as caught:
            inspect_checkpoint(path)
        assert says in str(caught.value), path
        assert "\n" not in str(caught.value)


def test_mistral_duplicates_are_not_counted_twice(
    make_checkpoint: Make, llama_config: Build, llama_tensors: Build
) -> None:
    config = llama_config()
    folder = make_checkpoint(config, llama_tensors(config))
    once = inspect_checkpoint(folder).total_bytes
    (folder / "consolidated.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert inspect_checkpoint(folder).total_bytes == once
