"""One rehearsed launch in numbers: what the flags mean on this machine, before anything is allocated."""

from dataclasses import dataclass
from functools import cached_property

from tui.frozen import frozen
from tui.rehearsal import catalogue
from tui.rehearsal.catalogue import SimModel
from tui.rehearsal.flags import ServerFlags
from tui.rehearsal.machine import Settings
from tui.sglang.budget import PoolInputs, mm_reservation
from tui.sglang.fraction import AutoFraction, automatic_fraction
from tui.sglang.kvcell import CellSize, cell_size
from tui.sglang.memknobs import MemoryKnobs
from tui.sglang.prefillgraph import PrefillGraph, prefill_graph
from tui.sglang.speculation import (
    NGRAM_DRAFT_TOKENS,
    SpeculativeParams,
    draft_tokens,
    has_draft_model,
    running_requests_setting,
    speculative_params,
)
from tui.sglang.tiers import chunked_prefill_size, cuda_graph_max_bs, decode_capture_list
from tui.sglang.versions import Version, draft_counted_before_pool

GIB = 1 << 30
# GiB of CUDA context and communication per rank, by ranks of one server: chosen so that 8 GPUs of 97 887 MiB leave
# 94.08 GiB before weights.
_CONTEXT_GIB = ((8, 0.9087734375), (4, 0.81), (2, 0.62), (1, 0.42))
TARGET_WORKSPACE_GIB, DRAFT_WORKSPACE_GIB = 0.25, 0.12
_GRAPH_BASE_GIB, _GRAPH_BATCH_MIB = 0.10, 1.6
_DRAFT_GRAPH_BASE_GIB, _DRAFT_GRAPH_BATCH_MIB = 0.04, 0.9
_PREFILL_GRAPH_GIB, _PREFILL_BUCKET_MIB = 0.55, 6.0
_ACTIVATION_MIB = 0.45


def context_gib(ranks: int) -> float:
    """CUDA context and communication on each GPU of a server with so many ranks."""
    return next(gib for least, gib in _CONTEXT_GIB if ranks >= least)


@frozen(kw_only=False)
class Rank:
    """One scheduler. `tags`: (name, number) of the parts of its log prefix, as (("DP", 0), ("TP", 3))."""

    index: int
    dp: int
    pp: int
    tp: int
    attn_tp: int
    tags: tuple[tuple[str, int], ...]

    @property
    def leads(self) -> bool:
        """Whether it logs for its DP rank: batches and the summary."""
        return self.attn_tp == 0 and self.pp == 0


