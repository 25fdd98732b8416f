"""Facts of a run -> Summary. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from tui.facts import Exited, Fact, GpuSample, GraphBegin, GraphEnd, Launched, Problem, ServerReady, WeightsBegin
from tui.frozen import frozen
from tui.runs.benches import BenchResult
from tui.runs.summary import Machine, SpeedRow, Summary
from tui.session import Session
from tui.session.lifecycle import Lifecycle
from tui.session.samples import SampleFold
from tui.snapshot import Phase, RankMemory, Snapshot

_MEMORY = (
    "free_before",
    "base",
    "draft",
    "kv_base",
    "kv_draft",
    "state",
    "graphs_base",
    "graphs_draft",
    "other",
    "free",
)


@frozen
class About:
    """What the run's folder says of it. `previous_knobs` None: there is no run before it of the same profile."""

    run: str
    profile: str = ""
    started_at: float | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    sglang_version: str | None = None
    rehearsal: bool = False
    alive: bool = False
    previous: str | None = None
    previous_knobs: Mapping[str, Any] | None = None
    benches: tuple[BenchResult, ...] = ()


class SummaryFold:
    """Folds the facts of one run."""

    def __init__(self) -> None:
        self._session = Session()
        self._life = Lifecycle()
        self._samples = SampleFold()
        self._phases_s: dict[str, float] = {}
        self._ranks: tuple[RankMemory, ...] = ()
        self._graph_batch: int | None = None
        self._problem: Problem | None = None
        self._first: GpuSample | None = None
        self._loaded = False
        self._ready = False
        self._at_ready: dict[str, float] = {}
        self._least: dict[str, float] = {}
        self._sample: GpuSample | None = None

    def apply(self, fact: Fact) -> None:
        self._session.apply(fact)
        self._samples.apply(fact)
        self._time(fact)
        match fact:
            case Launched():
                self._phases_s, self._ranks, self._graph_batch, self._problem = {}, (), None, None
            case WeightsBegin():
                self._loaded = True
            case GraphBegin() | GraphEnd() if fact.batch_sizes and "prefill" not in fact.name:
                self._graph_batch = max(self._graph_batch or 0, *fact.batch_sizes)
            case ServerReady():
                self._ranks = self._session.snapshot().ranks
                self._ready = True
            case GpuSample():
                self._gpus(fact)
            case Problem() if self._problem is None:
                self._problem = fact
            case _:
                pass

    def summary(self, about: About) -> Summary:
        shot = self._session.snapshot()
        tight = _tightest(self._ranks or shot.ranks)
        batch = _whole(shot.args.get("cuda_graph_max_bs")) or self._graph_batch
        totals = self._samples.totals()
        launched, ready = self._life.launched_at or about.started_at, self._life.ready_at
        rows = _rows(self._samples, about.benches)
        verdict = shot.verdict
        outcome = self._outcome(about.alive)
        failed = outcome not in ("starting", "serving", "stopped", "stopped before ready")
        return Summary(
            run=about.run,
            profile=about.profile,
            final=not about.alive,
            started_at=about.started_at,
            ended_at=shot.exited_at,
            outcome=outcome,
            verdict=verdict.kind if verdict else self._problem.code if self._problem and failed else None,
            verdict_title=verdict.title if verdict else self._problem.text if self._problem and failed else "",
            rehearsal=about.rehearsal,
            model=shot.model,
            sglang_version=shot.sglang_version or about.sglang_version,
            algorithm=_algorithm(shot, about.knobs),
            fraction=shot.fraction,
            knobs=about.knobs,
            previous=about.previous,
            changed=changed_knobs(about.previous_knobs, about.knobs),
            ready_s=None if ready is None or launched is None else max(0.0, ready - launched),
            phases_s=dict(self._phases_s),
            kv_tokens=shot.kv_tokens,
            free_gib=tight.free if tight else None,
            memory_gib={name: getattr(tight, name) for name in _MEMORY} if tight else {},
            graph_batch=batch,
            overhead_gib=self._overhead(tight),
            activations_gib=self._activations(about.benches),
            accept_len=totals.accept_len if totals.accept_len is not None else _mean_accept(rows),
            best_tok_s=max((b for row in rows if (b := row.best_tok_s) is not None), default=None),
            speeds=rows,
            benches=about.benches,
            machine=self._machine(),
        )

    def _time(self, fact: Fact) -> None:
        """Seconds in each phase until ready."""
        life = self._life
        phase, since = life.phase, life.since
        life.apply(fact)
        moved = life.phase is not phase and phase not in (Phase.NONE, Phase.SERVING, Phase.STOPPING, Phase.ENDED)
        if moved and since is not None and life.since is not None:
            spent = max(0.0, life.since - since)
            self._phases_s[phase.value] = self._phases_s.get(phase.value, 0.0) + spent

    def _gpus(self, fact: GpuSample) -> None:
        if self._first is None and not self._loaded:
            self._first = fact
        self._sample = fact
        if self._ready and self._life.exited is None:
            for uuid, free in _free(fact).items():
                self._at_ready.setdefault(uuid, free)
                self._least[uuid] = min(free, self._least.get(uuid, free))

    def _outcome(self, alive: bool) -> str:
        life = self._life
        exited: Exited | None = life.exited
        if exited is None:
            if alive:
                return "starting" if life.ready_at is None else "serving"
            return "lost"
        if life.ready_at is None:
            return "stopped before ready" if exited.requested else "failed to start"
        return "stopped" if exited.requested or exited.code == 0 else "crashed"

    def _overhead(self, tight: RankMemory | None) -> float | None:
        """Free before the launch less P: CUDA context and communication."""
        before = self._machine().free_gib
        if before is None or tight is None or tight.free_before is None:
            return None
        taken = before - tight.free_before
        return taken if 0.0 <= taken < 10.0 else None

    def _activations(self, benches: tuple[BenchResult, ...]) -> float | None:
        """How far free memory fell after ready; only long prefills show how far it may."""
        if not any(result.input_tokens > result.output_tokens for result in benches):
            return None
        falls = [self._at_ready[uuid] - least for uuid, least in self._least.items() if uuid in self._at_ready]
        return max(0.0, *falls) if falls else None

    def _machine(self) -> Machine:
        sample = self._first or self._sample
        if sample is None or sample.error is not None:
            return Machine()
        sizes = [gpu.total_gib for gpu in sample.gpus if gpu.total_gib is not None]
        free = list(_free(self._first).values()) if self._first is not None else []
        return Machine(
            gpus=tuple(gpu.name for gpu in sample.gpus),
            total_mib=min(sizes) * 1024 if sizes else None,
            driver=sample.driver,
            free_gib=min(free) if free else None,
        )


