"""config.json as SGLang reads it: the text part of a wrapper, dtype, quantisation, context length."""

import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tui.models.errors import CheckpointError

Config: TypeAlias = Mapping[str, Any]

MAX_JSON_BYTES = 256 * 1024 * 1024
_TEXT_KEYS = ("text_config", "llm_config", "language_config")
_CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
_DTYPES = {"half": "float16", "float16": "float16", "float": "float32", "float32": "float32", "bfloat16": "bfloat16"}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; raises CheckpointError when it is none, too large or unreadable."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise CheckpointError(f"{path} is not a regular file.")
        with path.open("rb") as file:
            raw = file.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from None
    if len(raw) > MAX_JSON_BYTES:
        raise CheckpointError(f"{path} is larger than {MAX_JSON_BYTES >> 20} MiB: it is not a model description.")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not JSON: the file is damaged; download it again.") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} does not hold a JSON object: the file is damaged; download it again.")
    return value


def architectures(config: Config) -> tuple[str, ...]:
    names = config.get("architectures")
    return tuple(n for n in names if isinstance(n, str)) if isinstance(names, list) else ()


def text_config(config: Config) -> Config:
    """The part that describes the language model (SGLang 0.5.9 utils/hf_transformers_utils.py:get_hf_text_config)."""
    first = next(iter(architectures(config)), "")
    if first.startswith("Llava") and first.endswith("ForCausalLM"):
        return config
    for key in _TEXT_KEYS:
        nested = config.get(key)
        if isinstance(nested, dict):
            return nested
    thinker = config.get("thinker_config")
    if isinstance(thinker, dict):
        nested = thinker.get("text_config")
        return nested if isinstance(nested, dict) else thinker
    return config


def positive_int(config: Config, *keys: str) -> int | None:
    """The first key that holds a positive whole number."""
    for key in keys:
        value = config.get(key)
        if type(value) is int and value > 0:
            return value
    return None


def context_length(text: Config) -> int:
    """Tokens the model accepts (SGLang 0.5.9 utils/hf_transformers_utils.py:get_context_length).

    A rope factor multiplies the length unless the scaling names the original length or is of type llama3.
    """
    scaling = text.get("rope_scaling")
    factor = 1.0
    if isinstance(scaling, dict) and "original_max_position_embeddings" not in scaling:
        value = scaling.get("factor", 1)
        if scaling.get("rope_type") != "llama3" and isinstance(value, int | float) and math.isfinite(value):
            factor = float(value)
    length = positive_int(text, *_CONTEXT_KEYS)
    return 2048 if length is None else int(factor * length)


def model_dtype(config: Config, requested: str = "auto") -> str:
    """The dtype of unquantised weights: float16, bfloat16 or float32.

    SGLang 0.5.9 configs/model_config.py:_get_and_verify_dtype: a float32 or silent checkpoint is cast to float16, or to
    bfloat16 for Gemma.
    """
    if requested != "auto":
        return _DTYPES.get(requested.lower(), "bfloat16")
    text = text_config(config)
    found = None
    for part in (text, config):
        name = part.get("dtype") or part.get("torch_dtype")
        if isinstance(name, str):
            found = _DTYPES.get(name.removeprefix("torch."))
            break
    if found is None or found == "float32":
        return "bfloat16" if str(text.get("model_type", "")).startswith("gemma") else "float16"
    return found


def quantization(config: Config, folder: Path) -> tuple[str | None, str | None]:
    """(method, KV dtype the checkpoint asks for), as SGLang names them.

    Looks at quantization_config, compression_config, then hf_quant_config.json (SGLang 0.5.9
    configs/model_config.py:_parse_quant_hf_config, _parse_modelopt_quant_config).
    """
    for part in (config, text_config(config)):
        for key in ("quantization_config", "compression_config"):
            found = part.get(key)
            if isinstance(found, dict) and found:
                nested = found.get("quantization")
                return _method(nested if isinstance(nested, dict) else found), _kv_dtype(found)
    path = folder / "hf_quant_config.json"
    if path.is_file():
        found = read_json(path).get("quantization")
        if isinstance(found, dict):
            return _method(found), _kv_dtype(found)
    return None, None


def _method(found: Config) -> str | None:
    method = str(found.get("quant_method") or "").lower()
    if method not in ("", "modelopt"):
        return method
    algo = str(found.get("quant_algo") or "").upper()
    if algo == "MIXED_PRECISION":
        return "w4afp8"
    if "FP4" in algo:
        return "modelopt_fp4"
    if "FP8" in algo:
        return "modelopt_fp8"
    return method or None


def _kv_dtype(found: Config) -> str | None:
    scheme = found.get("kv_cache_scheme")
    fp8_scheme = isinstance(scheme, dict) and scheme.get("type") == "float" and scheme.get("num_bits") == 8
    if str(found.get("kv_cache_quant_algo") or "").upper() == "FP8" or (fp8_scheme and "quant_algo" in found):
        return "fp8_e4m3"
    return None
