"""`/metrics` of a rehearsed server: the families that SGLang of each version exports and a monitor reads. Pure."""

from collections.abc import Iterable, Sequence

from tui.rehearsal.engine import Engine
from tui.rehearsal.launch import Launch
from tui.rehearsal.logforms import GRAPH_PHASES, LogForms
from tui.rehearsal.startup import Started

_HELP = {
    "num_running_reqs": "The number of running requests.",
    "num_queue_reqs": "The number of requests in the waiting queue.",
    "gen_throughput": "The generation throughput (token/s).",
    "token_usage": "The token usage.",
    "num_used_tokens": "The number of used tokens.",
    "cache_hit_rate": "The prefix cache hit rate.",
    "utilization": "The utilization.",
    "max_total_num_tokens": "Maximum total number of tokens in the KV cache pool.",
    "spec_accept_length": "The average acceptance length of speculative decoding.",
    "prompt_tokens_total": "Number of prefill tokens processed.",
    "generation_tokens_total": "Number of generation tokens processed.",
    "num_requests_total": "Number of requests processed.",
    "spec_verify_calls_total": "Number of speculative verify calls.",
}
Sample = tuple[str, dict[str, str], float]


def metrics_page(launch: Launch, started: Started, engines: Sequence[Engine]) -> str:
    """Prometheus text, gauges per DP rank, counters of the server's front."""
    lines: list[str] = []
    known: set[str] = set()
    for name, labels, value in sorted(_samples(launch, started, engines), key=lambda sample: sample[0]):
        if name not in known:
            known.add(name)
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP sglang:{name} {_HELP.get(name, name)}", f"# TYPE sglang:{name} {kind}"]
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in sorted(labels.items()))
        lines.append(f"sglang:{name}{{{told}}} {float(value)}")
    return "\n".join(lines) + "\n"


def _samples(launch: Launch, started: Started, engines: Sequence[Engine]) -> Iterable[Sample]:
    name = launch.flags.served_name
    front = {"model_name": name}
    if launch.version.at_least(0, 5, 2):
        front["engine_type"] = "unified"
    for engine in engines:
        labels = {**front, "tp_rank": str(engine.rank.tp), "pp_rank": str(engine.rank.pp)}
        if launch.dp_ranks > 1:
            labels["dp_rank"] = str(engine.rank.dp)
        for gauge, value in _gauges(launch, started, engine).items():
            yield gauge, labels, value
        if launch.version.at_least(0, 5, 17):
            for phase in GRAPH_PHASES:
                gib = started.graphs_gib.get(phase, 0.0)
                yield "graph_memory_usage_gb", {**labels, "phase": phase}, gib
        if launch.version.at_least(0, 5, 10):
            decode, prompt = engine.totals.generated, engine.totals.prompt
            for mode, value in (("decode", decode), ("prefill_compute", prompt), ("prefill_cache", 0)):
                yield "realtime_tokens_total", {**labels, "mode": mode}, value
    yield from _counters(launch, engines, front)


def _gauges(launch: Launch, started: Started, engine: Engine) -> dict[str, float]:
    since = launch.version.at_least
    used = engine.used_tokens
    gauges: dict[str, float] = {
        "num_running_reqs": len(engine.running),
        "num_queue_reqs": len(engine.waiting),
        "num_used_tokens": used,
        "token_usage": engine.usage,
        "gen_throughput": engine.tok_s,
        "cache_hit_rate": 0.0,
    }
    if since(0, 5, 2):
        gauges |= {"num_retracted_reqs": 0, "utilization": len(engine.running) / engine.limit}
    if since(0, 5, 5):
        gauges["is_cuda_graph"] = float(engine.speeds.has_graph(max(1, len(engine.running))))
    if since(0, 5, 10):
        gauges |= {"full_token_usage": engine.usage, "max_total_num_tokens": engine.pool}
    if since(0, 5, 14):
        gauges |= {"kv_available_tokens": engine.pool - used, "kv_evictable_tokens": 0, "kv_used_tokens": used}
    if since(0, 5, 17):
        gauges |= {"weight_memory_usage_gb": launch.base_gib, "kv_cache_memory_usage_gb": started.kv_gib}
    if launch.algorithm is not None:
        length = engine.accept_len if engine.totals.verify_calls else 0.0
        gauges["spec_accept_length"] = length
        rate = LogForms(launch.version).accept_rate(length, engine.speeds.steps, engine.speeds.draft_tokens)
        if rate is not None:
            gauges["spec_accept_rate"] = max(0.0, rate)
        if since(0, 5, 13):
            gauges |= {"spec_num_steps": engine.speeds.steps, "spec_num_draft_tokens": engine.speeds.draft_tokens}
    return gauges


def _counters(launch: Launch, engines: Sequence[Engine], front: dict[str, str]) -> Iterable[Sample]:
    totals = [engine.totals for engine in engines]
    yield "prompt_tokens_total", front, sum(total.prompt for total in totals)
    yield "generation_tokens_total", front, sum(total.generated for total in totals)
    yield "num_requests_total", front, sum(total.requests for total in totals)
    yield "cached_tokens_total", front, 0
    if launch.version.at_least(0, 5, 7):
        yield "num_retracted_requests_total", front, sum(total.retracted for total in totals)
    if launch.algorithm is not None and launch.version.at_least(0, 5, 14):
        yield "spec_verify_calls_total", front, sum(total.verify_calls for total in totals)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