def summarise(facts: Iterable[Fact], about: About) -> Summary:
    """The summary of a stream of facts."""
    fold = SummaryFold()
    for fact in facts:
        fold.apply(fact)
    return fold.summary(about)


def changed_knobs(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Knobs that differ, as (before, now); None is not given. Without a run before nothing has changed."""
    if before is None:
        return {}
    names = dict.fromkeys((*before, *now))
    return {name: (before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)}


def _rows(samples: SampleFold, benches: tuple[BenchResult, ...]) -> tuple[SpeedRow, ...]:
    """A bench's fixed load beats what traffic happened to be; of several the last one counts."""
    rows = {
        batch: SpeedRow(speed=speed, best_tok_s=samples.fastest(batch), source=samples.source(batch))
        for batch, speed in samples.speeds().items()
    }
    for result in benches:
        speed = result.speed
        if speed is not None:
            known = rows.get(result.batch)
            best = max(filter(None, (known.best_tok_s if known else None, speed.high, speed.tok_s)), default=None)
            rows[result.batch] = SpeedRow(speed=speed, best_tok_s=best, source="bench")
    return tuple(rows[batch] for batch in sorted(rows))


def _tightest(ranks: tuple[RankMemory, ...]) -> RankMemory | None:
    known = [rank for rank in ranks if rank.free is not None]
    return min(known, key=lambda rank: rank.free or 0.0) if known else (ranks[0] if ranks else None)


def _free(sample: GpuSample | None) -> dict[str, float]:
    return {gpu.uuid: gpu.free_gib for gpu in sample.gpus if gpu.free_gib is not None} if sample else {}


def _algorithm(shot: Snapshot, knobs: Mapping[str, Any]) -> str | None:
    value = shot.args.get("speculative_algorithm", knobs.get("speculative-algorithm"))
    return value if isinstance(value, str) and value else None


def _mean_accept(rows: tuple[SpeedRow, ...]) -> float | None:
    known = [(row.speed.accept_len, row.speed.samples) for row in rows if row.speed.accept_len is not None]
    count = sum(samples for _, samples in known)
    return sum((accept or 0.0) * samples for accept, samples in known) / count if count else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
