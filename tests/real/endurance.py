"""Dashboards that die and servers that are stopped, on the real SGLang: `python tests/real/endurance.py`.

Every round launches a server from a dashboard, kills dashboards (SIGKILL) and hangs them up (SIGHUP) at random moments
of launch and serving, and then stops the server in one of seven situations. A table with times is printed; the exit
status is 1 when a server died with a dashboard, or a stop left anything behind.
"""

import argparse
import os
import random
import signal
import socket
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import layout
import product
import psutil
import serving

from tui.facts import Exited, Launched, LogTail
from tui.procid import alive
from tui.runs import recording
from tui.runs.store import Run
from tui.server import leftovers, ports

GRACE_S = 20


@dataclass(slots=True)
class Round:
    """What one launch came to. `lost`: servers that died with a dashboard, `left`: what a stop left behind."""

    kind: str
    ready_s: float | None = None
    stop_s: float | None = None
    kills: int = 0
    hangups: int = 0
    lost: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def worker(run: Run, title: str) -> psutil.Process:
    """The process of the server whose title begins so."""
    found = [psutil.Process(process.pid) for process in product.tree_of(run)]
    return next(process for process in found if "".join(process.cmdline()[:1]).startswith(title))


def profile(kind: str, port: int, folder: Path) -> str:
    """A profile file for one round."""
    name = "tiny-plain" if kind in ("dp-rank", "port-held") else random.choice(("tiny-plain", "tiny-eagle3"))
    text = (layout.PROFILES / f"{name}.toml").read_text()
    text = text.replace("port = 30000", f"port = {port}").replace('cwd = ".."', f'cwd = "{layout.ROOT}"')
    if kind == "dp-rank":
        text = text.replace("[knobs]", "[knobs]\ndp-size = 2")
        text = text.replace("[env]", '[env]\nSGLANG_CPU_OMP_THREADS_BIND = "0|1"')
    path = folder / "round.toml"
    path.write_text(text)
    return str(path)


def lose(deck: product.Specdeck, told: Round, run: Run, dashboard: product.Dashboard, hang_up: bool, when: str) -> None:
    """End a dashboard in one of the two ways; the server must not notice."""
    time.sleep(random.uniform(0.0, 3.0))
    if hang_up:
        dashboard.hang_up()
        told.hangups += 1
    else:
        dashboard.signal(signal.SIGKILL)
        told.kills += 1
    time.sleep(0.3)
    if not alive(run.server) or not alive(run.keeper):
        told.lost.append(f"{when}: the {'keeper' if alive(run.server) else 'server'} died")
    seen = deck.status(run.name)
    if (seen["run"], seen["state"] in ("starting", "running")) != (run.name, True):
        told.lost.append(f"{when}: the next look says {seen['state']}")


def spoil(kind: str, run: Run, stack: ExitStack) -> None:
    """Bring the server into the situation in which it is stopped."""
    if kind == "streaming":
        stack.enter_context(product.stream(run.url or "", 300))
    elif kind == "scheduler":
        worker(run, "sglang::scheduler").kill()
    elif kind == "detokenizer":
        worker(run, "sglang::detokenizer").kill()
        time.sleep(1)
    elif kind == "dp-rank":
        worker(run, "sglang::scheduler_DP1").kill()
        time.sleep(1)


def check_recording(run: Run) -> list[str]:
    """One launch, one end, and every line of the log accounted for, however many dashboards wrote it."""
    if recording.path_of(run.path) is None:
        return ["nothing was recorded"]
    found = [each.entry for each in recording.read(run.path)]
    counts = {cls.__name__: sum(isinstance(fact, cls) for fact in found) for cls in (Launched, Exited)}
    wrong = [f"{count} {name} facts are recorded" for name, count in counts.items() if count != 1]
    tails = [fact.lines for fact in found if isinstance(fact, LogTail)]
    if tails != sorted(tails):
        wrong.append("log lines are recorded twice")
    if not tails or tails[-1] < run.log.read_bytes().count(b"\n"):
        wrong.append(f"{tails[-1] if tails else 0} log lines are recorded")
    return wrong


