"""The fold: every source's facts meet here, and every view's Snapshot is made here."""

from collections.abc import Iterable, Mapping
from typing import Any

from tui.facts import (
    Attached,
    DecodeBatch,
    Endpoint,
    Fact,
    GpuSample,
    Launched,
    Loads,
    LogFact,
    LogTail,
    Mark,
    Metrics,
    PoolSummary,
    PrefillBatch,
    Problem,
    ServerArgs,
    ServerInfo,
    ServerProcesses,
    Traceback,
    VersionHint,
)
from tui.session.bars import BarInputs, make_bars
from tui.session.cautions import CautionFold
from tui.session.checks import disagreements
from tui.session.lifecycle import Lifecycle
from tui.session.load import LoadFold
from tui.session.versions import VersionFold
from tui.session.worth import WorthFold
from tui.sglang.diagnosis import Doctor
from tui.sglang.ledger import Ledger
from tui.snapshot import ENDED, Ages, Knob, RankMemory, Snapshot, State

# Lines worth a jump with `e`; a log that repeats one error for hours must not fill the memory.
MOST_ERROR_LINES = 10_000


class Session:
    """Folds facts in the order they became known. `snapshot(now)` is a pure function of them and of `now`."""

    def __init__(self) -> None:
        self._life = Lifecycle()
        self._ledger = Ledger()
        self._doctor = Doctor()
        self._cautions = CautionFold()
        self._load = LoadFold()
        self._version = VersionFold()
        self._worth = WorthFold()
        self._launched: Launched | None = None
        self._attached: Attached | None = None
        self._args: Mapping[str, Any] = {}
        self._summary: PoolSummary | None = None
        self._info: ServerInfo | None = None
        self._endpoint: Endpoint | None = None
        self._sample: GpuSample | None = None
        self._processes: ServerProcesses | None = None
        self._errors: list[int] = []
        self._log_at: float | None = None
        self._log_lines = 0
        self._at = 0.0

    def apply(self, fact: Fact) -> None:
        """Fold one fact in."""
        if fact.at > self._at:
            self._at = fact.at
        if isinstance(fact, DecodeBatch):
            self._decode(fact)
            return
        self._life.apply(fact)
        self._doctor.apply(fact)
        self._worth.apply(fact)
        if isinstance(fact, Launched | Attached):
            self._cautions.reset()
        self._cautions.apply(fact)
        match fact:
            case PrefillBatch():
                self._load.prefill(fact)
            case LogFact():
                self._log(fact)
            case LogTail():
                self._log_lines = fact.lines
                self._log_at = fact.at
            case GpuSample():
                self._sample = fact
            case ServerProcesses():
                self._processes = fact
            case Loads():
                self._load.loads(fact)
            case Metrics():
                self._load.metrics(fact)
            case Endpoint():
                self._endpoint = fact
            case ServerInfo():
                self._server_info(fact)
            case Launched():
                self._new_life()
                self._launched, self._attached = fact, None
                self._version.launched(fact)
            case Attached():
                self._new_life()
                self._launched, self._attached = None, fact
            case Mark():
                self._life.mark(fact.at, fact.text)
            case _:
                pass

    def extend(self, facts: Iterable[Fact]) -> None:
        """Fold many facts in."""
        for fact in facts:
            self.apply(fact)

    def snapshot(self, now: float | None = None) -> Snapshot:
        """What is known at time `now` (Unix seconds; by default the time of the latest fact)."""
        at = self._at if now is None else now
        life, load = self._life, self._load.now(at)
        launched, summary = self._launched, self._summary
        ranks = self._ranks()
        fraction = _number(self._args.get("mem_fraction_static"))
        alive = life.state not in ENDED
        endpoint = None if self._endpoint is None or self._silence_is_normal() else self._endpoint
        return Snapshot(
            at=at,
            state=life.state,
            state_reason=life.reason,
            run=launched.run if launched else None,
            profile=launched.profile if launched else None,
            title=self._title(),
            rehearsal=bool(launched and launched.rehearsal)
            or bool(self._sample and self._sample.source == "rehearsal"),
            controlled=launched is not None,
            sglang_version=self._version.version,
            version_note=self._version.note(),
            model=_text(self._args.get("served_model_name")) or _text(self._args.get("model_path")),
            url=(launched.url if launched else None) or (self._attached.url if self._attached else None),
            endpoint=endpoint.state if endpoint else "",
            endpoint_detail=endpoint.detail if endpoint else "",
            progress=life.progress(),
            ready_at=life.ready_at,
            exit_code=life.exited.code if life.exited else None,
            exit_signal=life.exited.signal if life.exited else None,
            exited_at=life.exited.at if life.exited else None,
            knobs=self._knobs(),
            args=self._args,
            fraction=fraction,
            ranks=ranks,
            gpus=make_bars(
                BarInputs(
                    ranks=ranks,
                    sample=self._sample,
                    pids=frozenset(self._processes.pids) if self._processes else frozenset(),
                    visible_uuids=self._processes.visible_uuids if self._processes else None,
                    args=self._args,
                    phases=life.rank_phases,
                    token_usage=load.token_usage if alive else None,
                    fraction=fraction,
                    draft_outside_fraction=self._version.draft_outside_fraction(),
                    alive=alive,
                )
            ),
            gpu_error=self._sample.error if self._sample else None,
            kv_tokens=self._kv_tokens(),
            token_usage=load.token_usage if alive else None,
            gen_tok_s=load.gen_tok_s if alive else None,
            accept_len=load.accept_len if alive else None,
            running=load.running if alive else None,
            queue=load.queue if alive else None,
            max_running_requests=summary.max_running_requests if summary else None,
            context_len=summary.context_len if summary else None,
            economy=self._economy(load.running) if alive else "",
            baseline_tok_s=self._worth.baseline_tok_s(load.running, self._load.ranks) if alive else None,
            points=tuple(self._load.points),
            marks=tuple(life.marks),
            log_lines=self._log_lines,
            error_lines=tuple(self._errors),
            ages=self._ages(at),
            disagreements=disagreements(ranks, self._info, summary),
            warnings=self._cautions.now(at, life.state, life.progress()),
            verdict=self._doctor.verdict(),
        )

    def _decode(self, fact: DecodeBatch) -> None:
        """The hot path: a busy server logs little else."""
        self._doctor.apply(fact)
        self._worth.apply(fact)
        self._cautions.apply(fact)
        self._load.decode(fact)
        self._life.serving_line(fact.at)

    def _new_life(self) -> None:
        """A launch: what the old server's log and endpoints said holds no more; the plot and the GPUs stay."""
        self._ledger = Ledger()
        self._load.reset()
        self._worth.reset()
        self._version = VersionFold()
        self._args, self._summary, self._info, self._endpoint, self._processes = {}, None, None, None, None
        self._errors, self._log_at, self._log_lines = [], None, 0

    def _economy(self, running: int | None) -> str:
        launched = self._launched.knobs if self._launched else {}
        speculates = launched.get("speculative-algorithm") or self._args.get("speculative_algorithm")
        return self._worth.economy(running, self._load.ranks) if speculates else ""

    def _log(self, fact: LogFact) -> None:
        self._ledger.apply(fact)
        match fact:
            case ServerArgs():
                self._args = fact.args
            case PoolSummary():
                self._summary = fact
            case VersionHint():
                self._version.hint(fact)
            case Traceback() | Problem():
                if len(self._errors) < MOST_ERROR_LINES:
                    self._errors.append(fact.line)
            case _:
                pass

    def _server_info(self, fact: ServerInfo) -> None:
        self._info = fact
        self._version.told(fact.version)
        if not self._args:
            self._args = fact.args

    def _ranks(self) -> tuple[RankMemory, ...]:
        return tuple(
            RankMemory(**{name: getattr(rank, name) for name in RankMemory.__dataclass_fields__})
            for rank in self._ledger.ranks()
        )

    def _kv_tokens(self) -> int | None:
        if self._summary is not None:
            return self._summary.max_total_num_tokens
        return self._info.max_total_num_tokens if self._info else None

    def _title(self) -> str:
        if self._launched is not None:
            return self._launched.profile
        return self._attached.target if self._attached else ""

    def _knobs(self) -> tuple[Knob, ...]:
        if self._launched is not None:
            return tuple(Knob(name=name, value=value) for name, value in self._launched.knobs.items())
        return tuple(
            Knob(name=name.replace("_", "-"), value=value, origin="server") for name, value in self._args.items()
        )

    def _silence_is_normal(self) -> bool:
        """SGLang opens its port only when every rank is ready, and an ended server has none."""
        quiet = self._life.state in (State.STARTING, *ENDED)
        return quiet and self._endpoint is not None and self._endpoint.state == "down"

    def _ages(self, at: float) -> Ages:
        def age(since: float | None) -> float | None:
            return None if since is None else max(0.0, at - since)

        return Ages(
            log_s=age(self._log_at),
            gpu_s=age(self._sample.at if self._sample else None),
            endpoint_s=age(self._endpoint.at if self._endpoint else None),
        )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
