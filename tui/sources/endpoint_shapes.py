"""What SGLang's endpoints say, as facts, in every shape since 0.4.6. Pure; an answer of another program gives None."""

import json
import math
from collections.abc import Mapping
from typing import Any

from tui.facts import Json, Loads, RankLoad, ServerInfo, StateMemory
from tui.sglang.secrets import mask_args, mask_text

# What stands among the server's arguments at the top of /server_info and is none.
_NO_ARGUMENTS = frozenset(
    (
        "internal_states",
        "version",
        "status",
        "launch_command",
        "startup_time",
        "frontend",
        "max_total_num_tokens",
        "max_req_input_len",
        "kv_events",
    )
)
_LONGEST_WORD = 80


def decode(body: bytes) -> Json:
    """The JSON of an answer. Raises ValueError for anything else, nesting without end included."""
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_model_info(data: Json) -> bool:
    """Whether this is SGLang's /model_info, which every version has had with these two keys."""
    return isinstance(data, dict) and "model_path" in data and "is_generation" in data


def server_info(data: Json, now: float) -> ServerInfo | None:
    """`/server_info` or `/get_server_info`; None when it is not SGLang's.

    Source: SGLang 0.5.23 `entrypoints/http_server.py`, `server_info`; 0.4.6 has no memory_usage, 0.4.9 calls the graph
    "cuda_graph", up to 0.5.16 it is one number for the target's decode or verify graph.
    """
    if not isinstance(data, dict) or "model_path" not in data or not {"internal_states", "tp_size"} & data.keys():
        return None
    states = data.get("internal_states")
    states = [state for state in states if isinstance(state, dict)] if isinstance(states, list) else []
    command = data.get("launch_command")
    started = data.get("startup_time")
    return ServerInfo(
        at=now,
        version=_word(data.get("version")),
        args=mask_args({str(key): value for key, value in data.items() if key not in _NO_ARGUMENTS}),
        status=_word(data.get("status")),
        launch_command=mask_text(command) if isinstance(command, str) else None,
        max_total_num_tokens=_integer(data.get("max_total_num_tokens")),
        memory=tuple(_memory(state.get("memory_usage")) for state in states),
        last_gen_tok_s=tuple(_number(state.get("last_gen_throughput")) for state in states),
        avg_accept_len=tuple(_number(state.get("avg_spec_accept_length")) for state in states),
        startup_time_s=started if isinstance(started, dict) else {},
    )


def loads(data: Json, now: float) -> Loads | None:
    """`/v1/loads` (SGLang >= 0.5.8) or `/get_load` (0.4.7 to 0.5.20); None when it is neither."""
    if isinstance(data, dict) and isinstance(data.get("loads"), list):
        entries, read = data["loads"], _load
    elif isinstance(data, list):
        entries, read = data, _old_load
    else:
        return None
    ranks = [read(entry, position) for position, entry in enumerate(entries) if isinstance(entry, dict)]
    return Loads(at=now, loads=tuple(ranks)) if ranks or not entries else None


def _load(entry: Mapping[str, Any], position: int) -> RankLoad:
    speculative, queues = entry.get("speculative"), entry.get("queues")
    rank = _integer(entry.get("dp_rank"))
    return RankLoad(
        dp_rank=position if rank is None else rank,
        running=_integer(entry.get("num_running_reqs")),
        waiting=_integer(entry.get("num_waiting_reqs")),
        used_tokens=_integer(entry.get("num_used_tokens")),
        max_total_num_tokens=_integer(entry.get("max_total_num_tokens")),
        token_usage=_number(entry.get("token_usage")),
        gen_tok_s=_number(entry.get("gen_throughput")),
        accept_len=_number(speculative.get("accept_length")) if isinstance(speculative, dict) else None,
        retracted=_integer(queues.get("retracted")) if isinstance(queues, dict) else None,
        stamp=_number(entry.get("timestamp")),
    )


def _old_load(entry: Mapping[str, Any], position: int) -> RankLoad:
    """`num_reqs` counts the waiting requests too, and `num_tokens` their prompts, so the tokens are not those in use.

    Source: SGLang 0.5.8 `managers/scheduler_metrics_mixin.py`, `get_load`.
    """
    rank, total, waiting = (_integer(entry.get(key)) for key in ("dp_rank", "num_reqs", "num_waiting_reqs"))
    return RankLoad(
        dp_rank=position if rank is None else rank,
        running=None if total is None or waiting is None else max(0, total - waiting),
        waiting=waiting,
    )


def _memory(usage: Json) -> StateMemory:
    if not isinstance(usage, dict):
        return StateMemory()
    graph = usage.get("graph", usage.get("cuda_graph"))
    phases = graph if isinstance(graph, dict) else {"decode": graph}
    return StateMemory(
        weight_gib=_number(usage.get("weight")),
        kvcache_gib=_number(usage.get("kvcache")),
        token_capacity=_integer(usage.get("token_capacity")),
        graphs_gib={str(phase): gib for phase, value in phases.items() if (gib := _number(value)) is not None},
        startup_available_gib=_number(usage.get("startup_available")),
    )


def _number(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _integer(value: Json) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() else None


def _word(value: Json) -> str | None:
    if not isinstance(value, str):
        return None
    return "".join(c if c.isprintable() else "�" for c in value[:_LONGEST_WORD])
