"""What a rehearsed server answers, in the shape of each version (sglang-facts 3; 0.5.23 as recorded). Pure."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tui.rehearsal.engine import Engine
from tui.rehearsal.launch import Launch
from tui.rehearsal.logforms import GRAPH_PHASES
from tui.rehearsal.resolved import resolved_args
from tui.rehearsal.startup import Started
from tui.sglang.versions import Version


def model_info(launch: Launch) -> dict[str, Any]:
    """`/model_info`, before 0.5.6 `/get_model_info`."""
    path = launch.flags.model_path
    info: dict[str, Any] = {
        "model_path": path,
        "tokenizer_path": path,
        "is_generation": True,
        "preferred_sampling_params": None,
    }
    if launch.version.at_least(0, 5, 6):
        info |= {
            "weight_version": "default",
            "has_image_understanding": launch.model.traits.multimodal,
            "has_audio_understanding": False,
            "model_type": launch.model.name.lower(),
            "architectures": [launch.model.model_class],
        }
    return info


def server_info(launch: Launch, started: Started, engines: Sequence[Engine]) -> dict[str, Any]:
    """`/server_info`, before 0.5.6 `/get_server_info`."""
    version = launch.version
    info = resolved_args(launch)
    if version.at_least(0, 5, 20):
        info["launch_command"] = " ".join(launch.flags.argv)
    info |= {
        "status": "ready",
        "max_total_num_tokens": started.tokens,
        "max_req_input_len": max(1, min(launch.context_len, started.tokens) - 6),
    }
    if version.at_least(0, 5, 17):
        info["startup_time"] = _startup_time(started)
    return {
        **info,
        "internal_states": [_state(launch, started, engine) for engine in engines],
        "version": str(version),
    }


def _startup_time(started: Started) -> dict[str, Any]:
    return {**started.seconds, "cuda_graph": {phase: started.graph_s.get(phase, 0.0) for phase in GRAPH_PHASES}}


def _state(launch: Launch, started: Started, engine: Engine) -> dict[str, Any]:
    version = launch.version
    state: dict[str, Any] = {"last_gen_throughput": engine.tok_s}
    if version.at_least(0, 4, 9):
        state["memory_usage"] = _memory_usage(version, launch, started)
    if launch.algorithm is not None:
        state["avg_spec_accept_length"] = lifetime_accept_len(engine)
    if version.at_least(0, 5, 10):
        state["effective_max_running_requests_per_dp"] = engine.limit
    if version.at_least(0, 5, 21):
        state["world_size"] = len(launch.ranks)
        state["decode_cuda_graph_memory_gb"] = round(_target_graph(started), 3)
    return state


def _memory_usage(version: Version, launch: Launch, started: Started) -> dict[str, Any]:
    usage: dict[str, Any] = {"weight": round(launch.base_gib, 3), "kvcache": round(started.kv_gib, 3)}
    if version.at_least(0, 5, 17):
        return {
            **usage,
            "startup_available": round(started.available_gib, 3),
            "token_capacity": started.tokens,
            "token_capacity_swa": None,
            "graph": {phase: round(started.graphs_gib.get(phase, 0.0), 3) for phase in GRAPH_PHASES},
        }
    key = "graph" if version.at_least(0, 5, 2) else "cuda_graph"
    return {**usage, "token_capacity": started.tokens, key: round(_target_graph(started), 3)}


def _target_graph(started: Started) -> float:
    return started.graphs_gib.get("decode", 0.0) + started.graphs_gib.get("target_verify", 0.0)


def lifetime_accept_len(engine: Engine) -> float:
    """Tokens per verify pass since the start; 0 before the first, as SGLang says."""
    totals = engine.totals
    return (totals.generated - totals.requests) / totals.verify_calls if totals.verify_calls else 0.0


def loads(
    launch: Launch, started: Started, engines: Iterable[Engine], include: frozenset[str], stamps: Mapping[int, float]
) -> dict[str, Any]:
    """`/v1/loads` (0.5.8 and later). `stamps`: when each DP rank's scheduler last stepped, Unix seconds."""
    everything = "all" in include
    entries = []
    for engine in engines:
        entry = _core_load(launch, engine, stamps[engine.rank.dp])
        if everything or "memory" in include or not include:
            entry["memory"] = {
                "weight_gb": round(launch.base_gib, 3),
                "kv_cache_gb": round(started.kv_gib, 3),
                "graph_gb": round(_target_graph(started) + started.graphs_gib.get("prefill", 0.0), 3),
                "token_capacity": started.tokens,
            }
        if launch.algorithm is not None and (everything or "spec" in include or not include):
            length = lifetime_accept_len(engine)
            entry["speculative"] = {"accept_length": length, "accept_rate": _rate(length, engine)}
        if everything or "queues" in include or not include:
            entry["queues"] = {
                "waiting": len(engine.waiting),
                "grammar": 0,
                "paused": 0,
                "retracted": engine.totals.retracted if launch.version.before(0, 5, 8) else 0,
                "prealloc_ready": 0,
            }
        entries.append(entry)
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}+00:00"
    answer: dict[str, Any] = {"timestamp": stamp, "version": str(launch.version)}
    if launch.version.before(0, 5, 13):
        answer["dp_rank_count"] = len(entries)
    else:
        answer |= {"accelerator": launch.settings.machine.name, "num_accelerators": len(launch.ranks)}
    return {**answer, "loads": entries}


def _core_load(launch: Launch, engine: Engine, stamp: float) -> dict[str, Any]:
    totals, used = engine.totals, engine.used_tokens
    return {
        "timestamp": stamp,
        "dp_rank": engine.rank.dp,
        "num_running_reqs": len(engine.running),
        "num_waiting_reqs": len(engine.waiting),
        "num_waiting_uncached_tokens": sum(request.prompt for request in tuple(engine.waiting)),
        "num_used_tokens": used,
        "num_total_tokens": used,
        "num_active_tokens": used,
        "max_total_num_tokens": engine.pool,
        "max_running_requests": engine.limit,
        "token_usage": round(engine.usage, 4),
        "gen_throughput": engine.tok_s,
        "cache_hit_rate": 0.0,
        "utilization": round(len(engine.running) / engine.limit, 4),
        "total_prefill_uncached_tokens": totals.prompt,
    }


def _rate(length: float, engine: Engine) -> float:
    return max(0.0, (length - 1) / max(1, engine.speeds.draft_tokens - 1))


def old_loads(engines: Iterable[Engine]) -> list[dict[str, int]]:
    """`/get_load` (0.4.7 – 0.5.20)."""
    return [
        {
            "dp_rank": engine.rank.dp,
            "num_reqs": engine.busy,
            "num_waiting_reqs": len(engine.waiting),
            "num_tokens": engine.used_tokens + sum(request.prompt for request in tuple(engine.waiting)),
        }
        for engine in engines
    ]
