"""Will it fit? The forecast of a launch, without starting anything: exit 0 it fits, 1 it does not, 2 cannot tell."""

import argparse
import json
import shutil
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", nargs="?", metavar="PROFILE", help="a profile by name or file; bare numbers do too")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KNOB=VALUE", help="another value for a knob; KNOB= takes it out"
    )
    parser.add_argument("--sglang-version", metavar="V", help="the SGLang that will run, such as 0.5.9")
    parser.add_argument("--gpus", metavar="8x97887MiB", help="the GPUs; without it those of this machine")
    parser.add_argument(
        "--free-gib", type=float, metavar="P", help="free on a GPU before the weights: 'Load weight begin'"
    )
    parser.add_argument("--base-gib", type=float, metavar="W", help="weights on a GPU: 'Load weight end … mem usage'")
    parser.add_argument("--draft-gib", type=float, metavar="D", help="the draft's weights on a GPU")
    parser.add_argument("--kv-bytes-per-token", type=float, metavar="N", help="KV bytes of a token on a GPU")
    parser.add_argument("--vision-layers", type=int, metavar="L", help="layers of a vision tower")
    parser.add_argument("--vision-hidden", type=int, metavar="H", help="hidden size of a vision tower")
    parser.add_argument("--from-log", metavar="F", help="take the numbers out of the log of an earlier start")
    parser.add_argument("--json", action="store_true", help="the forecast as JSON")


def run(options: argparse.Namespace) -> int:
    from tui.commands.plan_inputs import PlanError, gather, past_runs
    from tui.forecast.contract import to_json
    from tui.forecast.predict import forecast
    from tui.forecast.text import lines_of

    inputs = gather(options)
    try:
        past = past_runs(options, inputs)
        found = forecast(inputs.version, inputs.machine, inputs.model, inputs.knobs, past)
    except ValueError as error:
        raise PlanError(str(error)) from None
    if options.json:
        answer = to_json(found)
        answer["warnings"] = [*inputs.notes, *answer["warnings"]]
        print(json.dumps(answer, indent=1))
    else:
        width = min(120, shutil.get_terminal_size((78, 24)).columns)
        ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
        lines = [
            inputs.title,
            *lines_of(found, width=width, ascii_only=ascii_only),
            *(f"Note: {n}" for n in inputs.notes),
        ]
        text = "\n".join(lines)
        print(text.encode(sys.stdout.encoding or "ascii", "replace").decode() if ascii_only else text)
    return {True: 0, False: 1, None: 2}[found.fits]
