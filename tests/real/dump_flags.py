"""Print the options of SGLang's own parser as JSON, one a line (with SGLang's interpreter)."""

import argparse
import enum
import json

import sglang
from sglang.srt.server_args import ServerArgs


def plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


parser = argparse.ArgumentParser(add_help=False)
ServerArgs.add_cli_args(parser)
lines = []
for action in sorted(parser._actions, key=lambda action: action.option_strings):
    kind = type(action).__name__.lstrip("_").removesuffix("Action")
    option = {
        "flags": action.option_strings,
        "dest": action.dest,
        "action": kind,
        "nargs": action.nargs,
        "type": getattr(action.type, "__name__", None),
        "default": plain(action.default),
        # One list comes from a set, whose order differs between runs.
        "choices": None if action.choices is None else sorted(map(str, action.choices)),
        "help": (action.help or "").replace("%%", "%"),
    }
    lines.append(json.dumps({name: value for name, value in option.items() if value is not None}))
body = ",\n".join(lines)
print(f'{{"version": "{sglang.__version__}", "flags": [\n{body}\n]}}')
