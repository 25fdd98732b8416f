"""Two or more runs side by side: knobs, memory, throughput at equal batch size, and whether speculation pays."""

import argparse
import json
import shutil
import sys

from tui.errors import SpecdeckError


class CompareError(SpecdeckError):
    """Runs that cannot be compared."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="by the beginning of the name; one alone is compared with the baseline"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tui.runs import listing, summaries
    from tui.runs.comparing import LETTERS, compare, text_lines
    from tui.runs.store import RunStore

    store = RunStore()
    found = []
    for one in {run.name: run for run in map(store.find, options.runs)}.values():
        summary = summaries.ensure(one)
        if summary is None:
            raise CompareError(f"{one.name} cannot be compared: {one.damaged or 'its log cannot be read'}.")
        found.append(summary)
    if len(found) == 1:
        pinned = listing.baseline(store, found[0].model)
        if pinned is None or pinned.run == found[0].run:
            raise CompareError("Name two runs, or pin one as the baseline: `specdeck runs RUN --baseline`.")
        found.insert(0, pinned)
    if len(found) > len(LETTERS):
        raise CompareError(f"{len(found)} runs are too many to stand side by side: name fewer.")
    comparison = compare(found)
    if options.json:
        print(json.dumps(asdict(comparison), indent=1))
        return 0
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    print("\n".join(text_lines(comparison, min(120, shutil.get_terminal_size((80, 24)).columns), ascii_only)))
    return 0
