"""Measure everything, print the table, and keep it in benchmarks/RESULTS.md."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import biglog, flood, ghosts, latency, screen, startup
from benchmarks.scene import ROOT, Scene
from benchmarks.table import Row, as_json, as_markdown, as_text

PARTS: dict[str, Callable[[Scene, bool], Iterator[Row]]] = {
    "startup": startup.rows,
    "screen": screen.rows,
    "latency": latency.rows,
    "ghosts": ghosts.rows,
    "flood": flood.rows,
    "biglog": biglog.rows,
}
PAGE = ROOT / "benchmarks" / "RESULTS.md"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


def machine() -> str:
    """The machine in words, without its name."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores of {models[0] if models else platform.machine()}, "
        f"Python {platform.python_version()}, {platform.system()}; load {load:.1f} when it began"
    )


def keep(rows: list[Row], where: str) -> None:
    """Put the table into the page; the words around it stay."""
    table = f"{BEGIN}\n\n{time.strftime('%Y-%m-%d')}, {where}\n\n{as_markdown(rows)}\n\n{END}"
    page = PAGE.read_text() if PAGE.exists() else f"# How fast\n\n{BEGIN}{END}\n"
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + table + rest.partition(END)[2])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="shorter and smaller, under two minutes; not kept")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]}; the parts are {', '.join(PARTS)}")
    where, rows = machine(), []
    with Scene() as scene:
        for name in options.parts or PARTS:
            print(f"measuring: {name}", file=sys.stderr)
            for row in PARTS[name](scene, options.quick):
                print(as_text([row]).splitlines()[1], file=sys.stderr)
                rows.append(row)
    print(json.dumps({"machine": where, "rows": as_json(rows)}, indent=1) if options.json else as_text(rows))
    if not options.quick and not options.parts:
        keep(rows, where)
    return 0


if __name__ == "__main__":
    sys.exit(main())
