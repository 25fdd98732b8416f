"""torch or a CUDA library found no GPU memory: what to do depends on when (sglang-facts 1.7)."""

import re

from tui.facts import Fix, Problem, Verdict
from tui.patterns import lazy
from tui.sglang.diagnosis.case import Case, Incident, When
from tui.sglang.diagnosis.equation import Equation, equation
from tui.sglang.diagnosis.fixes import FRACTION, lower_cap, lower_fraction, smaller_chunk, smaller_graphs
from tui.sglang.diagnosis.making import LIKELY, UNKNOWN, Recogniser, gib, verdict, whole

_DRAFT_FRAMES = lazy(r"eagle_worker|draft_worker|standalone_worker|multi_layer_eagle|dflash_worker|draft_runner")
_NCCL_OOM = lazy(r"[Cc]uda failure (?:\d+ )?'?out of memory")
_CAPTURE_FRAMES = lazy(
    r"cuda_graph_runner|init_(?:device|cuda)_graphs|capture_one|graph_runner|in capture\b|^capture ", re.M
)
_POOL_FRAMES = lazy(r"init_memory_pool|memory_pool\.py|alloc_memory_pool|kv_cache_configurator|_create_buffers")
_LOAD_FRAMES = lazy(r"load_model|process_weights_after_loading|model_loader|initialize_model|create_weights")
_WORKSPACE_FRAMES = lazy(r"init_attention_backend|attention/\w+backend\.py.*__init__|__init__ \(\S*backend\.py")
_RUN_FRAMES = lazy(r"event_loop|forward_batch_generation|run_batch|_forward_raw|forward_extend|forward_decode")


def gpu_oom(incident: Incident, case: Case) -> Verdict | None:
    """CUDA out of memory."""
    problem = incident.first("cuda-oom")
    if problem is None:
        if incident.codes & {"triton-error"} and "out of memory" in incident.text:
            problem = incident.first("triton-error")
        elif _NCCL_OOM.search(incident.text):
            problem = incident.first("nccl-error", "nccl-warn")
        elif "gpu-workspace" in incident.codes:
            problem = incident.first("gpu-workspace")
    if problem is None:
        return None
    return _foreign(incident, case, problem) or _by_moment(incident, case, problem)


def moment(incident: Incident, case: Case) -> tuple[When, bool]:
    """When it happened, and whether it was the draft's: the traceback knows better than the last line before it."""
    frames = incident.frames
    draft = _DRAFT_FRAMES.search(frames) is not None
    if "capture-failed" in incident.codes or "prefill-capture-failed" in incident.codes:
        return When.CAPTURE, draft
    if _RUN_FRAMES.search(frames) and not _CAPTURE_FRAMES.search(frames):
        return (When.SERVING if incident.when is When.SERVING else When.WARMUP), draft
    for pattern, when, of_draft in (
        (_CAPTURE_FRAMES, When.CAPTURE, When.CAPTURE),
        (_POOL_FRAMES, When.POOL, When.DRAFT_POOL),
        (_LOAD_FRAMES, When.LOAD, When.DRAFT_LOAD),
        (_WORKSPACE_FRAMES, When.WORKSPACE, When.WORKSPACE),
    ):
        if pattern.search(frames):
            second = incident.when in (When.DRAFT_LOAD, When.DRAFT_POOL)
            if when is When.LOAD and incident.when in (When.POOL, When.WORKSPACE, When.CAPTURE):
                second = True  # the target is in: weights that are loaded now are the draft's
            return (of_draft if draft or second else when), draft or second
    when = incident.when
    if when is When.POOL and not case.speculative:
        return When.POOL, False
    return when, when in (When.DRAFT_LOAD, When.DRAFT_POOL)


