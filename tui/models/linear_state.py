"""The fixed-size state of linear-attention layers (Mamba2, gated delta net, KDA): bytes per request slot."""

from collections.abc import Mapping
from typing import Any, Literal

from tui.frozen import frozen
from tui.models.config import positive_int

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@frozen(kw_only=False)
class LinearState:
    """Whole-model dimensions of one linear layer's state; sizes per rank come from `conv_bytes` and `ssm_bytes`.

    SGLang 0.5.9 configs/mamba_utils.py: Mamba2StateShape.create ("mamba2" and "gdn") and KimiLinearStateShape.create
    ("kda"). Environment overrides of the dtypes are not seen here.
    """

    family: Literal["mamba2", "gdn", "kda"]
    num_heads: int
    head_dim: int
    state_size: int
    n_groups: int
    conv_kernel: int
    ssm_dtype: str = "float32"
    conv_dtype: str = "bfloat16"

    def conv_bytes(self, attn_tp: int) -> int:
        """Convolution window of one layer, one request, one rank."""
        if self.family == "kda":
            width = 3 * (self.num_heads * self.head_dim // attn_tp)
        else:
            groups = self.n_groups if self.n_groups % attn_tp == 0 else attn_tp
            width = (self.num_heads * self.head_dim + 2 * groups * self.state_size) // attn_tp
        return width * (self.conv_kernel - 1) * _BYTES[self.conv_dtype]

    def ssm_bytes(self, attn_tp: int) -> int:
        """Recurrent state of one layer, one request, one rank."""
        return self.num_heads // attn_tp * self.head_dim * self.state_size * _BYTES[self.ssm_dtype]


def linear_state(text: Mapping[str, Any]) -> LinearState | None:
    """The state a config describes, None when the family or a dimension is not known."""
    dtype = text.get("mamba_ssm_dtype")
    ssm = dtype if isinstance(dtype, str) and dtype in _BYTES else "float32"
    kda = text.get("linear_attn_config")
    if isinstance(kda, dict):
        found = _sizes(kda, "num_heads", "head_dim", "short_conv_kernel_size")
        if found is None:
            return None
        heads, dim, kernel = found
        return LinearState("kda", heads, dim, dim, heads, kernel)
    if "linear_num_value_heads" in text:
        keys = ("linear_num_value_heads", "linear_value_head_dim", "linear_key_head_dim", "linear_num_key_heads")
        found = _sizes(text, *keys, "linear_conv_kernel_dim")
        return _state("gdn", found, ssm)
    if "mamba_num_heads" in text:
        found = _sizes(text, "mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel")
        return _state("mamba2", found, ssm)
    return None


def _state(family: Literal["mamba2", "gdn"], found: tuple[int, ...] | None, ssm_dtype: str) -> LinearState | None:
    if found is None:
        return None
    heads, head_dim, state_size, groups, kernel = found
    return LinearState(family, heads, head_dim, state_size, groups, kernel, ssm_dtype)


def _sizes(config: Mapping[str, Any], *keys: str) -> tuple[int, ...] | None:
    values = [positive_int(config, key) for key in keys]
    found = tuple(value for value in values if value is not None)
    return found if len(found) == len(keys) else None
