"""Draft, target and speculative flags that do not belong together."""

from tui.facts import Verdict
from tui.patterns import lazy
from tui.sglang.diagnosis.case import Case, Incident, When
from tui.sglang.diagnosis.making import LIKELY, Recogniser, verdict

_DRAFT_CODE = lazy(
    r"eagle_worker|draft_worker|standalone_worker|multi_layer_eagle|dflash_worker|_eagle3?\.py|eagle3?_|_nextn\.py"
    r"|_mtp\.py|\bdraft_extend|_draft_|forward_draft|in draft\b|^draft "
)
_WORDS = lazy(
    r"hot_token_id|draft (?:model|vocab)|[Dd]raft.{0,60}(?:vocab|hidden|mismatch|does not match|not compatible)"
    r"|speculative.{0,80}(?:does not support|not supported|must be|mismatch)|eagle_config|set_eagle3_layers_to_capture"
    r"|set_embed_and_head|get_embed_and_head"
)
_MISFITS = frozenset(("shape-mismatch", "weights-mismatch", "weights-broken"))
_TYPES = ("AttributeError", "KeyError", "AssertionError", "IndexError", "TypeError")
_DRAFTLESS = (None, "NGRAM")


def draft_mismatch(incident: Incident, case: Case) -> Verdict | None:
    """The exception comes out of code that puts draft and target together."""
    trace = incident.trace
    in_draft = _DRAFT_CODE.search(incident.frames) is not None or incident.when is When.DRAFT_LOAD
    by_words = _WORDS.search(incident.text) is not None
    if not (in_draft or by_words) or "arg_groups/" in incident.frames or "server_args.py" in incident.frames:
        return None
    misfit = bool(incident.codes & _MISFITS)
    name = (trace.exception or "").rsplit(".", 1)[-1] if trace is not None else ""
    if not (by_words and (incident.raised or misfit)) and not (in_draft and (misfit or name in _TYPES)):
        return None
    if "cuda-oom" in incident.codes or (case.ready and not by_words):
        return None  # what served until now does belong together
    path, algorithm = case.value("speculative-draft-model-path"), case.speculative
    target = case.value("model-path", "model")
    missing = algorithm not in _DRAFTLESS and bool(case.args or case.knobs) and (path is None or path == target)
    why = f"The exception is {incident.title()!r}, raised where draft and target are put together. "
    if missing:
        title = f"{algorithm} needs a draft model, and none was given"
        why += "Without --speculative-draft-model-path SGLang loads the target's checkpoint as the draft."
    else:
        title = "The draft does not belong to this target or algorithm"
        if algorithm and path:
            why += f"--speculative-algorithm {algorithm} was given {path!r} as the draft. "
        why += "The draft must have been trained for this target (hidden size, vocabulary) and for this algorithm."
    sure = by_words and not misfit and "hot_token_id" in incident.text
    return verdict(
        "draft-mismatch",
        incident,
        *_MISFITS,
        title=title,
        why=why,
        confidence="certain" if sure or missing else LIKELY,
    )


RECOGNISERS: tuple[Recogniser, ...] = (draft_mismatch,)