def _foreign(incident: Incident, case: Case, problem: Problem) -> Verdict | None:
    """torch saw another process on the GPU that holds a good part of it."""
    n = problem.numbers
    other, total = n.get("other_process_gib"), n.get("total_gib")
    if other is None or total is None or "in_use_gib" not in n or other < 0.05 * total:
        return None
    # In a container torch may count the process itself among the others.
    if abs(other - n.get("allocated_gib", 0.0)) < 1.5 + 0.02 * total and n["in_use_gib"] < 1.0:
        return None
    return verdict(
        "gpu-shared",
        incident,
        "cuda-oom",
        title=f"Another process holds {gib(other)} of the GPU",
        why=f"An allocation of {gib(n.get('tried_gib', 0.0))} failed; of {gib(total)} another process holds "
        f"{gib(other)}. "
        "Free the GPU first: `nvidia-smi` names the process; it may be a rank that an earlier server left behind.",
        confidence=LIKELY,
        numbers=dict(n),
    )


def _by_moment(incident: Incident, case: Case, problem: Problem) -> Verdict:
    when, draft = moment(incident, case)
    n = problem.numbers
    tried, free = n.get("tried_gib"), n.get("free_gib")
    missing = max(0.0, tried - free) if tried is not None and free is not None else (tried or 0.0)
    eq = equation(case)
    asked = f"{gib(tried)} was asked for" if tried is not None else "Memory was asked for"
    had = f" and {gib(free)} was free." if free is not None else " and was not there."
    numbers = {**eq.numbers(), **n, "missing_gib": round(missing, 4)}
    common = _Oom(incident, case, eq, missing, asked + had, numbers, LIKELY if tried is None else "certain")
    if when in (When.DRAFT_LOAD, When.DRAFT_POOL):
        return common.draft(when)
    if when is When.LOAD:
        return common.load()
    if when in (When.SERVING, When.WARMUP):
        return common.runtime(when)
    if when in (When.CAPTURE, When.WORKSPACE, When.POOL):
        return common.capture(when)
    return common.somewhere(draft)


