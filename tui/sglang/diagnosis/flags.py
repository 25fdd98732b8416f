"""The command line was refused: by argparse, or when SGLang resolved what it means."""

import difflib
import re

from tui.facts import Fix, Verdict
from tui.patterns import lazy
from tui.sglang.catalogue import builtin_catalogue
from tui.sglang.diagnosis.case import Case, Incident, When
from tui.sglang.diagnosis.making import LIKELY, Recogniser, verdict
from tui.sglang.flags.renames import RENAMES, Rename
from tui.wording import count

_UNKNOWN = lazy(r"unrecognized arguments: (.+)")
_AMBIGUOUS = lazy(r"ambiguous option: --([\w-]+)(?:=\S*)? could match (.+)")
_VALUE = lazy(r"argument (--[\w-]+)(?:/\S+)*: (.+)")
_REQUIRED = lazy(r"the following arguments are required: (.+)")
_CHOICE = lazy(r"invalid choice: '?([^'\s]+)'? \((?:choose from|maybe you meant) (.+)\)?")
_KEYWORD = lazy(r"unexpected keyword argument '(\w+)'")
_RESOLVING = lazy(
    r"server_args\.py|arg_groups/|prepare_server_args|_handle_\w+ |__post_init__|check_server_args"
    r"|server_args_config_parser"
)
_OPTION = lazy(r"--[a-z][\w-]+")
_TYPES = ("ValueError", "AssertionError", "TypeError", "NotImplementedError", "RuntimeError", "KeyError")
_RANKS = lazy(
    r"total number of ranks|(?:must be|not|should be) divisible by|tp_size|--tp-size|tensor_parallel"
    r"|tensor parallel size"
)


def refused(incident: Incident, case: Case) -> Verdict | None:
    """argparse ended the launch; its last line says why."""
    problem = incident.first("bad-flag")
    if problem is None:
        return None
    said = problem.text.split(": error: ", 1)[-1]
    title, why, fixes = _read(said, case)
    return verdict("bad-flag", incident, "bad-flag", title=title, why=why, fixes=fixes)


def _read(said: str, case: Case) -> tuple[str, str, tuple[Fix, ...]]:
    if match := _AMBIGUOUS.search(said):
        return _ambiguous(match[1], match[2], case)
    if match := _UNKNOWN.search(said):
        return _unrecognised(match[1], case)
    if match := _KEYWORD.search(said):
        return _unrecognised("--" + match[1].replace("_", "-"), case)
    if match := _REQUIRED.search(said):
        return f"The command line lacks {match[1]}", "SGLang does not start without it.", ()
    if match := _VALUE.search(said):
        return _bad_value(match[1].lstrip("-"), match[2], case)
    return f"The command line was refused: {said}", "SGLang's own words are in the evidence.", ()


def _unrecognised(words: str, case: Case) -> tuple[str, str, tuple[Fix, ...]]:
    flags = _OPTION.findall(words) or [words]
    name = flags[0].lstrip("-")
    title = f"This SGLang does not know {', '.join(flags)}"
    rename = _rename(name)
    if rename is not None:
        why = f"--{name} went away in SGLang {'.'.join(map(str, rename.gone or rename.since))}: {rename.advice}."
        return title, why, _renamed(rename, case)
    back = next((r for r in RENAMES if r.new == name), None)
    if back is not None and case.at_least(*back.since) is not True:
        why = f"--{name} came in SGLang {'.'.join(map(str, back.since))}; older ones call it --{back.old}."
        return title, why, _swap(name, back.old, case)
    near = builtin_catalogue(case.version_least or case.version_most).close(name)
    hint = f" Did you mean --{near[0]}?" if near else ""
    fix = Fix(knob=name, old=case.old(name), new=None, why="this version has no such flag")
    why = (
        f"The flag is misspelt, or belongs to another version.{hint} `python -m sglang.launch_server --help` "
        "lists them."
    )
    return title, why, (fix,)


def _ambiguous(name: str, candidates: str, case: Case) -> tuple[str, str, tuple[Fix, ...]]:
    rename = _rename(name)
    title = f"--{name} is ambiguous in this SGLang"
    if rename is not None:
        gone = ".".join(map(str, rename.gone or rename.since))
        return title, f"It went away in {gone}: {rename.advice}.", _renamed(rename, case)
    first = _OPTION.search(candidates)
    why = f"It could mean {candidates}: write one of them in full."
    return title, why, _swap(name, first[0].lstrip("-"), case) if first else ()


