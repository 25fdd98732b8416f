"""A rehearsed server from its open port to its last request."""

import os
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer

from tui.rehearsal import failures
from tui.rehearsal.console import Console
from tui.rehearsal.engine import Engine
from tui.rehearsal.front import Front, bind
from tui.rehearsal.gpumemory import Board, NoRoomError
from tui.rehearsal.launch import Launch, Rank
from tui.rehearsal.logforms import LogForms
from tui.rehearsal.speeds import speeds_of
from tui.rehearsal.startup import Started, StartFailedError
from tui.sglang.tiers import cuda_graph_max_bs

_TURN_S = 0.01  # real seconds between looks at the requests
_POLL_S = 0.02
_PUBLISH_S = 1.0
_DRAIN_S = 1.5  # simulated seconds that the built-in traffic takes to leave
_SIGTERM_POLL_S = 5.0
_WARM_UP_TOKENS = 29


class Serving:
    """Engines, HTTP and built-in traffic. `stopping`: somebody asked for the end. `hung`: the watchdog's case."""

    def __init__(self, launch: Launch, started: Started, board: Board, console: Console, forms: LogForms) -> None:
        self._launch = launch
        self._board = board
        self._console = console
        self._forms = forms
        self._started = started
        configured = cuda_graph_max_bs(launch.version, launch.settings.machine.mib, launch.knobs)
        speeds = speeds_of(launch, started.decode_sizes, configured)
        self.engines = tuple(
            Engine(launch, started, rank, speeds, forms, console.log, self._take) for rank in launch.ranks if rank.leads
        )
        self.front = Front(launch, started, self.engines, console.log)
        self._http: ThreadingHTTPServer | None = None
        self.stopping = False
        self.hung = False
        self._draining = False
        self._said_at = 0.0
        self._told = 0
        self._published_at = 0.0
        self._speed = launch.settings.serving_speed

    def listen(self) -> bool:
        """uvicorn's part; False, after its words, when the port is taken."""
        host, port = str(self._launch.flags.get("host")), int(self._launch.flags.get("port"))
        for line in (f"Started server process [{os.getpid()}]", "Waiting for application startup.",
                     "Application startup complete."):  # fmt: skip
            self._info(line)
        try:
            self._http = bind(self.front, host, port)
        except OSError as error:
            self._console.log(
                f"ERROR:    [Errno {error.errno}] error while attempting to bind on address ('{host}', {port}): "
                f"{(error.strerror or '').lower()}"
            )
            self._info("Waiting for application shutdown.")
            return False
        self._info(f"Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
        return True

    def warm_up(self) -> None:
        """The server's own first request."""
        path = "/model_info" if self._launch.version.at_least(0, 5, 6) else "/get_model_info"
        self._info(f'127.0.0.1:41000 - "GET {path} HTTP/1.1" 200 OK')
        for engine in self.engines:
            line = self._forms.prefill(1, _WARM_UP_TOKENS, 0, 0.0, 0, 0, False, 18.4)
            self._console.log(line, engine.rank)
        self._info('127.0.0.1:41002 - "POST /generate HTTP/1.1" 200 OK')

    def ready(self) -> None:
        """Requests are taken from now on."""
        self._console.log("The server is fired up and ready to roll!")
        self.front.state = "ready"

    def ask_to_stop(self) -> None:
        """From a signal handler."""
        self.stopping = True

    def stand_still(self) -> None:
        """No scheduler steps any more, though the port answers."""
        for engine in self.engines:
            engine.stalled = True
        self.front.state = "starting"  # /health says 503 from now on

    def run(self, watch: Callable[[], None]) -> None:
        """Serve until everything is drained after a request to stop, or until the watchdog bites."""
        due = dict.fromkeys(self.engines, 0.0)
        now, began = 0.0, time.monotonic()
        while not (self.stopping and self._drained(now)):
            watch()
            self._scenario(now)
            if self.hung:
                return
            while (first := min(self.engines, key=due.__getitem__)) and due[first] <= now:
                length = self._turn(first)
                # Idle engines look again at the next round; the others keep the beat, however late the clock wakes.
                due[first] = due[first] + length if length is not None else now + _POLL_S * self._speed
            self._publish()
            pause = (min(due.values()) - now) / self._speed
            time.sleep(max(0.0, min(pause, _POLL_S)))
            now = (time.monotonic() - began) * self._speed

    def _turn(self, engine: Engine) -> float | None:
        """End an engine's turn and begin the next one; simulated seconds until it ends, None when there is none."""
        engine.complete()
        if not self.stopping:
            engine.feed(self._launch.settings.traffic)
        if not engine.stalled:
            self.front.stamps[engine.rank.dp] = time.time()
        return engine.begin(_TURN_S * self._speed)

    def _drained(self, now: float) -> bool:
        if not self._draining:
            self._draining = True
            self.front.state = "draining"
            self._console.log("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
            for engine in self.engines:
                engine.drain(_DRAIN_S)
            self._said_at = now
            self._tell_remaining()
        left = sum(engine.busy for engine in self.engines)
        if any(engine.stalled for engine in self.engines) and left:
            self._console.log("Signal SIGTERM received while health check failed. Force exiting.")
            return True
        if left == 0 and self._told:
            self._tell_remaining()
            return True
        if now - self._said_at > _SIGTERM_POLL_S:
            self._said_at = now
            self._tell_remaining()
        return left == 0

    def _tell_remaining(self) -> None:
        rids = [request.rid for engine in self.engines for request in (*engine.running, *engine.waiting)]
        self._told = len(rids)
        self._console.log(
            f"Gracefully exiting... Remaining number of requests {len(rids)}. Remaining requests remaining_rids={rids}."
        )

    def _scenario(self, now: float) -> None:
        """Whatever the scenario makes go wrong after a while."""
        plot = self._launch.settings.plot
        if plot.stall is None or now < plot.stall_after_s:
            return
        if plot.stall == "dp-rank":
            self.engines[-1].stalled = True
            return
        for engine in self.engines:
            engine.stalled = True
        watchdog = float(self._launch.flags.get("watchdog_timeout"))
        self.hung = now > plot.stall_after_s + watchdog / max(1.0, self._launch.settings.speed) * self._speed

    def _publish(self) -> None:
        now = time.monotonic()
        if now - self._published_at >= _PUBLISH_S:
            self._published_at = now
            self._board.publish()

    def _take(self, rank: Rank, gib: float) -> None:
        """Working memory on every GPU of this DP rank. Raises StartFailedError, as any failing scheduler does."""
        failed: list[tuple[Rank, str]] = []
        for other in self._launch.ranks:
            if other.dp != rank.dp:
                continue
            try:
                self._board[other].take(gib)
            except NoRoomError as error:
                failed.append((other, failures.runtime_oom(self._launch, error.oom)))
        self._published_at = 0.0
        if failed:
            self._board.publish()
            raise StartFailedError(failed)

    def _info(self, text: str) -> None:
        self._console.log(f"INFO:     {text}")