class _Oom:
    """One failed allocation and what the recognisers say of it."""

    def __init__(
        self,
        incident: Incident,
        case: Case,
        eq: Equation,
        missing: float,
        facts: str,
        numbers: dict[str, float],
        confidence: str,
    ) -> None:
        self.incident, self.case, self.eq, self.missing = incident, case, eq, missing
        self.facts, self.numbers, self.confidence = facts, numbers, confidence

    def _verdict(self, kind: str, title: str, why: str, *fixes: Fix | None, sure: bool = True) -> Verdict:
        given = next((fix.new for fix in fixes if fix is not None and fix.knob == FRACTION), None)
        numbers = {**self.numbers, **self.eq.numbers(given)} if given is not None else self.numbers
        return verdict(
            kind,
            self.incident,
            "cuda-oom",
            "gpu-workspace",
            "triton-error",
            "nccl-error",
            title=title,
            why=f"{self.facts} {why}",
            confidence=self.confidence if sure else LIKELY,
            numbers=numbers,
            fixes=fixes,
        )

    def _fraction(self) -> Fix | None:
        return lower_fraction(self.case, self.eq, self.missing)

    def capture(self, when: When) -> Verdict:
        prefill = "prefill-capture-failed" in self.incident.codes
        graphs = smaller_graphs(self.case, "prefill" if prefill else "decode")
        cap, fraction = lower_cap(self.case, self.eq, self.missing), self._fraction()
        why = "What is outside the static budget was not enough: graphs, workspaces and activations come out of it."
        if cap is not None:
            why += " The token cap sets the size of the pool, so the cap is the lever and the fraction is not."
            fixes: tuple[Fix | None, ...] = (cap, graphs)
        elif fraction is None and self.eq.floor is not None and self.eq.fraction is not None:
            why += (
                f" A smaller fraction does not work: the weights alone need {self.eq.floor:.4f}. Smaller graphs, or a "
                "smaller checkpoint, are left."
            )
            fixes = (graphs, _no_prefill_graphs(self.case) if prefill else None)
        else:
            why += " Lower the fraction (raising it makes it worse), the token cap if one is set, or the graph sizes."
            fixes = (fraction, graphs, _no_prefill_graphs(self.case) if prefill else None)
        return self._verdict("capture-oom", f"GPU memory ran out while {when.value}", why, *fixes)

    def runtime(self, when: When) -> Verdict:
        why = (
            "The working memory of a forward pass comes out of the slack outside the fraction. Lower the fraction, or "
        )
        why += "make prefill steps smaller."
        cap = lower_cap(self.case, self.eq, self.missing)
        lever = cap if cap is not None else self._fraction()
        return self._verdict(
            "runtime-oom", f"GPU memory ran out while {when.value}", why, lever, smaller_chunk(self.case)
        )

    def load(self) -> Verdict:
        why = "The fraction plays no part before the weights are in. It takes more ranks, a smaller or quantised "
        why += "checkpoint, or a GPU that nobody else uses."
        return self._verdict(
            "load-oom", "GPU memory ran out while the weights were loaded", why, _more_ranks(self.case)
        )

    def draft(self, when: When) -> Verdict:
        new = self.case.at_least(0, 5, 14)
        if new and when is When.DRAFT_LOAD:
            why = "SGLang >= 0.5.14 loads the draft before it sizes the pool: target and draft together are too large. "
            why += "It takes more ranks, a smaller draft, or quantised checkpoints."
            return self._verdict("draft-oom", f"GPU memory ran out while {when.value}", why, _more_ranks(self.case))
        why = (
            "Up to SGLang 0.5.13 the draft's weights and pool come out of the slack, which the fraction left "
            "too small; "
        )
        why += "0.5.14 and later count them in the budget. Lower the fraction or the token cap."
        cap = lower_cap(self.case, self.eq, self.missing)
        lever = cap if cap is not None else self._fraction()
        if lever is None and self.eq.floor is not None and self.eq.fraction is not None:
            why += f" But the weights alone need {self.eq.floor:.4f}: no fraction works with this draft."
        return self._verdict("draft-oom", f"GPU memory ran out while {when.value}", why, lever)

    def somewhere(self, draft: bool) -> Verdict:
        """The log does not show what was going on: the kind is a guess and is called one."""
        total, free = self.numbers.get("total_gib"), self.numbers.get("free_gib")
        early = self.incident.when in (When.LAUNCH, When.RANKS)
        if early and total and free is not None and free < 0.5 * total:
            why = f"Before the weights only {gib(free)} of {gib(total)} was free: somebody else holds the rest."
            return self._verdict("gpu-shared", "The GPU was already in use when the ranks were set up", why, sure=False)
        what = " while the draft was set up" if draft else ""
        return verdict(
            "unknown",
            self.incident,
            "cuda-oom",
            "gpu-workspace",
            "triton-error",
            "nccl-error",
            title=f"GPU memory ran out{what}; the log does not show at which step",
            why=f"{self.facts} What to change depends on the step: before the pool it is the checkpoint, during graph "
            "capture the fraction is too high or the graphs too many, while serving also the prefill chunk. Get the "
            "lines before this one.",
            confidence=UNKNOWN,
            numbers=self.numbers,
        )


def _no_prefill_graphs(case: Case) -> Fix:
    knob = "disable-prefill-cuda-graph" if case.at_least(0, 5, 14) is not False else "disable-piecewise-cuda-graph"
    return Fix(knob=knob, old=case.old(knob), new=True, why="prefill runs without graphs, a little slower")


def _more_ranks(case: Case) -> Fix | None:
    """Twice the ranks, where the machine has the GPUs."""
    tp = whole(case.value("tp-size", "tensor-parallel-size"))
    if tp is None or len(case.gpus_total_gib) < 2 * tp:
        return None
    knob = "tp-size"
    return Fix(knob=knob, old=case.old(knob), new=2 * tp, why="each rank holds about half of the weights")


RECOGNISERS: tuple[Recogniser, ...] = (gpu_oom,)
