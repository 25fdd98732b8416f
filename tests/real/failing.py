"""Launches of the real SGLang that fail, watched as a dashboard watches them: `python tests/real/failing.py`.

Each is launched, named by the screen model, and ended. A table tells how long after its deciding line was written to
the log each was named. The exit status is 1 when one was named wrongly. `tests/real/test_doctor_real.py` does the same.
"""

import argparse
import asyncio
import contextlib
import http.server
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import layout
import product
import serving

from tui.facts import Verdict
from tui.feed.live import LiveFeed
from tui.feed.place import RealPlace
from tui.feed.targets import Target, of_run
from tui.runs.store import Run
from tui.snapshot import ENDED, Snapshot

LIMIT_S = 300.0
# Looks at a file a thousand times a second, in a process of its own, and tells of each growth its time and size.
WITNESS = """
import os, sys, time
path, size = sys.argv[1], -1
while True:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None
    if found is not None and found.st_size != size:
        size = found.st_size
        print(min(time.time(), found.st_mtime), size, flush=True)
    time.sleep(0.001)
"""
Meanwhile = Callable[[Run], AbstractContextManager[object]]


@contextlib.contextmanager
def nothing(run: Run) -> Iterator[None]:
    """Nothing but the launch."""
    yield


def loading(run: Run) -> None:
    """Wait until the weights are loaded: the port was looked at long ago, and is bound much later."""
    product.until(lambda: run.log.exists() and "Load weight begin" in run.log.read_text(), LIMIT_S, "loading")


@contextlib.contextmanager
def silent_listener(run: Run) -> Iterator[None]:
    """Somebody takes the port while the server loads, and never answers."""
    loading(run)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", run.port))
        listener.listen()
        yield


