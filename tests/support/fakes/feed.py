"""A feed that needs no machine, and its history, which replays into such a feed again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

from fakes.forecasts import FakeForecast
from fakes.runs import RUNS, comparison
from fakes.snapshots import replayed
from fakes.sweeps import FakeSweeps
from tui.port import FlagInfo, Place, ProfileChoice, RunComparison, RunRow, SeenServer, Told
from tui.runs.nocontrol import NoControl
from tui.snapshot import Snapshot


class FakeHistory:
    """Four runs, one of them damaged. `asked` holds what was done; `refusal` is what every change answers."""

    def __init__(self, rows: tuple[RunRow, ...] = RUNS) -> None:
        self.rows = rows
        self.asked: list[tuple[object, ...]] = []
        self.refusal: str | None = None
        self.sweeps = FakeSweeps()

    async def runs(self, limit: int | None = None) -> tuple[RunRow, ...]:
        return self.rows[:limit]

    async def details(self, name: str) -> str:
        return f"{name}\nprofile and knobs"

    def _change(self, name: str, **changes: object) -> str | None:
        if self.refusal is None:
            self.rows = tuple(replace(row, **changes) if row.name == name else row for row in self.rows)
        return self.refusal

    async def pin(self, name: str, baseline: bool) -> str | None:
        self.asked.append(("pin", name, baseline))
        return self._change(name, baseline=baseline)

    async def annotate(self, name: str, text: str) -> str | None:
        self.asked.append(("annotate", name, text))
        return self._change(name, note=text)

    async def delete(self, name: str) -> str | None:
        self.asked.append(("delete", name))
        if self.refusal is None:
            self.rows = tuple(row for row in self.rows if row.name != name)
        return self.refusal

    async def compare(self, names) -> RunComparison | str:
        self.asked.append(("compare", *names))
        return comparison() if len(names) > 1 else "Mark a second run (space), or pin one as the baseline (b)."

    def replay(self, name: str) -> "FakeFeed":
        self.asked.append(("replay", name))
        feed = FakeFeed(replace(replayed(), playback="1x, 0:00 of 18:05"), read_only=True)
        feed.playback = FakePlayback()
        return feed


class FakePlayback:
    """Writes down what was asked of it."""

    places = (Place(at_s=2.0, kind="phase", name="loading weights"), Place(at_s=400.0, kind="crash", name="traceback"))

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.paused, self.speed = False, 1.0

    def pause(self, paused: bool | None = None) -> bool:
        self.paused = not self.paused if paused is None else paused
        self.asked.append("pause")
        return self.paused

    def faster(self, factor: float) -> float:
        self.speed *= factor
        return self.speed

    async def step(self, forward: bool = True) -> None:
        self.asked.append(("step", forward))

    async def seek(self, where: str) -> str | None:
        self.asked.append(("seek", where))
        return None if where != "nowhere" else "No 'nowhere' in this recording."

    async def jump(self, forward: bool = True) -> str | None:
        self.asked.append(("jump", forward))
        return "loading weights" if forward else None


class FakeFeed(NoControl):
    """Gives its snapshot once, then whatever `push` gives it. Control calls are recorded in `asked`."""

    def __init__(self, snapshot: Snapshot, forecast: FakeForecast | None = None, read_only: bool = False) -> None:
        self.snapshot = snapshot
        self.log = None
        self.read_only = read_only
        self.greeting = ""
        self.caption = ""
        self.leaving = "The server stays."
        self.history = FakeHistory()
        self.playback = None
        self.asked: list[tuple[object, ...]] = []
        self.next_forecast = forecast
        self.findings: tuple[object, ...] = ()
        self.survivors: tuple[str, ...] = ()
        self.servers: tuple[SeenServer, ...] = ()
        self.earlier: str | None = "2026-11-29T03-00-00_kimi-k2.5-base"
        self.owner = ""
        self.going_on = asyncio.Event()  # cleared by a test, control stands still between two steps
        self.going_on.set()
        self.failure: Exception | None = None
        self._sink: Callable[[Snapshot], None] | None = None

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        if self.failure is not None:
            raise self.failure
        self._sink = on_snapshot
        on_snapshot(self.snapshot)
        await asyncio.Event().wait()

    def push(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        if self._sink is not None:
            self._sink(snapshot)

    def profiles(self) -> tuple[ProfileChoice, ...]:
        return (
            ProfileChoice("kimi-base", "profiles/kimi-base.toml", "Kimi-K2.5 INT4, tensor parallel 8, no speculation"),
            ProfileChoice("kimi-eagle3", "profiles/kimi-eagle3.toml", "the same with an EAGLE-3 draft"),
            ProfileChoice("broken", "profiles/broken.toml", "", "knob speculative-algo is not known to SGLang 0.5.9"),
        )

    def flags(self) -> tuple[FlagInfo, ...]:
        return (
            FlagInfo("mem-fraction-static", "float", default=None, help="Share of memory for weights and KV cache."),
            FlagInfo("cuda-graph-max-bs", "int", default=512, help="Largest batch size to capture."),
            FlagInfo("speculative-algorithm", "str", ("EAGLE", "EAGLE3", "NGRAM", "STANDALONE")),
            FlagInfo("speculative-num-steps", "int"),
        )

    async def forecast(self, knobs: Mapping[str, object]) -> FakeForecast | None:
        self.asked.append(("forecast", dict(knobs)))
        return self.next_forecast

    async def forecast_launch(self, profile: str, knobs: Mapping[str, object]) -> FakeForecast | None:
        return self.next_forecast

    async def preflight(self, profile: str | None, knobs: Mapping[str, object]) -> tuple[object, ...]:
        return self.findings

    async def command(self, knobs: Mapping[str, object]) -> str:
        return "python3 -m sglang.launch_server" + "".join(f" --{name} {value}" for name, value in knobs.items())

    async def save_profile(self, name: str, knobs: Mapping[str, object]) -> str:
        self.asked.append(("save", name, dict(knobs)))
        return f"profiles/{name}.toml"

    async def launch(self, profile: str, knobs: Mapping[str, object]) -> str | None:
        self.asked.append(("launch", profile, dict(knobs)))
        return None

    async def stop(self, grace_s: float) -> AsyncIterator[Told]:
        self.asked.append(("stop", grace_s))
        yield Told("SIGTERM sent, waiting 10 s", "waiting", 10.0)
        await self.going_on.wait()
        for problem in self.survivors:
            yield Told(problem, "problem", ok=False)
        yield Told("stopped, memory released", "done", ok=not self.survivors)

    async def kill(self) -> str | None:
        self.asked.append(("kill",))
        self.going_on.set()
        return None

    async def restart(self, knobs: Mapping[str, object]) -> AsyncIterator[Told]:
        self.asked.append(("restart", dict(knobs)))
        yield Told("stopping")
        await self.going_on.wait()
        yield Told("stopped")
        self.asked.append(("relaunched",))
        yield Told("launched", "done")

    async def back_to(self) -> str | None:
        return self.earlier

    async def go_back(self) -> AsyncIterator[Told]:
        self.asked.append(("go back",))
        yield Told("back to the run before", "done")

    async def discover(self) -> tuple[SeenServer, ...]:
        return self.servers

    async def attach(self, pid: int) -> str | None:
        self.asked.append(("attach", pid))
        return None

    async def adopt(self, pid: int) -> str | None:
        self.asked.append(("adopt", pid))
        return None
