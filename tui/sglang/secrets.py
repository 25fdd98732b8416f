"""Hides secrets: SGLang prints its API keys in clear in `server_args=` and `/server_info`."""

import re
from collections.abc import Mapping

from tui.facts import Json
from tui.patterns import lazy

MASK = "***"

_WORDS = ("api_key", "apikey", "password", "passwd", "passphrase", "secret", "credential", "access_key", "private_key")
_TOKEN_WORDS = frozenset(("token", "bearer", "authorization"))
_HINT = lazy(r"key|token|secret|pass|credential|bearer|authoriz|hf_|sk-|://", re.IGNORECASE)
_IN_TEXT = (
    # --api-key VALUE, --hf-token=VALUE
    lazy(
        r"(--[a-z-]*(?:api-key|password|passwd|secret|credential|[a-z]-token|access-key)[=\s]+)"
        r"(\"[^\"]*\"|'[^']*'|[^\s'\",;)\]}]+)",
        re.IGNORECASE,
    ),
    # api_key='VALUE', "hf_token": "VALUE", HF_TOKEN=VALUE
    lazy(
        r"(\b[\w-]*(?:api[_-]?key|password|passwd|passphrase|secret|credential|access_key|private_key|[a-z]_token)"
        r"['\"]?\s{0,3}[=:]\s{0,3})(\"[^\"]*\"|'[^']*'|[^\s'\",;)\]}]+)",
        re.IGNORECASE,
    ),
    lazy(r"(\bBearer\s+)([^\s'\"]+)", re.IGNORECASE),
    lazy(r"(://[^/\s:@]{1,200}:)([^/\s@]{1,200})(?=@)"),
    lazy(r"(\b)(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,})"),
)
_EMPTY = frozenset(("None", "null", "True", "False", "''", '""', MASK))


def is_secret_name(name: str) -> bool:
    """Whether a flag, argument or environment variable of this name holds a secret.

    "hf_token", "admin_api_key", "ssl_keyfile_password" do; "tokenizer_path", "max_total_tokens" do not.
    """
    name = name.lower().replace("-", "_").strip("_")
    if any(word in name for word in _WORDS):
        return True
    parts = name.split("_")
    return not name.startswith("tokenizer") and parts[-1] in _TOKEN_WORDS


def mask_text(text: str) -> str:
    """The text with the values of secrets in it replaced: flags, assignments, bearer tokens, passwords in URLs."""
    if not _HINT.search(text):
        return text
    for pattern in _IN_TEXT:
        text = pattern.sub(_masked, text)
    return text


def mask_value(name: str, value: Json) -> Json:
    """The value of an argument with secrets replaced, also inside nested values."""
    if isinstance(value, str):
        if not value:
            return value
        return MASK if is_secret_name(name) else mask_text(value)
    if isinstance(value, Mapping):
        return {key: mask_value(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask_value(name, inner) for inner in value]
    return value


def mask_args(args: Mapping[str, Json]) -> dict[str, Json]:
    """Server arguments or environment with secrets replaced."""
    return {name: mask_value(name, value) for name, value in args.items()}


def _masked(match: re.Match[str]) -> str:
    return match[0] if match[2] in _EMPTY else f"{match[1]}{MASK}"