def stop(deck: product.Specdeck, told: Round, run: Run, port: int, allowed: str | None) -> None:
    """`specdeck stop`, timed, with a dashboard watching; then the proof by other means than its own."""
    tree = product.tree_of(run)
    held = leftovers.held_files(process.pid for process in tree)
    with product.Dashboard(deck, "--read-only", "--run", run.name) as witness:
        witness.shows(run.profile)
        began = time.monotonic()
        done = deck.run("stop", run.name, "--yes", "--grace", str(GRACE_S), limit_s=180)
        told.stop_s = time.monotonic() - began
        if done.returncode != 0 and (allowed is None or allowed not in done.stdout):
            told.left.append((done.stdout + done.stderr).strip().splitlines()[-1])
        time.sleep(2)
        witness.press("q")
        witness.wait()
    told.left += [f"process {pid}" for pid in product.in_session(run.server.pid if run.server else -1)]
    told.left += [f"process {process.pid}" for process in tree if alive(process)]
    told.left += [path for path in held if os.path.exists(path)]
    if allowed is None and not ports.is_free("127.0.0.1", port):
        told.left.append(f"port {port}")
    told.left += check_recording(run)


def one_round(deck: product.Specdeck, kind: str, losses: int) -> Round:
    told, port = Round(kind), serving.free_port()
    began = time.monotonic()
    known = {run.name for run in deck.store.runs()}
    with ExitStack() as stack:
        first = stack.enter_context(product.Dashboard(deck, profile(kind, port, deck.state)))

        def started() -> Run | None:
            new = [run for run in deck.store.active() if run.name not in known and run.server is not None]
            return new[0] if new else None

        run = product.until(started, 60, "a run")
        lose(deck, told, run, first, random.random() < 0.5, "launch")
        lose(deck, told, run, stack.enter_context(product.Dashboard(deck)), random.random() < 0.5, "launch")
        allowed = None
        if kind == "loading":
            product.until(lambda: "server_args=" in run.log.read_text(), 120, "server_args")
        elif kind == "port-held":
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", port))
            listener.listen()
            product.until(lambda: "already in use" in run.log.read_text(), product.READY_LIMIT_S, "its bind")
            allowed = f"ort {port} is held by"
        else:
            for hang_up in (False, True) * losses:
                watching = stack.enter_context(product.Dashboard(deck))
                watching.shows("● serving", limit_s=product.READY_LIMIT_S)
                told.ready_s = told.ready_s or time.monotonic() - began
                lose(deck, told, run, watching, hang_up, "serving")
        spoil(kind, run, stack)
        stop(deck, told, deck.store.load(run.name), port, allowed)
    return told


KINDS = ("idle", "streaming", "loading", "scheduler", "detokenizer", "dp-rank", "port-held")


def row(*cells: object) -> None:
    print("".join(f"{'–' if cell is None else cell!s:<13}" for cell in cells).rstrip(), flush=True)


def seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=21, help="servers to launch and stop (default 21)")
    parser.add_argument("--kills", type=int, default=20, help="fail unless so many dashboards were killed, and hung up")
    parser.add_argument("--losses", type=int, default=1, help="kills and hangups of each serving server (default 1)")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS, help="situations, in turn")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no round after so many minutes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    end = time.monotonic() + 60 * options.minutes
    rounds: list[Round] = []
    row("stop while", "ready after", "stop took", "killed", "hung up", "result")
    with tempfile.TemporaryDirectory() as folder, product.Specdeck(Path(folder)) as deck:
        for number in range(options.stops):
            if time.monotonic() > end:
                break
            told = one_round(deck, options.kinds[number % len(options.kinds)], options.losses)
            rounds.append(told)
            result = "; ".join(told.lost + told.left) or "clean"
            row(told.kind, seconds(told.ready_s), seconds(told.stop_s), told.kills, told.hangups, result)
    kills, hangups = sum(each.kills for each in rounds), sum(each.hangups for each in rounds)
    lost, left = sum(bool(each.lost) for each in rounds), sum(bool(each.left) for each in rounds)
    print(f"{kills} dashboards killed, {hangups} hung up: in {lost} rounds something was lost.")
    print(f"{len(rounds)} stops, {left} of them not clean.")
    return int(bool(lost or left or min(kills, hangups) < options.kills))


if __name__ == "__main__":
    raise SystemExit(main())
