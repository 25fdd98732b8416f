"""The vocabulary: every type that crosses a boundary.

A *fact* is a frozen dataclass with a time. Sources make facts, `tui.session` folds them, a recording is their JSON
lines (`tui.factlines`). Memory is GiB (SGLang writes "GB"), times are Unix seconds, speeds are tokens per second.
A field that nobody reported is None: unknown is never 0.
"""

from tui.facts.base import Fact, Json, LogFact
from tui.facts.control import (
    Attached,
    Exited,
    Expectation,
    Launched,
    Mark,
    PastSpeeds,
    ProcessId,
    Signalled,
    SpeedAt,
    StateChange,
)
from tui.facts.endpoints import Endpoint, Loads, Metrics, RankLoad, RankMetrics, ServerInfo, StateMemory
from tui.facts.log_serving import DecodeBatch, LogTail, PrefillBatch, Problem, Shutdown, Traceback
from tui.facts.log_start import (
    CaptureProgress,
    DistributedInit,
    GraphBegin,
    GraphEnd,
    HttpListening,
    KvPool,
    LoadProgress,
    PoolEnd,
    PoolSummary,
    ServerArgs,
    ServerReady,
    StartupTimings,
    StatePool,
    SwaPool,
    VersionHint,
    WeightsBegin,
    WeightsEnd,
)
from tui.facts.machine import GpuProcess, GpuReading, GpuSample, ServerProcesses
from tui.facts.verdict import Evidence, Fix, Verdict

__all__ = [
    "Attached",
    "CaptureProgress",
    "DecodeBatch",
    "DistributedInit",
    "Endpoint",
    "Evidence",
    "Exited",
    "Expectation",
    "Fact",
    "Fix",
    "GpuProcess",
    "GpuReading",
    "GpuSample",
    "GraphBegin",
    "GraphEnd",
    "HttpListening",
    "Json",
    "KvPool",
    "Launched",
    "LoadProgress",
    "Loads",
    "LogFact",
    "LogTail",
    "Mark",
    "Metrics",
    "PastSpeeds",
    "PoolEnd",
    "PoolSummary",
    "PrefillBatch",
    "Problem",
    "ProcessId",
    "RankLoad",
    "RankMetrics",
    "ServerArgs",
    "ServerInfo",
    "ServerProcesses",
    "ServerReady",
    "Shutdown",
    "Signalled",
    "SpeedAt",
    "StartupTimings",
    "StateChange",
    "StateMemory",
    "StatePool",
    "SwaPool",
    "Traceback",
    "Verdict",
    "VersionHint",
    "WeightsBegin",
    "WeightsEnd",
]
