"""Run by the SERVER's interpreter (`python -c <this text> MODE [words…]`), never imported by specdeck. Python >= 3.8.

MODE "flags": every flag of SGLang's own parser (ServerArgs.add_cli_args, 0.4.6 – 0.5.23) and torch's GPU
architectures. MODE "resolve": the arguments that a command line resolves to. The last line of stdout is one JSON
object behind MARK; whatever the imports print comes before it.
"""

import argparse
import enum
import importlib
import json
import sys
from typing import Any, List  # noqa: UP035 - older Pythons run this

MARK = "specdeck-probe:"


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (str, int, float, bool)) else repr(value)


def describe(action: argparse.Action) -> Any:
    """One argparse action. `choices` are sorted: one list of SGLang comes from a set."""
    kind = type(action).__name__
    text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
    try:
        text = text % dict(vars(action), prog="sglang")
    except (TypeError, ValueError, KeyError):
        text = text.replace("%%", "%")
    found = {
        "flags": list(action.option_strings),
        "dest": action.dest,
        "action": kind.lstrip("_").replace("Action", ""),
        "nargs": action.nargs,
        "type": getattr(action.type, "__name__", None if action.type is None else repr(action.type)),
        "default": None if action.default is argparse.SUPPRESS else plain(action.default),
        "choices": None if action.choices is None else sorted(str(plain(item)) for item in action.choices),
        "help": " ".join(text.split()),
        "deprecated": "Deprecated" in kind or "deprecated" in text.lower(),
    }
    # nargs 0 marks a switch: it must not go the way of False.
    return {
        key: value for key, value in found.items() if (value is not None and value is not False) or key == "default"
    }


def version() -> str:
    found = getattr(importlib.import_module("sglang"), "__version__", None)
    if found:
        return str(found)
    return str(importlib.import_module("importlib.metadata").version("sglang"))


def parser() -> argparse.ArgumentParser:
    server_args = importlib.import_module("sglang.srt.server_args")
    made = argparse.ArgumentParser(add_help=False)
    server_args.ServerArgs.add_cli_args(made)
    return made


def torch_facts() -> Any:
    """Version and GPU architectures of torch ("sm_90"), read from the build, not from a device."""
    torch = importlib.import_module("torch")
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    built = flags() if flags is not None else None
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "arch_list": built.split() if isinstance(built, str) else [],
    }


def flags() -> Any:
    actions = [action for action in parser()._actions if action.option_strings]
    listed = sorted((describe(action) for action in actions), key=lambda item: item["flags"])
    return {"version": version(), "python": sys.version.split()[0], "torch": torch_facts(), "flags": listed}


def resolve(words: List[str]) -> Any:  # noqa: UP006
    """What SGLang makes of a command line: {"given": …, "resolved": …} by argument name. It may read the model."""
    server_args = importlib.import_module("sglang.srt.server_args")
    args = server_args.prepare_server_args(words)
    names = [action.dest for action in parser()._actions if action.dest != "help"]
    given = {name: plain(getattr(args, name)) for name in names if hasattr(args, name)}
    view = args
    if hasattr(args, "resolve_once"):  # >= 0.5.19: construction is lazy
        args.resolve_once()
        try:
            view = importlib.import_module("sglang.srt.arg_groups.overrides").resolved_view(args)
        except (ImportError, AttributeError):
            view = args
    resolved = {name: plain(getattr(view, name, None)) for name in given}
    return {"version": version(), "given": given, "resolved": resolved}


def main() -> None:
    mode, words = sys.argv[1], sys.argv[2:]
    answer = flags() if mode == "flags" else resolve(words)
    sys.stdout.flush()
    print("\n" + MARK + json.dumps(answer))


if __name__ == "__main__":
    main()
