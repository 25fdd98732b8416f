"""What SGLang's flags do not tell exactly: context and communication, graphs, activations, a draft nobody measured.

The allowances are SGLang's own (ServerArgs._handle_gpu_memory_settings, arg_groups/memory_hook.py): 1.5 MiB per prefill
token, 2 MiB per decode graph batch, 8 MiB per prefill graph. Real servers take less, so the intervals reach far down.
"""

from dataclasses import replace

from tui.forecast.amounts import computed, estimated, learned, measured
from tui.forecast.machine import Gpu, Learned, Machine
from tui.frozen import frozen
from tui.sglang.fraction import ACTIVATION_MIB, GRAPH_MIB
from tui.sglang.memknobs import MemoryKnobs, ModelTraits
from tui.sglang.prefillgraph import prefill_graph
from tui.sglang.speculation import DEFAULT_RUNNING_REQUESTS, has_draft_model
from tui.sglang.tiers import chunked_prefill_size, cuda_graph_max_bs
from tui.sglang.versions import Version
from tui.snapshot import UNKNOWN, Amount

_GIB = 1024  # MiB
_DEFAULT_PREFILL_TOKENS = 16384
# ranks of one server: (GiB, least, most) of CUDA context, NCCL and custom all-reduce on one GPU.
_CONTEXT = ((4, (1.4, 0.8, 2.4)), (2, (0.8, 0.4, 1.4)), (1, (0.45, 0.25, 0.9)))
_DRIVER_SHARE = (0.006, 0.002, 0.013)  # of the card: what the driver keeps and never calls free
_HOST_PROCESSES = (1.2, 0.5, 2.5)
_HOST_DIFFERS_GIB = 0.5  # between two starts: other programs share a host's memory; a judgement, no measurement
CPU_GRAPH_MAX_BS = 32
# Draft weights per rank when nobody says: SGLang reserves 2 GiB for EAGLE heads and 6 GiB for a whole model.
_DRAFT_GUESS = {"STANDALONE": (4.0, 0.1, 8.0)}
_HEAD_GUESS = (1.5, 0.2, 4.0)


@frozen
class Costs:
    """GiB on one rank. `activations.high_gib` and `graphs.gib` are SGLang's own allowances."""

    graphs: Amount
    activations: Amount
    draft_gross: Amount
    draft_net: Amount


def on_device(knobs: MemoryKnobs, machine: Machine) -> MemoryKnobs:
    """The knobs with what SGLang changes on a CPU: decode batches up to 32, no prefill graphs (read in 0.5.23)."""
    if machine.device != "cpu":
        return knobs
    limit = min(CPU_GRAPH_MAX_BS, knobs.max_running_requests or CPU_GRAPH_MAX_BS)
    batch = limit if knobs.cuda_graph_max_bs is None else knobs.cuda_graph_max_bs
    return replace(knobs, cuda_graph_max_bs=batch, disable_prefill_cuda_graph=True, disable_piecewise_cuda_graph=True)


def free_before(machine: Machine, gpu: Gpu | None, ranks: int, past: Learned) -> Amount:
    """P of one GPU: told outright, or what is free now less context and communication."""
    told = machine.free_before
    if told.gib is not None or gpu is None:
        return told
    start = measured(gpu.free_gib_now, "free now") if gpu.free_gib_now is not None else _free_when_empty(gpu)
    if start.gib is None:
        return UNKNOWN
    if past.overhead_gib is not None:
        taken = learned(past.overhead_gib, "context and communication of earlier runs on this host")
        if machine.device == "cpu":
            own, differs = past.overhead_gib, _HOST_DIFFERS_GIB
            why = "the server's own processes in earlier runs on this host"
            taken = replace(taken, why=why, low_gib=max(0.0, own - differs), high_gib=own + differs)
    elif machine.device == "cpu":
        taken = estimated(*_HOST_PROCESSES, "the server's own processes")
    else:
        size = next(guess for least, guess in _CONTEXT if ranks >= least)
        taken = estimated(*size, f"context and communication of {ranks} rank{'s' if ranks > 1 else ''}")
    nominal, least, most = _span(taken)
    low, mid, high = _span(start)[1], start.gib, _span(start)[2]
    return Amount(
        gib=max(0.0, mid - nominal),
        source=taken.source if gpu.free_gib_now is not None else start.source,
        why=f"{start.why}, less {nominal:.2f} GiB for {taken.why}",
        low_gib=max(0.0, low - most),
        high_gib=max(0.0, high - least),
    )


