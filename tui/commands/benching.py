"""Benching one run: who makes the load, and keeping what came of it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tui.errors import SpecdeckError
from tui.feed.targets import of_run
from tui.runs import benches, summaries
from tui.runs.benches import BenchError, BenchResult, Workload
from tui.runs.benchserving import BenchServing
from tui.runs.loadgen import Counters, LoadGenerator
from tui.runs.store import Run
from tui.server import control
from tui.server.commandline import command_line
from tui.sglang.memknobs import model_path
from tui.sources.probe import ProbeError, find_interpreter

Say = Callable[[str], None]


class Bench:
    """Runs workloads against one run's server, one after the other. `cancel()` may come from any thread."""

    def __init__(self, run: Run, engine: str = "auto", say: Say = print, progress: Say | None = None) -> None:
        """Raises BenchError when the run has no address."""
        target = of_run(run)
        if target.url is None:
            raise BenchError(f"{run.name} has no address to send requests to.")
        self._run = run
        self._simple = LoadGenerator(target.url, target.api_key)
        self._own = None if engine == "specdeck" or run.rehearsal else _bench_serving(run, target.url)
        if engine == "sglang" and self._own is None:
            raise BenchError(f"The interpreter that {run.name} runs in was not found: use --engine specdeck.")
        self._engine, self._say, self._progress = engine, say, progress
        self._cancelled = False

    def cancel(self) -> None:
        """Hang up; the server stays well."""
        self._cancelled = True
        self._simple.cancel()
        if self._own is not None:
            self._own.cancel()

    def run(self, workloads: Sequence[Workload]) -> tuple[BenchResult, ...]:
        """Each result is kept in the run as soon as it is there. Raises BenchError and StoreError."""
        results = []
        try:
            for workload in workloads:
                result = self._one(workload)
                benches.save(self._run.path, [result])
                results.append(result)
                self._say(result.line())
        except KeyboardInterrupt:
            self.cancel()
            raise
        finally:
            if results:
                self._summarise()
        return tuple(results)

    def _one(self, workload: Workload) -> BenchResult:
        if self._own is not None:
            self._simple.warm_up()
            before = self._simple.counters()
            try:
                found = self._own.run(workload, self._progress)
            except BenchError as error:
                if self._cancelled or self._engine == "sglang":
                    raise
                self._say(f"{str(error).rstrip('.')}; specdeck's own load is used instead.")
                self._own = None
            else:
                return _counted(found, self._simple.grown(before, found.output_tokens))
        return self._simple.run(workload, self._progress)

    def _summarise(self) -> None:
        try:
            summaries.write(self._run.path)
        except SpecdeckError as error:
            self._say(str(error))


def _bench_serving(run: Run, url: str) -> BenchServing | None:
    """SGLang's generator in the interpreter that the server was started with."""
    try:
        command = command_line(control.profile_of(run))
        python = find_interpreter(command.argv, cwd=Path(command.cwd), env=command.env)
    except (SpecdeckError, ProbeError):
        return None
    model = model_path(run.knobs)
    if not isinstance(model, str):
        return None
    path = Path(command.cwd) / model
    return BenchServing(str(python), url, str(path) if path.exists() else model, {**os.environ, **command.env})


def _counted(found: BenchResult, grown: Counters) -> BenchResult:
    """SGLang's result with what the server's counters say, where it has them."""
    if grown.generated is None:
        return found
    calls = grown.verify_calls or 0.0
    return replace(
        found,
        counter_tok_s=grown.generated / found.wall_s,
        accept_len=grown.generated / calls if calls > 0 else found.accept_len,
    )
