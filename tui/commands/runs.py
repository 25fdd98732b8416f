"""The history: what was tried and what came of it. Without a run it lists them all."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError


class RunsError(SpecdeckError):
    """A question about the history that makes no sense."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="one run, by the beginning of its name or its profile")
    parser.add_argument(
        "--sort", default="time", metavar="KEY", help="time, profile, outcome, ready, tokens, free, speed"
    )
    parser.add_argument("--reverse", action="store_true", help="the other way round")
    parser.add_argument("--filter", default="", metavar="WORDS", help="only runs in which all these words are found")
    parser.add_argument("--limit", type=int, metavar="N", help="only the newest N")
    parser.add_argument("--json", action="store_true", help="as JSON")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--delete", action="store_true", help="remove RUN for good")
    what.add_argument("--baseline", action="store_true", help="pin RUN: others are compared with it")
    what.add_argument("--no-baseline", action="store_true", help="unpin RUN")
    what.add_argument("--note", metavar="TEXT", help="a note of yours on RUN; an empty one removes it")
    what.add_argument("--export", metavar="FILE", help="RUN as one file for a colleague, secrets masked")
    what.add_argument("--import", dest="bring_in", metavar="FILE", help="add a run that somebody exported")
    parser.add_argument("--yes", action="store_true", help="delete without asking")


def run(options: argparse.Namespace) -> int:
    from tui.runs.store import RunStore

    store = RunStore()
    if options.bring_in is not None:
        from tui.runs.archive import bring_in

        print(f"Added {bring_in(Path(options.bring_in), store).name}.")
        return 0
    if options.run is None:
        if options.delete or options.baseline or options.no_baseline or options.note is not None or options.export:
            raise RunsError("Name the run: `specdeck runs RUN …`; `specdeck runs` lists them.")
        return _list(store, options)
    return _one(store, store.find(options.run), options)


def _list(store: Any, options: argparse.Namespace) -> int:
    from tui.runs import listing
    from tui.runs.summary import to_json

    if options.sort not in listing.SORTS:
        raise RunsError(f"--sort: {options.sort!r} is not known; known are {', '.join(listing.SORTS)}.")
    table = listing.rows(store, options.limit)
    table = listing.sort(listing.matching(table, options.filter), options.sort, options.reverse)
    if options.json:
        print(
            json.dumps(
                [
                    {
                        **(to_json(row.summary) if row.summary else {"run": row.name, "profile": row.profile}),
                        "damaged": row.run.damaged,
                        "note": row.notes.text,
                        "baseline": row.notes.baseline,
                    }
                    for row in table
                ],
                indent=1,
            )
        )
        return 0
    from tui.runs.runtext import table_lines

    print("\n".join(table_lines(table)) if table else f"No runs yet in {store.folder}.")
    return 0


def _one(store: Any, found: Any, options: argparse.Namespace) -> int:
    from tui.runs import listing

    if options.delete:
        if not options.yes and not _sure(f"Delete {found.name} for good?"):
            return 1
        listing.delete(found)
        print(f"Deleted {found.name}.")
    elif options.baseline:
        listing.pin(found, store)
        print(f"{found.name} is the baseline now.")
    elif options.no_baseline:
        listing.unpin(found)
        print(f"{found.name} is no baseline any more.")
    elif options.note is not None:
        listing.annotate(found, options.note)
        print(f"Noted on {found.name}.")
    elif options.export:
        from tui.runs.archive import export

        print(f"Wrote {export(found, Path(options.export))}.")
    else:
        return _show(found, options.json)
    return 0


def _show(found: Any, as_json: bool) -> int:
    from tui.runs import listing, summaries
    from tui.runs.runtext import run_lines
    from tui.runs.summary import to_json

    if found.damaged is not None:
        raise RunsError(f"{found.name} is damaged: {found.damaged}. `specdeck runs {found.name} --delete` removes it.")
    summary = summaries.ensure(found) or summaries.make(found)
    notes = listing.notes_of(found.path)
    if as_json:
        print(json.dumps({**to_json(summary), "note": notes.text, "baseline": notes.baseline}, indent=1))
    else:
        print("\n".join(run_lines(summary, notes)))
    return 0


def _sure(question: str) -> bool:
    if not sys.stdin.isatty():
        raise RunsError("Nobody can be asked here: give --yes.")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
