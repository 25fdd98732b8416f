"""The messages of a start-up: ranks, weights, pools, graphs, progress bars, summary, ready (sglang-facts 2.2).

Every field after an event's name is optional and read by name, so one function reads all eras. SGLang's "GB" is GiB.
"""

import re
from collections.abc import Callable

from tui.facts import (
    CaptureProgress,
    DistributedInit,
    GraphBegin,
    GraphEnd,
    HttpListening,
    KvPool,
    LoadProgress,
    LogFact,
    PoolEnd,
    PoolSummary,
    ServerArgs,
    ServerReady,
    Shutdown,
    StartupTimings,
    StatePool,
    SwaPool,
    WeightsBegin,
    WeightsEnd,
)
from tui.patterns import lazy
from tui.sglang.args_line import parse_server_args

_GIB = r"(-?\d{1,9}(?:\.\d{1,9})?) ?G(?:i?B)?\b"
_AVAIL = lazy(rf"avail[ _]mem=\s?{_GIB}")
_USED = lazy(rf"mem usage=\s?{_GIB}")
_ELAPSED = lazy(r"(?:elapsed=|Time elapsed: )(\d{1,9}(?:\.\d{1,9})?) ?s")
_TYPE = lazy(r"\btype=([\w.]{1,200})")
_DTYPE = lazy(r"\bdtype[=:] ?([\w.]{1,60})")
_QUANT = lazy(r"\bquant=([\w.-]{1,60})")
_BACKEND = lazy(r"\bbackend=([\w.-]{1,60})")
_SIZES = lazy(r"\b(?:bs|num_tokens)=\[([\d, ]{1,20000})")
_TOKENS = lazy(r"#tokens: (\d{1,15})")
_KV_SIZE = lazy(rf"\b(KV|K|V) size: {_GIB}")
_SWA_POOL = lazy(rf"SWAKVPool mem usage: {_GIB}(?:, swa size: (\d{{1,15}}))?(?:, full size: (\d{{1,15}}))?")
_STATE_PART = lazy(r"(\w{1,60}) size: (\d{1,9}(?:\.\d{1,9})?) ?GB")
_SLOTS = lazy(r"max_mamba_cache_size: (\d{1,15})")
_GRAPH = lazy(
    r"Capture (?P<name>(?:[\w.-]{1,40} ){0,5}?)(?:cuda|CUDA|[nx]pu|[NX]PU|cpu|CPU|hip|HIP) graph (?P<what>begin|end)\b"
)
_SHARDS = lazy(r"shards?\b[^%|\n]{0,80}?(\d{1,3})%[^|\n]{0,40}\|(?:[^|\n]{0,400}\|)? ?(\d{1,9})/(\d{1,9})")
_CAPTURING = lazy(r"(?:Capturing (?:batches|num tokens)|Compiling num tokens)(?: \((?P<inside>[^)\n]{0,200}))?")
_BATCH_SIZE = lazy(r"\b(?:bs|num_tokens)=(\d{1,9})")
_BAR = lazy(r"(\d{1,3})%\|[^|\n]{0,400}\| ?(\d{1,9})/(\d{1,9}) \[")
_SUMMARY = lazy(r"(?:^|[\s\]])max_total_num_tokens=(\d{1,15})")
_SUMMARY_FIELD = lazy(r"\b(\w+)=(\d{1,15}(?:\.\d{1,9})?)")
_TIMING = lazy(r"(?:(\w+)=\{)|(\})|(\w+)=(\d{1,9}(?:\.\d{1,9})?)")
_URL = lazy(r"Uvicorn running on (\S{1,300})")
_REMAINING = lazy(r"number of requests (\d{1,9})")

# Names in the capture lines of SGLang <= 0.5.13, which do not say what the graph is for.
_OLD_GRAPH_NAMES = {"": "target decode", "draft": "draft decode", "piecewise": "target prefill"}

_Reader = Callable[[str, float, int, str | None], LogFact | None]


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(match[1]) + 0.0 if match else None  # SGLang prints -0.00


def _word(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1].rstrip(".") if match else None


