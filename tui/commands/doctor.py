"""What happened in this log? Headless, on any log file: exit 0 nothing is wrong, 1 a cause was found, 2 cannot tell."""

import argparse
import json
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG|RUN", help="a log file (also .gz, .zst), - for standard input, or a run")
    parser.add_argument("--json", action="store_true", help="the verdict as JSON")


def run(options: argparse.Namespace) -> int:
    from tui.commands.doctor_case import examine
    from tui.commands.doctor_text import lines_of, to_json

    report = examine(options.log)
    if options.json:
        print(json.dumps(to_json(report), indent=1))
    else:
        encoding = sys.stdout.encoding or "ascii"
        text = "\n".join(lines_of(report))
        print(text.encode(encoding, "replace").decode(encoding))
    if report.note:
        print(f"specdeck doctor: {report.note}", file=sys.stderr)
    if report.verdict is None:
        return 0
    return 2 if report.verdict.kind == "unknown" else 1