def _free_when_empty(gpu: Gpu) -> Amount:
    total = gpu.total_gib
    if total is None:
        return UNKNOWN
    share, least, most = _DRIVER_SHARE
    return estimated(total * (1 - share), total * (1 - most), total * (1 - least), "the whole GPU, taken as empty")


def _span(amount: Amount) -> tuple[float, float, float]:
    middle = amount.gib or 0.0
    return (
        middle,
        middle if amount.low_gib is None else amount.low_gib,
        middle if amount.high_gib is None else amount.high_gib,
    )


def chunk_tokens(version: Version, gpu_mem_mib: float | None, knobs: MemoryKnobs) -> int:
    """Tokens of one prefill on one rank: DP attention divides the chunk."""
    chunk = chunked_prefill_size(version, gpu_mem_mib, knobs)
    if chunk <= 0:
        return knobs.max_prefill_tokens or _DEFAULT_PREFILL_TOKENS
    return max(1, chunk // knobs.attn_dp)


def activations(
    version: Version, machine: Machine, gpu_mem_mib: float | None, knobs: MemoryKnobs, past: Learned
) -> Amount:
    """Working memory of the largest batch; its upper end is SGLang's own allowance."""
    if past.activations_gib is not None:
        return learned(past.activations_gib, "how far free memory fell in earlier runs")
    tokens = chunk_tokens(version, gpu_mem_mib, knobs)
    most = ACTIVATION_MIB * max(tokens, 2048) / _GIB
    # A host has no fixed end of memory to run into, and its batches are worked off in place.
    middle, least = (most / 12, 0.0) if machine.device == "cpu" else (most / 3, most / 15)
    return estimated(middle, least, most, f"prefills of {tokens} tokens; SGLang allows {ACTIVATION_MIB} MiB each")


def graphs(
    version: Version,
    machine: Machine,
    gpu_mem_mib: float | None,
    knobs: MemoryKnobs,
    traits: ModelTraits,
    past: Learned,
) -> Amount:
    """CUDA graphs of target and draft. The decode list ends at the request slots: 48 with speculation unless set."""
    if machine.device == "cpu":
        return computed(0.0, "no CUDA graphs on a CPU")
    algorithm = knobs.speculative_algorithm
    batch = cuda_graph_max_bs(version, gpu_mem_mib, knobs)
    known = past.graphs_gib.get((batch, algorithm))
    if known is not None:
        return learned(known, "the graphs of an earlier run with the same batches")
    largest = (batch or 160) if knobs.decode_graph_enabled else 0
    if algorithm is not None:
        largest = min(largest, knobs.max_running_requests or DEFAULT_RUNNING_REQUESTS)
    decode = GRAPH_MIB * largest * (2 if has_draft_model(algorithm) else 1)
    prefill = prefill_graph(version, chunked_prefill_size(version, gpu_mem_mib, knobs), knobs, traits)
    mib = decode + (prefill.reserve_mib if prefill.enabled else 0)
    if mib == 0:
        return computed(0.0, "no graphs are captured")
    why = f"{GRAPH_MIB:g} MiB for each of {largest} batches"
    if has_draft_model(algorithm):
        why += ", of target and draft"
    if prefill.enabled and prefill.reserve_mib:
        why += f", {prefill.reserve_mib} MiB of prefill graphs"
    return estimated(mib / _GIB, mib / _GIB / 4, mib / _GIB * 3, why)


def draft(knobs: MemoryKnobs, given: Amount, shared_gib: float, past: Learned) -> tuple[Amount, Amount]:
    """(gross, net) draft weights; guessed when nobody measured them."""
    algorithm = knobs.speculative_algorithm
    if not has_draft_model(algorithm):
        none = computed(0.0, "no draft model")
        return none, none
    gross = given
    if past.draft_gib is not None and given.source.value != "measured":
        gross = learned(past.draft_gib)
    if gross.gib is None:
        size = _DRAFT_GUESS.get(algorithm or "", _HEAD_GUESS)
        gross = estimated(*size, "the draft's size is not known")
    kept = Amount(
        gib=max(0.0, (gross.gib or 0.0) - shared_gib),
        source=gross.source,
        why=gross.why + (f", less {shared_gib:.2f} GiB shared with the target" if shared_gib else ""),
        low_gib=None if gross.low_gib is None else max(0.0, gross.low_gib - shared_gib),
        high_gib=None if gross.high_gib is None else max(0.0, gross.high_gib - shared_gib),
    )
    return gross, kept