@dataclass(frozen=True)
class Launch:
    """What the flags of one server mean. GiB are per rank."""

    flags: ServerFlags
    settings: Settings
    version: Version

    @property
    def knobs(self) -> MemoryKnobs:
        return self.flags.knobs

    @property
    def algorithm(self) -> str | None:
        return self.knobs.speculative_algorithm

    @property
    def has_draft(self) -> bool:
        return has_draft_model(self.algorithm)

    @property
    def draft_first(self) -> bool:
        """SGLang >= 0.5.14: draft weights before the pool."""
        return bool(draft_counted_before_pool(self.version)) and self.has_draft

    @cached_property
    def model(self) -> SimModel:
        return catalogue.target(self.flags.model_path)

    @cached_property
    def draft(self) -> SimModel | None:
        if not self.has_draft:
            return None
        return catalogue.draft(self.knobs.speculative_draft_model_path, self.algorithm, self.model)

    @property
    def replicas(self) -> int:
        """Whole copies of the model: data parallelism without DP attention."""
        return 1 if self.knobs.dp_attention else self.knobs.dp_size or 1

    @property
    def dp_ranks(self) -> int:
        return self.knobs.attn_dp * self.replicas

    @cached_property
    def ranks(self) -> tuple[Rank, ...]:
        return tuple(
            self._rank(copy, stage, tp)
            for copy in range(self.replicas)
            for stage in range(self.knobs.pp)
            for tp in range(self.knobs.tp)
        )

    def _rank(self, copy: int, stage: int, tp: int) -> Rank:
        knobs = self.knobs
        attn_tp = max(1, knobs.tp // knobs.attn_dp)
        dp = copy if self.replicas > 1 else tp // attn_tp
        parts = {"DP": (dp, self.dp_ranks), "TP": (tp, knobs.tp), "PP": (stage, knobs.pp)}
        order = ("DP", "TP", "PP") if self.version.before(0, 5, 6) else ("DP", "PP", "TP")
        tags = tuple((name, parts[name][0]) for name in order if parts[name][1] > 1)
        index = (copy * knobs.pp + stage) * knobs.tp + tp
        return Rank(index=index, dp=dp, pp=stage, tp=tp, attn_tp=tp % attn_tp, tags=tags)

    @cached_property
    def context_gib(self) -> float:
        return context_gib(self.knobs.tp * self.knobs.pp)

    @cached_property
    def base_gib(self) -> float:
        return self.model.per_rank_gib(self.knobs.tp * self.knobs.pp)

    @cached_property
    def draft_gib(self) -> float:
        return self.draft.per_rank_gib(self.knobs.tp) if self.draft else 0.0

    @cached_property
    def fraction(self) -> AutoFraction:
        return automatic_fraction(self.version, self.settings.machine.mib, self.knobs, self.model.traits)

    @property
    def mem_fraction_static(self) -> float:
        """The fraction in force: the version was checked, so there is one."""
        value = self.fraction.value
        if value is None:
            raise ValueError(self.fraction.reason)
        return value

    @cached_property
    def params(self) -> SpeculativeParams | None:
        return speculative_params(self.version, self.knobs, self.model.traits.architecture)

    @cached_property
    def verify_tokens(self) -> int:
        """Tokens that one pass of the target checks per request: 1 without speculation."""
        if self.algorithm == "NGRAM":
            return self.knobs.speculative_num_draft_tokens or NGRAM_DRAFT_TOKENS
        return max(1, draft_tokens(self.version, self.knobs, self.model.traits.architecture))

    @cached_property
    def cell(self) -> CellSize:
        knobs = self.knobs
        return cell_size(
            self.version,
            self.model.geometry,
            algorithm=self.algorithm,
            draft=self.draft.geometry if self.draft else None,
            kv_cache_dtype=knobs.kv_cache_dtype,
            attn_tp=knobs.attn_tp,
            pp_size=knobs.pp,
        )

    @cached_property
    def context_len(self) -> int:
        return self.knobs.context_length or self.model.context_len

    @cached_property
    def chunk(self) -> int:
        """Tokens of one prefill on one rank."""
        chunk = chunked_prefill_size(self.version, self.settings.machine.mib, self.knobs)
        return max(1, chunk // self.knobs.attn_dp) if chunk > 0 else -1

    @cached_property
    def prefill_graphs(self) -> PrefillGraph:
        chunk = chunked_prefill_size(self.version, self.settings.machine.mib, self.knobs)
        return prefill_graph(self.version, chunk, self.knobs, self.model.traits)

    @property
    def requests_setting(self) -> int | None:
        return running_requests_setting(self.knobs)

    def pool_inputs(self, free_before_gib: float, available_gib: float) -> PoolInputs:
        """The memory equation's inputs, from the smallest P and A of all ranks."""
        return PoolInputs(
            version=self.version,
            free_before_gib=free_before_gib,
            available_gib=available_gib,
            fraction=self.mem_fraction_static,
            cell_bytes=self.cell.total,
            knobs=self.knobs,
            architecture=self.model.traits.architecture,
            context_len=self.context_len,
            page_size=self.knobs.page_size or 1,
            mm_reservation_gib=self.reservation_gib,
        )

    @property
    def reservation_gib(self) -> float:
        return mm_reservation(
            self.version,
            multimodal=self.model.traits.multimodal,
            feature_transport=self.knobs.mm_feature_transport,
        )

    def decode_sizes(self, slots: int) -> tuple[int, ...]:
        """Batches that are captured, ascending; () without graphs."""
        if not self.knobs.decode_graph_enabled:
            return ()
        if self.knobs.cuda_graph_bs:
            return tuple(sorted(size for size in self.knobs.cuda_graph_bs if size <= slots))
        mib = self.settings.machine.mib
        return decode_capture_list(
            self.version,
            cuda_graph_max_bs(self.version, mib, self.knobs),
            speculative=self.algorithm is not None,
            gpu_mem_mib=mib,
            slots=slots,
            padding=not self.knobs.disable_cuda_graph_padding,
        )

    def decode_graph_gib(self, sizes: tuple[int, ...]) -> float:
        """What capturing the target's decode or verify graphs takes."""
        wide = 1 + 0.12 * (self.verify_tokens - 1)
        return _GRAPH_BASE_GIB + _GRAPH_BATCH_MIB * wide * max(sizes) / 1024

    def draft_graph_gib(self, sizes: tuple[int, ...]) -> float:
        """Each of the draft's two graphs."""
        return _DRAFT_GRAPH_BASE_GIB + _DRAFT_GRAPH_BATCH_MIB * max(sizes) / 1024

    def prefill_graph_gib(self) -> float:
        """The target's prefill graphs."""
        return _PREFILL_GRAPH_GIB + _PREFILL_BUCKET_MIB * len(self.prefill_graphs.buckets) / 1024

    def activation_gib(self, tokens: int) -> float:
        """Working memory of a prefill of so many tokens; torch keeps it afterwards."""
        return _ACTIVATION_MIB * max(tokens, 32) / 1024