class _NotFound(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing is written to the terminal."""


@contextlib.contextmanager
def web_server(run: Run) -> Iterator[None]:
    """Some web server takes the port while the server loads."""
    loading(run)
    with http.server.ThreadingHTTPServer(("127.0.0.1", run.port or 0), _NotFound) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def killed_scheduler(run: Run) -> Iterator[None]:
    """The process that computes is killed from outside."""
    scheduler = product.scheduler_of(run)
    scheduler.send_signal(signal.SIGKILL)
    yield


@dataclass(frozen=True, slots=True)
class Way:
    """A way to fail. `deciding`: what the line says that holds the cause; `lasts`: it does not end by itself soon.

    `rival`: another SGLang was launched just before on the same port.
    """

    name: str
    kind: str
    deciding: str
    title: str = ""
    profile: str = "tiny-plain"
    knobs: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    meanwhile: Meanwhile = nothing
    lasts: bool = False
    rival: bool = False


def ways() -> tuple[Way, ...]:
    """Every way in which a launch is made to fail here."""
    models, bind = layout.models_dir(), r"\[Errno 98\]"
    wrong, shapes = str(models / "tiny-draft"), "mat1 and mat2 shapes cannot be multiplied"
    return (
        Way("bad flag", "bad-flag", "error: unrecognized arguments", knobs={"no-such-flag": True}),
        Way("model missing", "model-missing", "^OSError: ", knobs={"model-path": str(models / "not-there")}),
        Way("port, silent listener", "port-in-use", bind, meanwhile=silent_listener, lasts=True),
        Way("port, web server", "port-in-use", bind, meanwhile=web_server, lasts=True),
        Way("port, another SGLang", "port-in-use", bind, rival=True, lasts=True),
        Way("wrong draft", "draft-mismatch", "^AttributeError: ", profile="tiny-eagle3",
            knobs={"speculative-draft-model-path": wrong}),
        Way("tiny pool", "kv-exhausted", "exceeds the maximum allowed length", knobs={"max-total-tokens": 10}),
        Way("scheduler exception", "unknown", f"^RuntimeError: {shapes}", title=shapes,
            env={"PYTHONPATH": str(layout.HERE / "broken")}),
    )  # fmt: skip


BUDGET = Way(
    "budget refused", "weights-over-budget", "leave no GPU memory for the KV cache", knobs={"mem-fraction-static": 1e-4}
)
KILLED = Way(
    "killed scheduler", "unknown", "crashed with exit code -9", title="was killed from outside (SIGKILL)",
    meanwhile=killed_scheduler,
)  # fmt: skip


@dataclass(slots=True)
class Named:
    """How a failure was named. `kinds`: of all verdicts in their order; `after_s`: since the deciding line."""

    way: str
    run: str
    kinds: list[str]
    verdict: Verdict
    after_s: float
    launch_s: float

    def wrong(self, way: Way) -> list[str]:
        """What is wrong with it, in words."""
        found = [f"it was named {kind}" for kind in self.kinds if kind != way.kind]
        if way.title not in self.verdict.title:
            found.append(f"its title is {self.verdict.title!r}")
        return found


class Watching:
    """A feed and every picture that it draws, with the time at which it was there."""

    def __init__(self, deck: product.Specdeck, target: Target | None = None) -> None:
        self.feed = LiveFeed(RealPlace(), deck.store, target)
        self.seen: list[tuple[float, Snapshot]] = []

    async def until(self, enough: Callable[[Snapshot], bool], what: str) -> tuple[float, Snapshot]:
        """The first picture, of those from now on and the last one, that is `enough`."""
        at, end = max(0, len(self.seen) - 1), time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            for pair in self.seen[at:]:
                if enough(pair[1]):
                    return pair
            at = len(self.seen)
            await asyncio.sleep(0.02)
        raise AssertionError(f"{what}: not within {LIMIT_S:.0f} s; the last picture: {self.seen[-1:]}")


@contextlib.asynccontextmanager
async def watching(deck: product.Specdeck, target: Target | None = None) -> AsyncIterator[Watching]:
    """A dashboard without a screen."""
    found = Watching(deck, target)
    task = asyncio.create_task(found.feed.run(lambda shot: found.seen.append((time.time(), shot))))
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.contextmanager
def witness(log: Path) -> Iterator[Callable[[int], float]]:
    """Remembers when a file grew: the function answers when the byte at an offset was there."""
    with subprocess.Popen([sys.executable, "-c", WITNESS, str(log)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        grown: list[tuple[float, int]] = []

        def read() -> None:
            for line in process.stdout or ():
                at, size = line.split()
                grown.append((float(at), int(size)))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()

        def written(offset: int) -> float:
            return next(at for at, size in list(grown) if size > offset)

        try:
            yield written
        finally:
            process.kill()
            thread.join()


@contextlib.contextmanager
def rival(port: int, log: Path) -> Iterator[None]:
    """Another SGLang that will have the port first: it is loading its weights already."""
    with serving.launched(serving.command("tiny-plain", {"port": port}), log) as server:
        server.wait_for_line("Load weight begin", LIMIT_S)
        yield


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """The operator's environment with these variables, from which a launched server has its own."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def fail(deck: product.Specdeck, way: Way) -> Named:
    """Launch as the dashboard does, wait until the failure is named, and end what does not end by itself."""
    port = serving.free_port()
    deck.state.mkdir(exist_ok=True)
    with rival(port, deck.state / "rival.log") if way.rival else contextlib.nullcontext():
        async with watching(deck) as screen:
            with environment(way.env):
                profile = str(layout.PROFILES / f"{way.profile}.toml")
                problem = await screen.feed.launch(profile, {"port": port, **way.knobs})
            assert problem is None, problem
            run = screen.feed.run_now
            assert run is not None
            return await name(screen, way, run)


async def name(screen: Watching, way: Way, run: Run) -> Named:
    """How the failure of a run that is watched, and running, is named."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        written = stack.enter_context(witness(run.log))
        await asyncio.to_thread(stack.enter_context, way.meanwhile(run))
        at, _ = await screen.until(
            lambda shot: shot.run == run.name and shot.verdict is not None and shot.verdict.kind == way.kind,
            f"{way.name}: a verdict",
        )
        took = time.monotonic() - began
        if way.lasts:
            problem = await screen.feed.kill()
            assert problem is None or screen.feed.snapshot.state in ENDED, problem
        # What is told at its end must still be the cause.
        _, last = await screen.until(lambda shot: shot.run == run.name and shot.state in ENDED, f"{way.name}: its end")
        text = run.log.read_bytes()
        match = re.search(way.deciding.encode(), text, re.MULTILINE)
        assert match is not None, f"{way.name}: the log never said {way.deciding!r}"
        line_at = written(text.index(b"\n", match.end()))
    verdicts = [shot.verdict for _, shot in screen.seen if shot.run == run.name and shot.verdict is not None]
    kinds = list(dict.fromkeys(verdict.kind for verdict in verdicts))
    assert last.verdict is not None
    return Named(way.name, run.name, kinds, last.verdict, at - line_at, took)


async def kill_the_scheduler(deck: product.Specdeck, run: Run) -> Named:
    """How the end of a serving run's scheduler is named."""
    async with watching(deck, of_run(run)) as screen:
        await screen.until(lambda shot: shot.run == run.name and shot.endpoint == "ready", "a serving server")
        return await name(screen, KILLED, run)


def mend(deck: product.Specdeck, run: Run) -> Run:
    """On the screen of a failed run: `a` takes the card's fix, `R` launches with it, until it serves. The new run."""
    with product.Dashboard(deck, "--run", run.name) as screen:
        screen.shows("apply")
        screen.press("a")
        screen.shows("R launches with it")
        screen.press("R")
        screen.shows("Launch it again?")
        screen.press("y")
        screen.shows("● serving", limit_s=product.READY_LIMIT_S)
        screen.press("q")
        screen.wait()
    return deck.last()


def table(rows: list[Named]) -> str:
    """How long each took, and the median."""
    lines = [f"{'failure':<24}{'named after':>12}{'launch to name':>16}  verdict"]
    for row in rows:
        milliseconds = f"{row.after_s * 1000:.0f} ms"
        lines.append(f"{row.way:<24}{milliseconds:>12}{row.launch_s:>14.1f} s  {row.verdict.kind}: {row.verdict.title}")
    return "\n".join([*lines, f"median {statistics.median(row.after_s for row in rows) * 1000:.0f} ms"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of failures, such as 'bad flag'; without it all")
    options = parser.parse_args()
    rows, wrong = [], []

    def tell(way: Way, work: Coroutine[Any, Any, Named]) -> Named | None:
        try:
            named = asyncio.run(work)
        except AssertionError as error:
            wrong.append(f"{way.name}: {error}")
            return None
        rows.append(named)
        print(table(rows).splitlines()[-2], flush=True)
        wrong.extend(f"{way.name}: {words}" for words in named.wrong(way))
        return named

    with tempfile.TemporaryDirectory() as folder, product.Specdeck(Path(folder) / "state") as deck:
        for way in ways():
            if not options.only or way.name in options.only:
                tell(way, fail(deck, way))
        if not options.only or BUDGET.name in options.only:
            refused = tell(BUDGET, fail(deck, BUDGET))
            if refused is not None:
                tell(KILLED, kill_the_scheduler(deck, mend(deck, deck.store.load(refused.run))))
    print(table(rows).splitlines()[-1] if rows else "Nothing was named.")
    print("\n".join(wrong) or "All were named rightly.")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
