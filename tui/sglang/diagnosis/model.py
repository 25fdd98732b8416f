"""The checkpoint: missing, gated, unreachable, broken, or in need of a flag."""

import re

from tui.facts import Fix, Verdict
from tui.patterns import lazy
from tui.sglang.diagnosis.case import Case, Incident
from tui.sglang.diagnosis.making import LIKELY, UNKNOWN, Recogniser, verdict

_MISSING = ("model-missing", "model-gated", "model-bad-name", "model-offline")
_UNREADABLE = lazy(
    r"PermissionError:? .{0,40}Permission denied: '[^'\n]{0,400}(?:\.json|safetensors|\.bin|\.gguf|model)"
)
_PATH = lazy(r"'(/[^'\n]{1,400})'|'([\w.-]{1,100}/[\w.-]{1,100})'|(?:^|: )([\w./-]{1,200}) is not a local folder", re.M)


def missing(incident: Incident, case: Case) -> Verdict | None:
    """Not a folder of this machine, and not to be had from a hub."""
    codes = incident.codes & set(_MISSING)
    if not codes and "Unrecognized model in" not in incident.text:
        return None
    name = _name(incident, case)
    if "model-gated" in codes:
        title = f"The checkpoint{name} is gated, or the token is missing"
        why = "The hub refuses it: accept the model's terms on its page and give HF_TOKEN to the server's environment."
    elif "model-offline" in codes:
        title = f"The checkpoint{name} is not on this machine, and the hub was not reached"
        why = "SGLang takes a path that is no folder for a repository name. Correct --model-path, or give the machine "
        why += "network access (or HF_ENDPOINT, HF_HUB_OFFLINE=0), or download it first."
    else:
        title = f"The checkpoint{name} was not found"
        why = (
            "It is neither a folder with a config.json and weights nor a repository of the hub. Correct "
            "--model-path or "
        )
        why += "--speculative-draft-model-path; in a container the folder has to be mounted."
    return verdict("model-missing", incident, *_MISSING, title=title, why=why)


def unreadable(incident: Incident, case: Case) -> Verdict | None:
    """The files are there, and the server's user may not read them."""
    if not _UNREADABLE.search(incident.text) and not _UNREADABLE.search(incident.title()):
        return None
    return verdict(
        "model-missing",
        incident,
        title="The checkpoint may not be read",
        why=f"{incident.title()}: give the user that runs the server the right to read the folder and its files.",
        confidence=LIKELY,
    )


def needs_code(incident: Incident, case: Case) -> Verdict | None:
    """The checkpoint brings its own Python code."""
    if "model-needs-code" not in incident.codes:
        return None
    knob = "trust-remote-code"
    return verdict(
        "bad-flag",
        incident,
        "model-needs-code",
        title="The checkpoint needs --trust-remote-code",
        why="It brings Python code of its own, which SGLang runs only when told to. Look at that code first.",
        fixes=(Fix(knob=knob, old=case.old(knob) or None, new=True, why="the checkpoint's own code may run"),),
    )


def broken(incident: Incident, case: Case) -> Verdict | None:
    """A file that is no safetensors file: mostly a download that stopped half-way, or a Git LFS pointer."""
    if "weights-broken" not in incident.codes:
        return None
    return verdict(
        "model-missing",
        incident,
        "weights-broken",
        title="A file of the checkpoint is broken",
        why="It cannot be read as weights: an unfinished download or a Git LFS pointer. Compare its size with "
        "the hub's "
        "and download it again.",
        confidence=LIKELY,
    )


def misfit(incident: Incident, case: Case) -> Verdict | None:
    """Tensors of other shapes or names than the code expects."""
    if not incident.codes & {"weights-mismatch", "shape-mismatch"}:
        return None
    return verdict(
        "unknown",
        incident,
        "weights-mismatch",
        "shape-mismatch",
        title=incident.title(),
        why="Tensors do not have the shapes that the code expects: the checkpoint's config and weights may be "
        "of different "
        "versions, the tensor-parallel size may not divide them, or the quantisation flag may be the wrong one.",
        confidence=UNKNOWN,
    )


def _name(incident: Incident, case: Case) -> str:
    """The checkpoint that the message names; else the launch's, where it has only one."""
    names = (match[1] or match[2] or match[3] for match in _PATH.finditer(incident.text))
    said = next((name for name in names if not name.startswith("namespace/")), None)
    if said is None and case.value("speculative-draft-model-path") is None:
        target = case.value("model-path", "model")
        said = target if isinstance(target, str) else None
    return f" {said!r}" if said else ""


RECOGNISERS: tuple[Recogniser, ...] = (needs_code, missing, broken, unreadable)
LAST: tuple[Recogniser, ...] = (misfit,)
