"""A process that is started like `sglang serve` and behaves like it, on a machine that is not there.

`python -m tui.rehearsal.server FLAGS`, with SPECDECK_REHEARSAL in the environment (`tui.rehearsal.machine.Settings`).
Until it is ready time runs at `speed`, afterwards at `serving_speed`; stamps in the log are always the wall clock's,
only durations that lines tell (elapsed=…) are simulated seconds.
"""

import contextlib
import os
import signal
import sys
import time
from random import Random
from typing import TYPE_CHECKING, NoReturn

from tui.rehearsal import failures
from tui.rehearsal.children import Children
from tui.rehearsal.console import Clock, Console
from tui.rehearsal.flags import parse
from tui.rehearsal.gpumemory import Board, scheduler_title
from tui.rehearsal.launch import Launch
from tui.rehearsal.logforms import LogForms
from tui.rehearsal.machine import RehearsalError, settings_from
from tui.rehearsal.resolved import resolved_args
from tui.rehearsal.startup import Started, StartFailedError, Startup
from tui.sglang.versions import era, parse_version

if TYPE_CHECKING:
    from tui.rehearsal.serving import Serving

_IMPORT_S, _SPAWN_S, _WARM_UP_S = 11.0, 12.0, 3.0


class ChildGoneError(Exception):
    """A scheduler or the detokenizer ended."""

    def __init__(self, pid: int, name: str, code: int) -> None:
        super().__init__(name)
        self.pid, self.name, self.code = pid, name, code


