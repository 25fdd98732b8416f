"""Launch profiles: make one of a command that starts SGLang, hand one out, check one. Exit 0 good, 1 it would fail."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.commands.arguments import add_place_arguments
from tui.commands.common import place_from

if TYPE_CHECKING:
    from tui.server.profiles import Profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="import|export|check|list")
    imported = verbs.add_parser("import", help="a profile of a shell line, a script or a docker command")
    imported.add_argument("file", metavar="FILE", help="the script; - reads standard input. Nothing of it is run")
    imported.add_argument("--name", metavar="N", help="the profile's name (default: from the model's)")
    imported.add_argument("--save", action="store_true", help="save it among your profiles instead of printing it")
    imported.add_argument("--force", action="store_true", help="with --save: replace a profile of that name")
    exported = verbs.add_parser("export", help="a profile as a command for those without specdeck")
    exported.add_argument("profile", metavar="PROFILE", help="a profile by name or file")
    form = exported.add_mutually_exclusive_group()
    form.add_argument("--shell", action="store_true", help="as one shell command (default)")
    form.add_argument("--yaml", action="store_true", help="as the file that SGLang's --config reads")
    checked = verbs.add_parser("check", help="what would go wrong with its launch; exit 0 nothing, 1 it would fail")
    checked.add_argument("profile", metavar="PROFILE", help="a profile by name or file")
    checked.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="another value for a knob")
    checked.add_argument("--json", action="store_true", help="the findings as JSON")
    add_place_arguments(checked)
    listed = verbs.add_parser("list", help="the profiles that can be launched, and why some cannot")
    listed.add_argument("--json", action="store_true", help="the list as JSON")


def run(options: argparse.Namespace) -> int:
    verbs = {"import": _import, "export": _export, "check": _check, "list": _list}
    return verbs[options.verb](options)


def _import(options: argparse.Namespace) -> int:
    from tui.server.importer import import_command

    imported = import_command(_read(options.file), options.name)
    for note in imported.notes:
        print(f"note: {note}", file=sys.stderr)
    if not options.save:
        print(imported.profile.text, end="" if imported.profile.text.endswith("\n") else "\n")
        return 0
    path = _save(imported.profile, force=options.force)
    print(f"Saved as {path}; `specdeck {imported.profile.name}` launches it.")
    return 0


def _save(profile: "Profile", *, force: bool) -> Path:
    from tui.errors import SpecdeckError
    from tui.server.profiles import file_name, rename, save, user_folder

    path = user_folder() / file_name(profile.name)
    if path.exists() and not force:
        raise SpecdeckError(f"{path} is there already: choose another --name, or add --force to replace it.")
    return save(rename(profile, profile.name, path))


def _export(options: argparse.Namespace) -> int:
    from tui.server.exporter import export_shell, export_yaml
    from tui.server.profiles import find

    profile = find(options.profile)
    print(export_yaml(profile) if options.yaml else export_shell(profile), end="")
    return 0


def _check(options: argparse.Namespace) -> int:
    from tui.commands.control import print_json
    from tui.commands.knobwords import assignments
    from tui.feed.planning import Planner
    from tui.runs.store import RunStore
    from tui.server.profiles import find

    store = RunStore()
    profile = find(options.profile)
    found = Planner(place_from(options, store)).preflight(profile, assignments(options.set), store.root)
    errors = [finding for finding in found if finding.severity == "error"]
    if options.json:
        print_json([{name: getattr(f, name) for name in ("severity", "kind", "text", "fix")} for f in found])
    else:
        for finding in found:
            print(f"{finding.severity}: {finding.text} To mend it: {finding.fix}.")
        print(_summary(profile.name, len(errors), len(found) - len(errors)))
    return 1 if errors else 0


def _summary(name: str, errors: int, warnings: int) -> str:
    if not errors and not warnings:
        return f"{name}: nothing is found that stands against its launch."
    told = f"{errors} {'error' if errors == 1 else 'errors'}, {warnings} {'warning' if warnings == 1 else 'warnings'}"
    return f"{name}: {told}; {'it would fail' if errors else 'it may be launched'}."


def _list(options: argparse.Namespace) -> int:
    from tui.commands.control import print_json
    from tui.server.profiles import available, folders

    listed = available()
    if options.json:
        rows: list[dict[str, Any]] = [
            {
                "name": item.name,
                "path": str(item.path),
                "description": item.profile.description if item.profile else None,
                "problem": item.problem,
            }
            for item in listed
        ]
        print_json(rows)
        return 0
    if not listed:
        print(f"No profile in {', '.join(map(str, folders()))}: `specdeck profile import` makes one of your script.")
        return 0
    width = max(len(item.name) for item in listed)
    for item in listed:
        words = item.profile.description if item.profile else f"cannot be used: {item.problem}"
        print(f"{item.name:<{width}}  {words}".rstrip())
    return 0


def _read(file: str) -> str:
    from tui.errors import SpecdeckError

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).expanduser().read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise SpecdeckError(f"{file} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SpecdeckError(f"{file} is not UTF-8 text, so it is no launch script.") from error