def _bad_value(name: str, said: str, case: Case) -> tuple[str, str, tuple[Fix, ...]]:
    choice = _CHOICE.search(said)
    if choice is None:
        return f"--{name}: {said}", "The value is not of the kind that this flag takes.", ()
    choices = re.findall(r"[\w.-]+", choice[2])
    near = difflib.get_close_matches(choice[1], choices, n=1, cutoff=0.5)
    fixes = (
        (Fix(knob=name, old=choice[1], new=near[0], why="the nearest value that this version takes"),) if near else ()
    )
    few = ", ".join(choices[:12]) + (", …" if len(choices) > 12 else "")
    return f"--{name} does not take {choice[1]!r}", f"This version takes: {few}.", fixes


def _rename(name: str) -> Rename | None:
    return next((rename for rename in RENAMES if rename.old == name), None)


def _renamed(rename: Rename, case: Case) -> tuple[Fix, ...]:
    if rename.new is not None:
        return _swap(rename.old, rename.new, case)
    return (Fix(knob=rename.old, old=case.old(rename.old), new=None, why=rename.advice),)


def _swap(old: str, new: str, case: Case) -> tuple[Fix, ...]:
    """Out with one flag, in with the other; the value moves where it is known."""
    value = case.old(old)
    out = Fix(knob=old, old=value, new=None, why=f"it is called --{new} in this version")
    if value is None:
        return (out,)
    return (out, Fix(knob=new, old=None, new=value, why=f"what was --{old}"))


def context_too_long(incident: Incident, case: Case) -> Verdict | None:
    """--context-length beyond what the model's config gives."""
    problem = incident.first("context-too-long")
    if problem is None or not incident.raised:
        return None
    derived, asked = problem.numbers.get("derived"), problem.numbers.get("context_length")
    why = "SGLang refuses a context longer than the model's config gives, unless "
    why += "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 is set; answers beyond it may be wrong."
    fixes = ()
    title = "--context-length is longer than the model's own"
    if derived is not None and asked is not None:
        title = f"--context-length {asked:.0f} is longer than the model's own {count(derived)}"
        old = case.old("context-length")
        fix = Fix(
            knob="context-length", old=old if old is not None else int(asked), new=int(derived), why="the model's own"
        )
        return verdict(
            "bad-flag", incident, problem.code, title=title, why=why, numbers=dict(problem.numbers), fixes=(fix,)
        )
    return verdict("bad-flag", incident, problem.code, title=title, why=why, fixes=fixes)


def unresolvable(incident: Incident, case: Case) -> Verdict | None:
    """SGLang's own checks of the arguments raised, before any rank was started."""
    trace = incident.trace
    if trace is None or trace.exception is None:
        return None
    ranks = _RANKS.search(trace.message) is not None
    early = (When.LAUNCH, When.UNKNOWN, When.RANKS, *((When.LOAD,) if ranks else ()))
    if incident.when not in early:
        return None
    if trace.exception.rsplit(".", 1)[-1] not in _TYPES or (trace.head_cut and not trace.where):
        return None
    inner = "\n".join(trace.where[-2:])
    if not ranks and not _RESOLVING.search(inner):
        return None
    speculative = "speculative" in inner or "spec_" in inner
    if speculative and trace.exception == "TypeError":
        title = f"The speculative flags are incomplete ({incident.title()})"
        why = (
            "Give --speculative-num-steps, --speculative-eagle-topk and --speculative-num-draft-tokens "
            "together, or none."
        )
    elif ranks:
        title = "The number of ranks does not suit this machine or model"
        why = f"{incident.title()}"
    else:
        title = f"SGLang refuses these arguments: {incident.title()}"
        why = (
            "The exception comes out of the code that checks and completes the arguments, before any rank was started."
        )
    return verdict("bad-flag", incident, title=title, why=why, confidence=LIKELY)


RECOGNISERS: tuple[Recogniser, ...] = (refused, context_too_long)
LAST: tuple[Recogniser, ...] = (unresolvable,)
