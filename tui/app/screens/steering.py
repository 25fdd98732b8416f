"""What the dashboard's keys do to a server: launch, stop, kill, restart, go back, watch another, take one over."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

from tui.app.text import escape
from tui.port import Feed, Told
from tui.snapshot import Snapshot, State

ALIVE = (State.STARTING, State.RUNNING, State.STOPPING)
CONTROL = frozenset({"launch", "restart", "stop", "kill", "go_back", "apply_fix", "undo", "redo", "save", "find_flag"})
GRACE_S = 10.0
LOOK_AGAIN_S = 10.0


class Steering:
    """Mixed into the dashboard's screen, whose methods it uses."""

    _feed: Feed
    _snapshot: Snapshot
    _pending: dict[str, object]
    app: Any
    run_worker: Any
    say: Any
    draw: Any

    _busy = ""  # "stop", "restart" or "launch" while its steps are told
    _cancel = False  # nothing after the present step is to be done
    can_go_back = False  # whether an earlier run reached ready, looked up when a launch has failed
    found_servers = ""  # what the empty state says of servers that others started

    # ---- launch

    def action_launch(self) -> None:
        from tui.app.screens.dialog import LaunchDialog

        if self._said_busy():
            return
        if self._snapshot.state in ALIVE:
            self.say("A server is there already: S stops it, R restarts it with the changed knobs.", "warning")
            return
        dialog = LaunchDialog(self._feed, self._snapshot, self._pending)
        self.app.push_screen(dialog, lambda profile: self._launch(profile, dialog.pending))

    def _launch(self, profile: str | None, pending: dict[str, object]) -> None:
        if profile:
            self.run_worker(partial(self._launching, profile, pending), group="control", exclusive=True)

    async def _launching(self, profile: str, pending: dict[str, object]) -> None:
        self.say(f"launching {profile}…", seconds=None)
        try:
            problem = await self._feed.launch(profile, pending)
        except Exception as error:
            problem = f"{profile} could not be launched: {error}"
        self.say(problem or f"{profile} is starting.", "error" if problem else "information", 20.0 if problem else 6.0)

    def action_go_back(self) -> None:
        if self._said_busy():
            return
        if self._snapshot.state in ALIVE:
            self.say("A server is there: R restarts it, S stops it; B goes back after a failed launch.", "warning")
            return
        self._tell(self._feed.go_back(), "launch")

    async def look_back(self) -> None:
        """Whether there is anything to go back to."""
        try:
            found = await self._feed.back_to() is not None
        except Exception:
            return
        if found != self.can_go_back:
            self.can_go_back = found
            self.draw()

    # ---- stop and restart

    def action_stop(self) -> None:
        from tui.app.screens.dialog import StopDialog

        if self._said_busy():
            return
        if problem := self._not_ours():
            self.say(problem, "warning")
            return
        self.app.push_screen(StopDialog(self._snapshot, GRACE_S), self._stop)

    def _stop(self, yes: bool | None) -> None:
        if yes:
            self._tell(self._feed.stop(GRACE_S), "stop")

    def action_kill(self) -> None:
        if not self._busy and self._snapshot.state is not State.STOPPING:
            self.say("K kills a server that is stopping; S stops it.")
            return
        self.run_worker(self._killing, group="kill", exclusive=True)

    async def _killing(self) -> None:
        self.say("SIGKILL to what is left…", "warning", None)
        problem = await self._feed.kill()
        if problem:
            self.say(problem, "error", 20.0)

    def action_restart(self) -> None:
        from tui.app.screens.dialog import RestartDialog

        if self._said_busy():
            return
        if self._snapshot.run is None and (problem := self._not_ours()):
            self.say(problem, "warning")
            return
        self.app.push_screen(RestartDialog(self._feed, self._snapshot, self._pending), self._restart)

    def _restart(self, pending: dict[str, object] | None) -> None:
        if pending is not None:
            self._tell(self._feed.restart(pending), "restart")

    def _not_ours(self) -> str:
        """Why this server cannot be controlled from here, or nothing."""
        if self._snapshot.state not in ALIVE and self._snapshot.state is not State.UNKNOWN:
            return "No server is running. L launches one."
        if not self._snapshot.controlled:
            return "This server was not launched by specdeck: it is watched, not controlled. D can take it over."
        return ""

    def cancel_sequence(self) -> bool:
        """Do nothing after the present step of a restart; whether there is one."""
        if self._busy != "restart" or self._cancel:
            return False
        self._cancel = True
        self.say("Cancelled after this step: what is asked to stop still stops, nothing is launched.", "warning", None)
        return True

    def _said_busy(self) -> bool:
        """Whether something is done to the server already; then it is said what can be done meanwhile."""
        words = {
            "stop": "It is being stopped already: K kills what is left now.",
            "restart": "It is being restarted already: esc leaves it at the stop, K kills what is left now.",
            "launch": "A launch has begun already.",
        }
        if self._busy:
            self.say(words[self._busy], "warning")
        return bool(self._busy)

    def _tell(self, steps: AsyncIterator[Told], what: str) -> None:
        if self._said_busy():
            return
        self._busy, self._cancel = what, False
        self.run_worker(partial(self._telling, steps), group="control")

    async def _telling(self, steps: Any) -> None:
        problems: list[str] = []
        last: Any = Told("")
        try:
            async with aclosing(steps):
                async for last in steps:
                    if last.kind == "problem":
                        problems.append(last)
                    if self._cancel and last.kind != "done":
                        last = Told("Cancelled: nothing is launched. What was asked to stop stops by itself.", "done")
                        break
                    self.say(last + self._hint(last), "information" if last.ok else "error", None)
        except Exception as error:
            last = Told(str(error) or type(error).__name__, "done", ok=False)
        finally:
            self._busy = ""
        self.say(last, "information" if last.ok else "error", 8.0 if last.ok else 20.0)
        if problems:
            from tui.app.screens.reader import Reader, plain_lines

            self.app.push_screen(Reader("What is left", plain_lines("\n".join(map(escape, [*problems, "", last])))))

    def _hint(self, step: Told) -> str:
        if step.kind != "waiting":
            return ""
        return "  K kills now" + (", esc: no launch" if self._busy == "restart" else "")

    # ---- servers that others started

    async def look_for_servers(self) -> None:
        """While nothing is watched: whether something could be."""
        if self._snapshot.run is not None or self._snapshot.url is not None or self._feed.log is not None:
            self.found_servers = ""
            return
        try:
            found = await self._feed.discover()
        except Exception:
            return
        words = f"{len(found)} SGLang servers run" if len(found) > 1 else "An SGLang server runs"
        where = ", ".join(f"{server.url} (process {server.pid})" for server in found[:2])
        told = f"{words} here: {where}. D watches or takes over." if found else ""
        if told != self.found_servers:
            self.found_servers = told
            self.draw()

    def action_servers(self) -> None:
        from tui.app.screens.servers import ServersScreen

        self.app.push_screen(ServersScreen(self._feed), self._chosen_server)

    def _chosen_server(self, chosen: Any) -> None:
        from tui.app.screens.dialog import ConfirmDialog
        from tui.app.screens.servers import adoption_words

        if chosen is None:
            return
        what, server = chosen
        if what == "watch":
            self.run_worker(partial(self._watching, server.pid, adopt=False), group="control", exclusive=True)
            return
        self.app.push_screen(
            ConfirmDialog("Take this server over?", adoption_words(server), "Take over"),
            lambda yes: self._take_over(server.pid) if yes else None,
        )

    def _take_over(self, pid: int) -> None:
        self.run_worker(partial(self._watching, pid, adopt=True), group="control", exclusive=True)

    async def _watching(self, pid: int, adopt: bool) -> None:
        problem = await (self._feed.adopt(pid) if adopt else self._feed.attach(pid))
        done = "taken over: S stops it, R restarts it." if adopt else "watched; D takes it over."
        self.say(problem or f"Process {pid} is {done}", "error" if problem else "information", 10.0)
