"""The facts behind the pictures: the rehearsal's own start-up and engine, run in this process on a clock of their own.

Nothing is drawn by hand. A server's log is written line by line as the rehearsal writes it, the log grammar reads it,
the simulated GPUs are sampled once a second, and `tui.session.Session` folds the facts. Same seed, same facts.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from tui.facts import (
    Endpoint,
    Exited,
    Expectation,
    Fact,
    GpuProcess,
    GpuReading,
    GpuSample,
    Launched,
    LogTail,
    ServerProcesses,
)
from tui.rehearsal.console import Clock
from tui.rehearsal.engine import Engine
from tui.rehearsal.flags import parse
from tui.rehearsal.gpumemory import Board, scheduler_title
from tui.rehearsal.gpus import gpu_uuid
from tui.rehearsal.launch import Launch, Rank
from tui.rehearsal.logforms import LogForms
from tui.rehearsal.machine import Settings
from tui.rehearsal.resolved import resolved_args
from tui.rehearsal.speeds import speeds_of
from tui.rehearsal.startup import Started, StartFailedError, Startup
from tui.server.commandline import flag_words, merge_knobs
from tui.server.profiles import Profile, load
from tui.session import Session
from tui.sglang.grammar import LogGrammar
from tui.sglang.tiers import cuda_graph_max_bs
from tui.sglang.versions import parse_version
from tui.snapshot import Phase, Snapshot

ROOT = Path(__file__).resolve().parents[1]
NOON = 1_795_953_600.0  # 2026-11-29 12:00:00 UTC
FIRST_PID = 4100
URL = "http://127.0.0.1:30000"
IMPORT_S, SPAWN_S, WARM_UP_S = 11.0, 12.0, 3.0


class EnoughError(Exception):
    """The moment of the picture has come."""


@dataclass
class Stage:
    """One timeline: `facts` in the order they became known, `log` as the server of the last launch wrote it."""

    at: float = NOON
    facts: list[Fact] = field(default_factory=list)
    log: bytes = b""
    knobs: dict[str, Any] = field(default_factory=dict)
    profile: Profile | None = None

    def snapshot(self) -> Snapshot:
        """What the real fold makes of it, at the last moment."""
        session = Session()
        session.extend(self.facts)
        return session.snapshot(self.at)

    def sample(self) -> GpuSample:
        """The GPUs as they were seen last."""
        return next(fact for fact in reversed(self.facts) if isinstance(fact, GpuSample))


class StageClock(Clock):
    """Simulated time that does not wait. Looks at the GPUs once a second, as specdeck does."""

    def __init__(self, life: "Life", until: float | None) -> None:
        super().__init__(1.0, lambda: None)
        self._life = life
        self._until = until

    def sleep(self, seconds: float) -> None:
        life = self._life
        end = life.stage.at + seconds
        while life.stage.at < end:
            life.stage.at = min(end, float(int(life.stage.at) + 1))
            if life.stage.at == int(life.stage.at):
                life.look()
            if self._until is not None and life.stage.at >= self._until:
                raise EnoughError


class StageConsole:
    """What the server writes goes to the stage, and through the grammar as soon as its line is whole."""

    def __init__(self, stage: Stage, forms: LogForms) -> None:
        self._stage = stage
        self._forms = forms
        self._grammar = LogGrammar()
        self._bars = LogGrammar()
        self._lines = 0
        self._rest = ""

    def log(self, message: str, rank: Rank | None = None) -> None:
        self._write(self._forms.stamped(message, rank, self._stage.at) + "\n")

    def bar(self, text: str, last: bool = False) -> None:
        self._write(f"\r{text}" + ("\n" if last else ""))
        if not last:
            self._stage.facts += self._bars.feed(self._lines + 1, text, self._stage.at)

    def plain(self, text: str) -> None:
        self._write(text + "\n")

    def finish(self) -> None:
        """The end of the log: a record that waits for more is over."""
        self._stage.facts += self._grammar.finish(self._stage.at)

    def _write(self, text: str) -> None:
        stage = self._stage
        stage.log += text.encode()
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            self._lines += 1
            stage.facts += self._grammar.feed(self._lines, line, stage.at)
        stage.facts.append(LogTail(at=stage.at, lines=self._lines, bytes=len(stage.log)))


class Life:
    """One launch of a profile on the stage."""

    def __init__(self, stage: Stage, profile: str, changes: dict[str, Any] | None = None, until: float | None = None):
        """`until`: seconds after the launch at which to stop; None plays the start to its end."""
        self.stage = stage
        stage.profile = load(ROOT / "profiles" / f"{profile}.toml")
        stage.knobs = merge_knobs(stage.profile.knobs, changes or {})
        stage.log = b""
        version = parse_version(stage.profile.sglang_version)
        assert version is not None
        words = [word for name, value in stage.knobs.items() for word in flag_words(name, value)]
        self.launch = Launch(parse(words, version), Settings(sglang_version=str(version)), version)
        self.forms = LogForms(version)
        self.console = StageConsole(stage, self.forms)
        self.board = Board(self.launch.settings, self.launch.ranks)
        self.clock = StageClock(self, None if until is None else stage.at + until)
        self.alive = self.serving = False
        self._profile = profile

    def start(self) -> Started | None:
        """Up to ready, or to the moment asked for (None), or to the death of all ranks (None)."""
        stage, launch = self.stage, self.launch
        stage.facts.append(
            Launched(
                at=stage.at,
                run=f"{time.strftime('%Y-%m-%dT%H-%M-%S', time.gmtime(stage.at))}_{self._profile}",
                profile=self._profile,
                command=("python3", "-m", "sglang.launch_server", *launch.flags.argv),
                knobs=stage.knobs,
                url=URL,
                sglang_version=str(launch.version),
                rehearsal=True,
            )
        )
        random = Random("1:start")
        try:
            self._before_ranks()
            started = Startup(launch, self.board, self.console, self.clock, self.forms, random).run()  # type: ignore[arg-type]
            self._warm_up()
        except EnoughError:
            return None
        except StartFailedError as error:
            failed = list(error.failed)
            random.shuffle(failed)
            for rank, text in failed:
                self.console.log(f"Scheduler hit an exception: {text}\n", rank)
            self.console.log("Received sigquit from a child process. It usually means the child failed.")
            self._end(Exited(at=stage.at + 1.0, code=None, signal="SIGKILL"))
            return None
        return started

    def serve(self, started: Started, seconds: float) -> None:
        """The rehearsal's traffic, for so many seconds."""
        launch, stage = self.launch, self.stage
        configured = cuda_graph_max_bs(launch.version, launch.settings.machine.mib, launch.knobs)
        speeds = speeds_of(launch, started.decode_sizes, configured)
        leaders = [rank for rank in launch.ranks if rank.leads]
        engine = Engine(launch, started, leaders[0], speeds, self.forms, self.console.log, self._take)
        end = stage.at + seconds
        while stage.at < end:
            engine.feed(launch.settings.traffic)
            length = engine.begin(0.25)
            self.clock.sleep(length if length is not None else 0.02)
            engine.complete()

    def stop(self) -> None:
        """An orderly end."""
        self._end(Exited(at=self.stage.at + 1.0, code=None, signal="SIGKILL", requested=True))

    def look(self) -> None:
        """One sample of the simulated driver, and one of the server's processes."""
        stage, machine = self.stage, self.launch.settings.machine
        readings = []
        for index in range(machine.gpus):
            used = self.board.memories[index].used_gib if self.alive and index < len(self.board.memories) else 0.0
            held = used + machine.idle_gib
            readings.append(
                GpuReading(
                    index=index,
                    uuid=gpu_uuid(index),
                    name=machine.name,
                    total_gib=machine.total_gib,
                    used_gib=held,
                    free_gib=machine.total_gib - machine.reserved_gib - held,
                    reserved_gib=machine.reserved_gib,
                    compute_capability="12.0",
                    util_percent=96.0 if used else 0.0,
                    power_w=410.0 if used else 32.0,
                    temperature_c=61.0 if used else 34.0,
                    processes=(GpuProcess(pid=FIRST_PID + 1 + index, used_gib=used),) if used else (),
                )
            )
        if self.serving:
            stage.facts.append(Endpoint(at=stage.at, url=URL, state="ready"))
        if self.alive:
            pids = {FIRST_PID + 1 + rank.index: scheduler_title(rank) for rank in self.launch.ranks}
            names = {str(pid): title for pid, title in pids.items()}
            stage.facts.append(ServerProcesses(at=stage.at, pids=(FIRST_PID, *pids), names=names))
        stage.facts.append(GpuSample(at=stage.at, source="rehearsal", gpus=tuple(readings), driver="rehearsal"))

    def _before_ranks(self) -> None:
        self.alive = True
        self.look()
        self.clock.sleep(IMPORT_S)
        self.console.log(self.forms.server_args(resolved_args(self.launch)))
        self.clock.sleep(SPAWN_S)

    def _warm_up(self) -> None:
        for line in ("Application startup complete.", f"Uvicorn running on {URL}"):
            self.console.log(f"INFO:     {line}")
        self.clock.sleep(WARM_UP_S)
        self.console.log("The server is fired up and ready to roll!")
        self.serving = True
        self.look()

    def _end(self, exited: Exited) -> None:
        self.alive = self.serving = False
        self.console.finish()
        self.stage.at = exited.at
        self.stage.facts.append(exited)
        self.stage.at += 2.0
        self.look()

    def _take(self, rank: Rank, gib: float) -> None:
        for memory in self.board.memories:
            memory.take(gib)