def _whole(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match else None


def _sizes(text: str) -> tuple[int, ...]:
    match = _SIZES.search(text)
    parts = (part.strip() for part in match[1].split(",")) if match else ()
    return tuple(int(part) for part in parts if part.isdecimal() and len(part) < 16)


def _server_args(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    parsed = parse_server_args(text)
    return ServerArgs(at=at, line=line, rank=rank, args=parsed[0], resolved=parsed[1]) if parsed else None


def _distributed(text: str, at: float, line: int, rank: str | None) -> LogFact:
    done = "begin" not in text
    used, elapsed = _number(_USED, text), _number(_ELAPSED, text)
    return DistributedInit(at=at, line=line, rank=rank, done=done, used_gib=used, elapsed_s=elapsed)


def _weights(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    avail = _number(_AVAIL, text)
    if "Load weight begin" in text:
        return WeightsBegin(at=at, line=line, rank=rank, avail_gib=avail)
    if "Committed real weights" in text:  # the second half of overlapped loading; the block was counted already
        return None
    return WeightsEnd(
        at=at,
        line=line,
        rank=rank,
        model_class=_word(_TYPE, text),
        dtype=_word(_DTYPE, text),
        quant=_word(_QUANT, text),
        avail_gib=avail,
        used_gib=_number(_USED, text),
        elapsed_s=_number(_ELAPSED, text),
    )


def _kv_pool(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    upper_bound = "VA upper bound" in text
    if "allocated" not in text and not upper_bound:
        return None
    head = text[: text.lower().find("kv cache")].rstrip()
    label = {"Full": "full", "SWA": "swa", "draft": "draft"}.get(head.rsplit(" ", 1)[-1], "kv")
    sizes = [float(gib) for _, gib in _KV_SIZE.findall(text)]
    return KvPool(
        at=at,
        line=line,
        rank=rank,
        label=label,
        tokens=_whole(_TOKENS, text),
        gib=round(sum(sizes), 4) if sizes else None,
        dtype=_word(_DTYPE, text),
        upper_bound=upper_bound,
    )


def _swa_pool(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    match = _SWA_POOL.search(text)
    if match is None:
        return None
    gib, swa, full = float(match[1]), match[2], match[3]
    return SwaPool(
        at=at,
        line=line,
        rank=rank,
        gib=gib,
        swa_tokens=int(swa) if swa else None,
        full_tokens=int(full) if full else None,
    )


def _state_pool(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    parts = {name: float(gib) for name, gib in _STATE_PART.findall(text)}
    if not parts:
        return None
    total = round(sum(parts.values()), 4)
    return StatePool(at=at, line=line, rank=rank, gib=total, slots=_whole(_SLOTS, text), parts_gib=parts)


def _pool_end(text: str, at: float, line: int, rank: str | None) -> LogFact:
    return PoolEnd(at=at, line=line, rank=rank, avail_gib=_number(_AVAIL, text))


def _graph(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    match = _GRAPH.search(text)
    if match is None:
        return None
    name = match["name"].strip()
    name = _OLD_GRAPH_NAMES.get(name, name)
    avail, sizes = _number(_AVAIL, text), _sizes(text)
    if match["what"] == "begin":
        backend = _word(_BACKEND, text)
        return GraphBegin(at=at, line=line, rank=rank, name=name, avail_gib=avail, backend=backend, batch_sizes=sizes)
    used, elapsed = _number(_USED, text), _number(_ELAPSED, text)
    return GraphEnd(
        at=at, line=line, rank=rank, name=name, used_gib=used, avail_gib=avail, elapsed_s=elapsed, batch_sizes=sizes
    )


def _shards(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    match = _SHARDS.search(text)
    if match is None:
        return None
    return LoadProgress(at=at, line=line, rank=rank, done=int(match[2]), total=int(match[3]), percent=float(match[1]))


def _capturing(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    match = _CAPTURING.search(text)
    if match is None:
        return None
    inside = match["inside"] or ""
    bar = _BAR.search(text, match.end())
    return CaptureProgress(
        at=at,
        line=line,
        rank=rank,
        percent=float(bar[1]) if bar else None,
        done=int(bar[2]) if bar else None,
        total=int(bar[3]) if bar else None,
        batch_size=_whole(_BATCH_SIZE, inside),
        avail_gib=_number(_AVAIL, inside),
    )


def bare_bar(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    """A tqdm bar without a title: SGLang's capture bar before 0.4.6. It means a capture only while one is under way."""
    bar = _BAR.search(text)
    if bar is None:
        return None
    return CaptureProgress(at=at, line=line, rank=rank, percent=float(bar[1]), done=int(bar[2]), total=int(bar[3]))


def _summary(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    match = _SUMMARY.search(text)
    if match is None:
        return None
    fields = {name: float(value) for name, value in _SUMMARY_FIELD.findall(text, match.start())}

    def whole(name: str) -> int | None:
        return int(fields[name]) if name in fields else None

    return PoolSummary(
        at=at,
        line=line,
        rank=rank,
        max_total_num_tokens=int(match[1]),
        chunked_prefill_size=whole("chunked_prefill_size"),
        max_prefill_tokens=whole("max_prefill_tokens"),
        max_running_requests=whole("max_running_requests"),
        context_len=whole("context_len"),
        available_gpu_mem_gib=fields.get("available_gpu_mem", fields.get("available_cpu_mem")),
    )


def _timings(text: str, at: float, line: int, rank: str | None) -> LogFact | None:
    seconds: dict[str, float] = {}
    group = ""
    for opened, closed, name, value in _TIMING.findall(text):
        if opened or closed:
            group = f"{opened}." if opened else ""
        else:
            seconds[group + name] = float(value)
    return StartupTimings(at=at, line=line, rank=rank, seconds=seconds) if seconds else None


def _listening(text: str, at: float, line: int, rank: str | None) -> LogFact:
    return HttpListening(at=at, line=line, rank=rank, url=_word(_URL, text))


def _ready(text: str, at: float, line: int, rank: str | None) -> LogFact:
    return ServerReady(at=at, line=line, rank=rank)


def _shutdown(text: str, at: float, line: int, rank: str | None) -> LogFact:
    return Shutdown(at=at, line=line, rank=rank, text=text[:300], remaining_requests=_whole(_REMAINING, text))


# What a message must contain, and who reads it; the first that matches wins.
READERS: tuple[tuple[str, _Reader], ...] = (
    ("Load weight begin", _weights),
    ("Load weight end", _weights),
    ("KV Cache is allocated", _kv_pool),
    ("KV Cache VA upper bound", _kv_pool),
    ("KV cache allocated", _kv_pool),
    ("SWAKVPool mem usage", _swa_pool),
    ("Mamba Cache is allocated", _state_pool),
    ("Memory pool end", _pool_end),
    ("Capturing batches", _capturing),
    ("Capturing num tokens", _capturing),
    ("Compiling num tokens", _capturing),
    ("Capture ", _graph),
    ("shards", _shards),
    ("max_total_num_tokens=", _summary),
    ("Init torch distributed", _distributed),
    ("Init parallel", _distributed),
    ("Memory baseline taken", _distributed),
    ("Engine startup timings", _timings),
    ("Uvicorn running on", _listening),
    ("The server is fired up and ready to roll", _ready),
    ("SIGTERM received", _shutdown),
    ("SIGINT received", _shutdown),
    ("Gracefully exiting", _shutdown),
    ("kill_process_tree called", _shutdown),
    ("INFO:     Shutting down", _shutdown),
    ("Schedulers still alive", _shutdown),
)


def read_startup(message: str, at: float, line: int, rank: str | None) -> list[LogFact]:
    """The facts of a start-up or shutdown message, none when it is neither.

    A post-capture line says both what a pool takes and what is left, so it makes two.
    """
    if "server_args=" in message:
        args = _server_args(message, at, line, rank)
        return [args] if args else []
    for needle, reader in READERS:
        if needle in message:
            fact = reader(message, at, line, rank)
            if isinstance(fact, KvPool) and not fact.upper_bound and "avail mem=" in message:
                return [fact, _pool_end(message, at, line, rank)]
            if fact is not None:
                return [fact]
    return []