class Server:
    """One life of a rehearsed server."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._forms = LogForms(launch.version)
        self._console = Console(self._forms)
        self._children = Children()
        self._random = Random(f"{launch.settings.seed}:start")
        self._clock = Clock(launch.settings.speed, self._watch)
        self._board = Board(launch.settings, launch.ranks)

    def run(self) -> NoReturn:
        """Start, serve, and end the process as SGLang ends."""
        launch = self._launch
        try:
            self._arguments()
            self._spawn()
            started = self._startup()
            self._serve(started)
        except StartFailedError as error:
            # The ranks' copies come as they happen to be written, each in one piece.
            failed = list(error.failed)
            self._random.shuffle(failed)
            for rank, text in failed:
                self._console.log(f"Scheduler hit an exception: {text}\n", rank)
            self._die(running=False)
        except ChildGoneError as error:
            number = int(error.name.rpartition("_")[2]) if error.name.startswith("scheduler_") else 0
            message = failures.died_at_start(launch.version, number, error.code)
            self._console.log(message)
            if launch.version.before(0, 5, 10):
                self._console.log(f"Exit code: {error.code}")
            self._console.plain(failures.main_traceback(launch.version, message))
            self._children.kill()
            sys.exit(1)

    def _arguments(self) -> None:
        launch, console = self._launch, self._console
        self._clock.sleep(_IMPORT_S)
        if launch.params is not None and launch.params.warning is not None:
            console.log(
                "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
            )
        if (
            launch.algorithm is not None
            and launch.knobs.max_running_requests is None
            and launch.version.at_least(0, 5, 4)
        ):
            console.log(
                "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly "
                "setting --max-running-requests."
            )
        console.log(self._forms.server_args(resolved_args(launch)))

    def _spawn(self) -> None:
        launch = self._launch
        if launch.dp_ranks > 1:
            self._children.start("sglang::data_parallel_controller", "data_parallel_controller")
        for rank in launch.ranks:
            pid = self._children.start(scheduler_title(rank), f"scheduler_{rank.index}")
            self._board.pids[rank.index] = pid
        self._children.start("sglang::detokenizer", "detokenizer")
        self._clock.sleep(_SPAWN_S)

    def _startup(self) -> Started:
        startup = Startup(self._launch, self._board, self._console, self._clock, self._forms, self._random)
        return startup.run()

    def _serve(self, started: Started) -> NoReturn:
        # The HTTP part takes a third of the import time, and is wanted now and not before.
        from tui.rehearsal.serving import Serving

        serving = Serving(self._launch, started, self._board, self._console, self._forms)
        timings = self._forms.startup_timings(started.seconds, started.graph_s)
        if timings is not None:
            self._console.log(timings)
        # From here on SIGTERM is answered by draining; before, it ends the process and with it the children.
        signal.signal(signal.SIGTERM, lambda *_: serving.ask_to_stop())
        signal.signal(signal.SIGINT, lambda *_: serving.ask_to_stop())
        if not serving.listen():
            self._children.kill()
            sys.exit(1)
        try:
            self._clock.sleep(_WARM_UP_S / 2)
            serving.warm_up()
            self._clock.sleep(_WARM_UP_S / 2)
            serving.ready()
            serving.run(self._watch)
        except ChildGoneError as error:
            self._child_gone(serving, error)
        except StartFailedError as error:  # out of memory while serving
            for rank, text in error.failed:
                self._console.log(f"Scheduler hit an exception: {text}\n", rank)
            self._die(running=True)
        if serving.hung:
            self._watchdog(serving)
        self._stopped(serving)

    def _watch(self) -> None:
        for pid, name, code in self._children.ended():
            raise ChildGoneError(pid, name, code)

    def _child_gone(self, serving: "Serving", error: ChildGoneError) -> NoReturn:
        """A child died while serving: found within a second since 0.5.10, never before."""
        if self._launch.version.at_least(0, 5, 10):
            self._console.log(
                f"Subprocess {error.name} (pid={error.pid}) crashed with exit code {error.code}. Triggering SIGQUIT "
                "for cleanup..."
            )
            self._die(running=True)
        serving.stand_still()
        while not serving.stopping:
            time.sleep(0.05)
            self._children.ended()
        self._console.log("Signal SIGTERM received while health check failed. Force exiting.")
        self._die(running=None)

    def _watchdog(self, serving: "Serving") -> NoReturn:
        """A scheduler that does not step: it ends itself after --watchdog-timeout seconds."""
        limit = self._launch.flags.get("watchdog_timeout")
        version = self._launch.version
        if version.at_least(0, 5, 7):
            text = f"Scheduler watchdog timeout (self.watchdog_timeout={limit}, self.soft=False)"
        else:
            text = f"Watchdog timeout (self.watchdog_timeout={limit})"
        for rank in self._launch.ranks:
            self._console.log(text, rank)
        self._clock.sleep(5.0)
        self._die(running=True)

    def _die(self, running: bool | None) -> NoReturn:
        """As a failed child ends the server: SIGQUIT to the main process, which kills its tree and itself."""
        version, pid = self._launch.version, os.getpid()
        if running is not None:
            if running and version.at_least(0, 5, 3):
                self._console.log("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
            else:
                self._console.log("Received sigquit from a child process. It usually means the child failed.")
        if version.at_least(0, 5, 13):
            self._console.log(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")
        self._kill_all()

    def _kill_all(self) -> NoReturn:
        self._children.kill()
        os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit(137)

    def _stopped(self, serving: "Serving") -> NoReturn:
        """An orderly stop: hard up to 0.5.13, uvicorn's own way out afterwards."""
        version, pid = self._launch.version, os.getpid()
        if version.before(0, 5, 14):
            if version.at_least(0, 5, 13):
                self._console.log(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")
            self._kill_all()
        self._console.log(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")
        self._children.kill()
        for line in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
            self._console.log(f"INFO:     {line}")
        self._console.log(f"INFO:     Finished server process [{pid}]")
        self._console.log(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")
        sys.stdout.flush()
        os._exit(0)  # threads that answer the last requests are not waited for


def main() -> NoReturn:
    """The command line; exits with 2 for settings or flags that make no sense."""
    try:
        settings = settings_from(os.environ)
    except RehearsalError as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        sys.exit(2)
    version = parse_version(settings.sglang_version)
    if version is None or era(version) is None:
        print(
            f"rehearsal: SGLang {settings.sglang_version!r} cannot be rehearsed; 0.4.6 or later can.", file=sys.stderr
        )
        sys.exit(2)
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of ours in a log that is to look like SGLang's
    try:
        launch = Launch(parse(sys.argv[1:], version), settings, version)
        if launch.cell.total <= 0 or launch.knobs.tp < 1:
            raise ValueError("the parallel sizes must be 1 or more")
    except ValueError as error:
        print(f"rehearsal: error: {error}", file=sys.stderr)
        sys.exit(2)
    Server(launch).run()


if __name__ == "__main__":
    main()