# ---------------------------------------------------------------------------------------------- the moments


def empty() -> Stage:
    """The machine, and no server."""
    stage = Stage()
    Life(stage, "kimi-k2.5-base").look()
    return stage


def loading() -> Stage:
    """The base model, most of its shards read, with the times of an earlier run to compare with."""
    stage = Stage()
    before = Stage()
    Life(before, "kimi-k2.5-base").start()
    took = next(f.elapsed_s for f in before.facts if type(f).__name__ == "WeightsEnd" and f.elapsed_s)  # type: ignore[attr-defined]
    stage.facts.append(
        Expectation(at=stage.at, run="", phases_s={Phase.WEIGHTS.value: float(took)}, total_s=before.at - NOON),
    )
    Life(stage, "kimi-k2.5-base", until=31.0 + took * 0.62).start()
    launched = next(i for i, fact in enumerate(stage.facts) if isinstance(fact, Launched))
    expectation = replace(stage.facts[0], run=stage.facts[launched].run)  # type: ignore[attr-defined]
    stage.facts.insert(launched + 1, expectation)
    return stage


def serving() -> Stage:
    """EAGLE-3 with the fraction that works, four minutes after ready."""
    stage = Stage()
    life = Life(stage, "kimi-k2.5-eagle3", {"mem-fraction-static": 0.85})
    started = life.start()
    assert started is not None
    life.serve(started, 240.0)
    return stage


def crashed() -> Stage:
    """The story: a baseline that served, then EAGLE-3 at the automatic fraction."""
    stage = Stage()
    life = Life(stage, "kimi-k2.5-base")
    started = life.start()
    assert started is not None
    life.serve(started, 120.0)
    life.stop()
    stage.at = float(int(stage.at) + 5)
    Life(stage, "kimi-k2.5-eagle3").start()
    return stage


def _utc() -> None:
    """Stamps in the log and on the screen must not depend on where the pictures are made."""
    os.environ["TZ"] = "UTC"
    time.tzset()


_utc()
MOMENTS: Sequence[str] = ("empty", "loading", "serving", "crashed")
