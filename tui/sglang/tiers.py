"""Defaults that SGLang takes from the size of the card: prefill chunk and decode graph batch, and the capture lists.

Sources: ServerArgs._handle_gpu_memory_settings (0.5.3 – 0.5.19, server_args.py), handle_gpu_memory_settings (>=
0.5.20, arg_groups/memory_hook.py), ServerArgs.__post_init__ (<= 0.5.2). `gpu_mem_mib` is MiB: the smallest
memory.total of every GPU that nvidia-smi lists, or None when it cannot be read.
"""

from collections.abc import Iterable

from tui.sglang.memknobs import MemoryKnobs, ModelTraits
from tui.sglang.versions import Era, Version, era

_GIB = 1024  # MiB


def default_chunked_prefill_size(version: Version, gpu_mem_mib: float | None, *, disaggregated: bool = False) -> int:
    """Tokens of one prefill chunk when the user gives none."""
    if era(version) is Era.B:
        if disaggregated:
            return 16384
        return 2048 if gpu_mem_mib is not None and gpu_mem_mib < 25_000 else 8192
    if gpu_mem_mib is None:
        return 4096
    if era(version) is Era.C:
        if gpu_mem_mib < 35 * _GIB:
            return 2048
        return 8192 if gpu_mem_mib < 160 * _GIB else 16384
    small = 4096 if version.at_least(0, 5, 20) else 2048
    tiers = ((20, 2048), (35, small), (60, 4096), (160, 8192))
    return next((chunk for below, chunk in tiers if gpu_mem_mib < below * _GIB), 16384)


def default_cuda_graph_max_bs(version: Version, gpu_mem_mib: float | None, tp_size: int) -> int | None:
    """Largest decode batch to capture when the user gives none.

    None in eras B and C on cards above 25 000 / 35 840 MiB: there the list is made at capture (`decode_capture_list`).
    """
    wide = tp_size >= 4
    if era(version) in (Era.B, Era.C):
        limit = 25_000 if era(version) is Era.B else 35 * _GIB
        if gpu_mem_mib is None or gpu_mem_mib >= limit:
            return None
        return 80 if wide else 8
    if gpu_mem_mib is None:
        return 160
    if version.at_least(0, 5, 20):
        second = 160 if wide else 48
    elif version.at_least(0, 5, 4):
        second = 80 if wide else 24
    else:
        second = 80 if wide else 16
    tiers = ((20, 8), (35, second), (60, 160 if wide else 32), (160, 512 if wide else 256))
    return next((batch for below, batch in tiers if gpu_mem_mib < below * _GIB), 512)


def chunked_prefill_size(version: Version, gpu_mem_mib: float | None, knobs: MemoryKnobs) -> int:
    """The chunk that the automatic fraction is computed with: before DP attention divides it by dp."""
    if knobs.chunked_prefill_size is not None:
        return knobs.chunked_prefill_size
    return default_chunked_prefill_size(version, gpu_mem_mib, disaggregated=knobs.disaggregation != "null")


def cuda_graph_max_bs(version: Version, gpu_mem_mib: float | None, knobs: MemoryKnobs) -> int | None:
    """The decode graph batch in force; an explicit list of batches wins, and from 0.5.3 on sets the maximum.

    From 0.5.22 on a defaulted value is capped to the user's max_running_requests.
    """
    if knobs.cuda_graph_bs:
        return max(knobs.cuda_graph_bs)
    if knobs.cuda_graph_max_bs is not None:
        return knobs.cuda_graph_max_bs
    default = default_cuda_graph_max_bs(version, gpu_mem_mib, knobs.tp)
    if default is not None and knobs.max_running_requests is not None and version.at_least(0, 5, 22):
        return min(default, knobs.max_running_requests)
    return default


def _up_to(limit: int, values: Iterable[int]) -> list[int]:
    return [value for value in values if value <= limit]


def _early_capture_list(gpu_mem_mib: float | None, speculative: bool) -> list[int]:
    """cuda_graph_runner.get_batch_sizes_to_capture of 0.4.6 – 0.5.2, before the maximum is applied."""
    if speculative:
        sizes = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 8), *range(80, 161, 16)]
    else:
        sizes = [1, 2, 4, *range(8, 161, 8)]
    if gpu_mem_mib is not None and gpu_mem_mib > 90 * _GIB:
        sizes += range(168, 257, 8)
    if gpu_mem_mib is not None and gpu_mem_mib > 160_000:
        sizes += range(272, 513, 16)
    return sizes


def decode_capture_list(
    version: Version,
    max_bs: int | None,
    *,
    speculative: bool,
    gpu_mem_mib: float | None = None,
    slots: int | None = None,
    padding: bool = True,
) -> tuple[int, ...]:
    """Decode batch sizes that are captured, ascending; never more than the request slots, where those are known.

    >= 0.5.3 (_generate_cuda_graph_batch_sizes; since 0.5.20 arg_groups/cuda_graph_hook.py): dense at the small end with
    speculation, sparse without; the maximum itself is appended if missing from 0.5.10 on. `padding` False
    (--disable-cuda-graph-padding) captures every size.
    """
    if era(version) in (Era.B, Era.C):
        sizes = _early_capture_list(gpu_mem_mib, speculative)
        sizes = _up_to(max_bs, sizes) if max_bs is not None else sizes
    else:
        top = max_bs if max_bs is not None else 160
        if not padding:
            sizes = list(range(1, top + 1))
        elif speculative:
            sizes = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, top + 1, 16)]
        else:
            sizes = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, top + 1, 32)]
        sizes = _up_to(top, sizes)
        if top not in sizes and version.at_least(0, 5, 10):
            sizes.append(top)
    if slots is None:
        return tuple(sizes)
    fitting = _up_to(slots, sizes)
    # The runner captures the slot count itself when the list would end below it and goes beyond it.
    if len(fitting) < len(sizes) and slots not in fitting and slots > 0:
        fitting.append(slots)
    return tuple(fitting)


def prefill_buckets(max_tokens: int) -> tuple[int, ...]:
    """Token counts of the prefill graphs (>= 0.5.8) up to `max_tokens`: 42 for 2048, 50 for 4096, 58 for 8192."""
    sizes = [
        *range(4, 33, 4),
        *range(48, 257, 16),
        *range(288, 513, 32),
        *range(576, 1025, 64),
        *range(1280, 4097, 256),
        *range(4608, max_tokens + 1, 512),
    ]
    return tuple(_up_to(max_tokens, sizes))


def prefill_graph_max_tokens(version: Version, chunk: int, knobs: MemoryKnobs, model: ModelTraits) -> int:
    """Largest prefill graph in tokens: the user's, else the chunk (MLA: 2048, min(8192, chunk) from 0.5.23), then
    capped.

    Before 0.5.7 it is 4096 whatever the chunk; in 0.5.7 the chunk for every model.
    """
    if knobs.cuda_graph_max_bs_prefill is not None:
        return knobs.cuda_graph_max_bs_prefill
    if version.before(0, 5, 7):
        return 4096
    if not model.mla or version.before(0, 5, 8):
        limit = chunk
    else:
        limit = min(8192, chunk) if version.at_least(0, 5, 23) else 2048
    if version.at_least(0, 5, 10):
        if knobs.max_total_tokens is not None:
            limit = min(limit, knobs.max_total_tokens)
        if "llama-2" in model.model_path.lower():
            limit = min(limit, 4096)
    if version.at_least(0, 5, 14) and version.before(0, 5, 18) and knobs.context_length is not None:
        limit = min(limit, knobs.context_length)
    return limit
