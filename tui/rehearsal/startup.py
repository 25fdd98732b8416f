"""The start of a rehearsed server: every step in the order of its version, with its lines, its time and its memory.

Order: ModelRunner.initialize up to 0.5.13, init_model_worker from 0.5.14 on (sglang-facts 1.3).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from tui.rehearsal import failures
from tui.rehearsal.catalogue import SimModel
from tui.rehearsal.console import Clock, Console
from tui.rehearsal.gpumemory import Board, NoRoomError
from tui.rehearsal.launch import DRAFT_WORKSPACE_GIB, GIB, TARGET_WORKSPACE_GIB, Launch, Rank
from tui.rehearsal.logforms import LogForms
from tui.sglang.budget import PoolBudget, size_pool

# Simulated seconds.
_DIST_S, _DRAFT_DIST_S, _POOL_S, _WORKSPACE_S = 7.5, 0.2, 0.8, 1.2
_FIRST_CAPTURE_S, _CAPTURE_S, _BUCKET_S = 6.0, 0.9, 0.35
_LONGEST_BAR = 64
_UNBALANCED = 0.9


class StartFailedError(Exception):
    """Ranks that failed, each with its traceback."""

    def __init__(self, failed: Sequence[tuple[Rank, str]]) -> None:
        super().__init__(f"{len(failed)} ranks failed")
        self.failed = tuple(failed)


@dataclass(slots=True, kw_only=True)
class Started:
    """A server that got through: what its pools and graphs became. GiB of the first rank, seconds simulated."""

    tokens: int
    max_running_requests: int
    kv_gib: float
    draft_kv_gib: float = 0.0
    decode_sizes: tuple[int, ...] = ()
    graphs_gib: dict[str, float] = field(default_factory=dict)
    graph_s: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    available_gib: float = 0.0


class Startup:
    """Runs one start. `random` decides who writes first and how long things take."""

    def __init__(
        self, launch: Launch, board: Board, console: Console, clock: Clock, forms: LogForms, random: Random
    ) -> None:
        self._launch = launch
        self._board = board
        self._console = console
        self._clock = clock
        self._forms = forms
        self._random = random
        self._ranks = launch.ranks
        self._seconds = {"load_weight": 0.0, "kv_cache_allocation": 0.0}

    def run(self) -> Started:
        """Raises StartFailedError, or whatever the clock's watch raises."""
        launch = self._launch
        free_before = self._distributed()
        self._load(launch.model, launch.base_gib, draft=False)
        if launch.draft_first and launch.draft:
            self._load(launch.draft, launch.draft_gib, draft=True)
        budget = self._size(free_before)
        started = self._target_pool(budget)
        slots = budget.request_slots or 0
        started.decode_sizes = launch.decode_sizes(slots)
        if launch.draft_first:
            self._draft_pool(started)
            self._workspace(TARGET_WORKSPACE_GIB + DRAFT_WORKSPACE_GIB, draft=False)
            self._prefill_graphs(started)
            self._decode_graphs(started)
            self._draft_graphs(started)
        else:
            self._workspace(TARGET_WORKSPACE_GIB, draft=False)
            if launch.version.at_least(0, 5, 14):
                self._prefill_graphs(started)
                self._decode_graphs(started)
            else:
                self._decode_graphs(started)
                self._prefill_graphs(started)
            self._late_draft(started)
        self._summary(started)
        return started

    def _distributed(self) -> float:
        """CUDA context and communication; returns P, the smallest memory free before weights."""
        launch, forms = self._launch, self._forms
        missing = [rank for rank in self._ranks if rank.index >= launch.settings.machine.gpus]
        self._each(self._ranks, lambda rank: (forms.dist_begin(),))
        self._clock.sleep(_DIST_S)
        if missing:
            raise StartFailedError([(rank, failures.no_such_gpu(launch)) for rank in missing])
        spare = {rank.index: 0.0 if rank.tp == 0 else round(self._random.random() * 0.04, 4) for rank in self._ranks}
        for rank in self._ranks:
            self._take(rank, launch.context_gib - spare[rank.index], lambda oom: failures.load_oom(launch, oom, False))
        self._board.publish()
        elapsed = _DIST_S * (0.9 + 0.2 * self._random.random())
        self._each(self._ranks, lambda rank: forms.dist_end(elapsed, self._board[rank].used_gib))
        least = self._board.least_free_gib
        if launch.knobs.tp > 1:
            crowded = [rank for rank in self._ranks if least < _UNBALANCED * self._board[rank].free_gib]
            if crowded:
                raise StartFailedError(
                    [(rank, failures.unbalanced(launch, least, self._board[rank].free_gib)) for rank in crowded]
                )
        return least

    def _load(self, model: SimModel, gib: float, draft: bool) -> None:
        launch, forms = self._launch, self._forms
        before = {rank.index: self._board[rank].free_gib for rank in self._ranks}
        if draft:
            self._draft_prelude()
        self._each(self._ranks, lambda rank: (forms.weights_begin(self._board[rank].free_gib),))
        duration = gib * len(self._ranks) / launch.replicas / model.load_gib_s
        steps = min(model.shards, _LONGEST_BAR)
        fails: list[tuple[Rank, str]] = []
        for done in range(steps + 1):
            if done:
                self._clock.sleep(duration / steps)
                for rank in self._ranks:
                    try:
                        self._board[rank].take(gib / steps)
                    except NoRoomError as error:
                        fails.append((rank, failures.load_oom(launch, error.oom, draft)))
                self._board.publish(soon=True)
            if fails:
                raise StartFailedError(fails)
            self._console.bar(forms.shards(done, steps, duration * done / steps), last=done == steps)
        self._board.publish()
        self._seconds["load_weight"] += duration
        cls, quant = model.model_class, model.quant
        self._each(
            self._ranks,
            lambda rank: (
                forms.weights_end(
                    duration * (0.97 + 0.03 * self._random.random()),
                    cls,
                    quant,
                    self._board[rank].free_gib,
                    before[rank.index] - self._board[rank].free_gib,
                ),
            ),
        )

    def _draft_prelude(self) -> None:
        """The draft's runner joins the groups that exist."""
        forms = self._forms
        if self._launch.version.at_least(0, 5, 21):
            self._each(self._ranks, lambda rank: ("Memory baseline taken. mem usage=0.00 GB",))
            return
        self._each(self._ranks, lambda rank: (forms.dist_begin(),))
        self._clock.sleep(_DRAFT_DIST_S)
        self._each(self._ranks, lambda rank: forms.dist_end(_DRAFT_DIST_S, 0.0))

    def _size(self, free_before: float) -> PoolBudget:
        launch = self._launch
        if (dtype := self._forms.kv_dtype()) is not None:
            self._console.log(dtype, self._ranks[0])
        self._clock.sleep(_POOL_S)
        available = self._board.least_free_gib
        budget = size_pool(launch.pool_inputs(free_before, available))
        cap = launch.knobs.max_total_tokens
        if cap is not None and cap > budget.profiled_tokens:
            warning = (
                f"max_total_tokens={cap} is larger than the profiled value {budget.profiled_tokens}. "
                "Use the profiled value instead."
            )
            self._each(self._ranks, lambda rank: (warning,))
        if not budget.fits:
            text = failures.pool_refused(launch, free_before, available)
            raise StartFailedError([(rank, text) for rank in self._ranks])
        return budget

    def _target_pool(self, budget: PoolBudget) -> Started:
        launch, forms = self._launch, self._forms
        gib = budget.kv_gib(launch.cell.target)
        table = budget.request_table_gib or 0.0
        self._all_take(gib, lambda oom: failures.pool_oom(launch, oom, False))
        self._all_take(table, lambda oom: failures.pool_oom(launch, oom, False))
        self._seconds["kv_cache_allocation"] += _POOL_S
        latent = launch.model.traits.mla
        self._each(
            self._ranks,
            lambda rank: (
                forms.kv_pool(budget.tokens, gib, latent),
                forms.pool_end(self._board[rank].free_gib),
            ),
        )
        if launch.version.at_least(0, 5, 23) and budget.tokens < launch.context_len:
            note = (
                f"KV pool holds {budget.tokens} tokens, fewer than --context-length {launch.context_len}. One "
                "full-length request cannot fit, so long requests will be refused or truncated at serving time. Lower "
                "--context-length, raise --mem-fraction-static, or free memory taken before the pool is sized."
            )
            self._console.log(note, self._ranks[0])
        return Started(
            tokens=budget.tokens,
            max_running_requests=self._running_limit(budget),
            kv_gib=gib,
            seconds=self._seconds,
        )

    def _running_limit(self, budget: PoolBudget) -> int:
        launch = self._launch
        slots = budget.request_slots or 1
        if launch.version.before(0, 5, 10):
            wanted = launch.requests_setting
            return min(budget.tokens // 2 if wanted is None else max(1, wanted // launch.knobs.attn_dp), slots)
        return slots

    def _draft_pool(self, started: Started) -> None:
        launch, forms = self._launch, self._forms
        cell = launch.cell.draft_pool or 0.0
        started.draft_kv_gib = gib = started.tokens * cell / GIB
        self._clock.sleep(_POOL_S / 4)
        self._all_take(gib, lambda oom: failures.pool_oom(launch, oom, True))
        latent = bool(launch.draft and launch.draft.traits.mla)
        self._each(
            self._ranks,
            lambda rank: (
                forms.kv_pool(started.tokens, gib, latent),
                forms.pool_end(self._board[rank].free_gib),
            ),
        )

    def _late_draft(self, started: Started) -> None:
        """Up to 0.5.13 the draft comes when the target is finished, and lives in the slack."""
        launch = self._launch
        if launch.draft is None:
            return
        self._load(launch.draft, launch.draft_gib, draft=True)
        self._draft_pool(started)
        self._workspace(DRAFT_WORKSPACE_GIB, draft=True)
        self._draft_graphs(started)

    def _workspace(self, gib: float, draft: bool) -> None:
        self._clock.sleep(_WORKSPACE_S)
        self._all_take(gib, lambda oom: failures.workspace_oom(self._launch, oom, draft))

    def _decode_graphs(self, started: Started) -> None:
        if started.decode_sizes:
            name = "target verify" if self._verifies() else "target decode"
            if not self._launch.version.at_least(0, 5, 14):
                name = "target decode"
            gib = self._launch.decode_graph_gib(started.decode_sizes)
            self._capture(started, name, started.decode_sizes, gib, self._launch.verify_tokens)

    def _verifies(self) -> bool:
        return self._launch.algorithm is not None

    def _prefill_graphs(self, started: Started) -> None:
        graphs = self._launch.prefill_graphs
        if graphs.enabled and graphs.buckets and self._launch.version.at_least(0, 5, 6):
            self._capture(started, "target prefill", graphs.buckets, self._launch.prefill_graph_gib(), 1)

    def _draft_graphs(self, started: Started) -> None:
        launch = self._launch
        if not started.decode_sizes or launch.params is None:
            return
        gib = launch.draft_graph_gib(started.decode_sizes)
        if launch.params.num_steps > 1:
            self._capture(started, "draft decode", started.decode_sizes, gib, launch.params.eagle_topk)
        if launch.version.at_least(0, 4, 7):
            self._capture(started, "draft extend", started.decode_sizes, gib, launch.params.num_steps + 1)

    def _capture(self, started: Started, name: str, sizes: Sequence[int], gib: float, per_request: int) -> None:
        """Captures one set of graphs, the largest batch first, as SGLang does."""
        launch, forms, console = self._launch, self._forms, self._console
        draft = name.startswith("draft")
        writers = self._ranks[:1] if draft and launch.version.at_least(0, 5, 12) else self._ranks
        before = {rank.index: self._board[rank].free_gib for rank in self._ranks}
        self._each(writers, lambda rank: (forms.graph_begin(name, before[rank.index], sizes, per_request),))
        if (listed := forms.graph_sizes(name, sizes)) is not None:
            console.log(listed, self._ranks[0])
        pace = _BUCKET_S if name == "target prefill" else _CAPTURE_S
        first = 0.0 if draft else _FIRST_CAPTURE_S
        total, elapsed = len(sizes), 0.0
        # The first batch takes the pool that the smaller ones then share.
        shares = [0.4 + 0.6 / total, *([0.6 / total] * (total - 1))]
        order = sorted(sizes, reverse=True)
        for done, (size, share) in enumerate(zip(order, shares, strict=True)):
            console.bar(forms.capturing(name, size, self._board[self._ranks[0]].free_gib, done, total, elapsed))
            step = pace + (first if done == 0 else 0.0)
            self._clock.sleep(step)
            elapsed += step
            self._all_take(gib * share, lambda oom: failures.capture_oom(launch, oom, name), graphs=True)
        console.bar(forms.capturing(name, order[-1], self._board[self._ranks[0]].free_gib, total, total, elapsed), True)
        self._board.publish()
        self._each(
            writers,
            lambda rank: (
                forms.graph_end(
                    name, elapsed, before[rank.index] - self._board[rank].free_gib, self._board[rank].free_gib, sizes
                ),
            ),
        )
        phase = {"target verify": "target_verify", "target decode": "decode", "target prefill": "prefill"}.get(
            name, name.replace(" ", "_")
        )
        if phase == "decode" and self._verifies():
            phase = "target_verify"
        started.graphs_gib[phase] = gib
        started.graph_s[phase] = elapsed

    def _summary(self, started: Started) -> None:
        launch, forms = self._launch, self._forms
        started.available_gib = self._board[self._ranks[0]].free_gib
        prefill_tokens = launch.knobs.max_prefill_tokens or 16384
        leaders = [rank for rank in self._ranks if rank.leads]
        self._each(
            leaders,
            lambda rank: (
                forms.summary(
                    started.tokens,
                    launch.chunk,
                    prefill_tokens,
                    started.max_running_requests,
                    launch.context_len,
                    self._board[rank].free_gib,
                ),
            ),
        )
        started.seconds = {
            **self._seconds,
            "scheduler_e2e": sum(self._seconds.values()) + sum(started.graph_s.values()) + _DIST_S,
            "tokenizer_e2e": sum(self._seconds.values()) + sum(started.graph_s.values()) + _DIST_S + 12.0,
        }

    def _each(self, ranks: Iterable[Rank], lines: Callable[[Rank], Iterable[str]]) -> None:
        """Every rank writes its lines; the ranks come in any order, one rank's lines in theirs."""
        queues = [[(rank, line) for line in lines(rank)] for rank in ranks]
        while queues:
            queue = self._random.choice(queues)
            rank, line = queue.pop(0)
            self._console.log(line, rank)
            if not queue:
                queues.remove(queue)

    def _take(self, rank: Rank, gib: float, say: Callable[[failures.OutOfMemory], str], graphs: bool = False) -> None:
        try:
            self._board[rank].take(gib, graphs)
        except NoRoomError as error:
            raise StartFailedError([(rank, say(error.oom))]) from None

    def _all_take(self, gib: float, say: Callable[[failures.OutOfMemory], str], graphs: bool = False) -> None:
        """The same on every rank; those that find no room fail together."""
        failed: list[tuple[Rank, str]] = []
        for rank in self._ranks:
            try:
                self._board[rank].take(gib, graphs)
            except NoRoomError as error:
                failed.append((rank, say(error.oom)))
        self._board.publish(soon=graphs and not failed)
        if failed:
            raise StartFailedError(failed)
