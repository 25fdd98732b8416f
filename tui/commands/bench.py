"""Drive the running server with fixed workloads and keep what came of it in its run. Ctrl-C leaves the server well."""

import argparse
import json
import sys
import time

PROGRESS_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run by name; by default the server that runs")
    parser.add_argument(
        "--bench",
        default="decode",
        metavar="NAMES",
        help="decode-1, decode-8, decode-32, prefill; or decode, quick, all",
    )
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="answers X times as long")
    parser.add_argument(
        "--engine",
        choices=("auto", "sglang", "specdeck"),
        default="auto",
        help="SGLang's bench_serving or a simple client",
    )
    parser.add_argument("--json", action="store_true", help="the results as JSON")


def run(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tui.commands.benching import Bench
    from tui.commands.common import run_named
    from tui.commands.watchedrun import WatchedRun
    from tui.feed.place import place_of
    from tui.runs.benches import BenchError, workloads
    from tui.runs.store import RunStore

    chosen = workloads(options.bench, options.scale)
    found = run_named(RunStore(), options.run)
    if not found.alive:
        raise BenchError(f"{found.name} is not running: start it first, `specdeck run {found.profile}`.")
    show = None if options.json or not sys.stderr.isatty() else _Progress()
    bench = Bench(found, options.engine, _quiet if options.json else print, show)
    with WatchedRun(found, place_of(found)):
        results = bench.run(chosen)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    return 0 if all(result.failed == 0 for result in results) else 1


class _Progress:
    """A line every few seconds."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def __call__(self, text: str) -> None:
        if time.monotonic() - self._at >= PROGRESS_S:
            self._at = time.monotonic()
            print(text, file=sys.stderr, flush=True)


def _quiet(text: str) -> None:
    """Nothing but the JSON."""
