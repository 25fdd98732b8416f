"""Preflight findings about the model: head counts, draft and target, speculation's numbers."""

from collections.abc import Mapping, Sequence

from tui.frozen import frozen
from tui.server.commandline import local_path
from tui.server.preflight_machine import Finding
from tui.server.profiles import KnobValue, Profile
from tui.sglang.memknobs import MemoryKnobs, model_path
from tui.sglang.speculation import has_draft_model, is_eagle_family, speculative_params
from tui.sglang.versions import Version

_NEEDS_PATH = ("EAGLE3", "STANDALONE")


@frozen
class ModelLook:
    """What the checkpoints on this machine say; None where there is none to read. `problem`: why one is of no use."""

    attention_heads: int | None = None
    kv_heads: int | None = None
    architecture: str | None = None
    problem: str | None = None
    mismatches: tuple[str, ...] = ()


def size_findings(knobs: MemoryKnobs, attention_heads: int | None, kv_heads: int | None) -> list[Finding]:
    """Sizes that cannot be: SGLang asserts them while the model is built (layers/linear.py, model files)."""
    found = []
    tp, attn_tp = knobs.tp, knobs.attn_tp
    if knobs.dp_attention and tp % knobs.attn_dp:
        text = f"--tp-size {tp} cannot be divided by the {knobs.attn_dp} copies of the attention."
        found.append(Finding("error", text, "choose a tp that is a multiple of it", "bad-flag"))
    if attention_heads is not None and attention_heads % attn_tp:
        text = f"The model's {attention_heads} attention heads cannot be shared by {attn_tp} ranks."
        fitting = [n for n in (1, 2, 4, 8, 16, 32) if attention_heads % n == 0]
        found.append(Finding("error", text, f"choose a tp of {', '.join(map(str, fitting))}", "bad-flag"))
    elif kv_heads is not None and kv_heads % attn_tp and attn_tp % kv_heads:
        text = f"The model's {kv_heads} KV heads cannot be shared or copied evenly by {attn_tp} ranks."
        found.append(Finding("error", text, "choose a tp that divides them or is a multiple of them", "bad-flag"))
    return found


def speculation_findings(
    version: Version | None, knobs: MemoryKnobs, architecture: str | None, mismatches: Sequence[str]
) -> list[Finding]:
    """Draft, target and flags that do not belong together."""
    algorithm, found = knobs.speculative_algorithm, []
    fix = "choose the draft that names this target, or another --speculative-algorithm"
    found += [Finding("error", text, fix, "draft-mismatch") for text in mismatches]
    if algorithm in _NEEDS_PATH and knobs.speculative_draft_model_path is None and not mismatches:
        text = f"{algorithm} has no --speculative-draft-model-path: SGLang would load the target as its own draft."
        found.append(Finding("error", text, "give the draft's folder", "draft-mismatch"))
    if algorithm is None and knobs.speculative_draft_model_path is not None:
        text = "A draft path is given without --speculative-algorithm: the server will not speculate."
        found.append(Finding("warning", text, "give --speculative-algorithm, such as EAGLE3", "draft-mismatch"))
    given = (knobs.speculative_num_steps, knobs.speculative_eagle_topk, knobs.speculative_num_draft_tokens)
    if is_eagle_family(algorithm) and given[0] is None and any(value is not None for value in given[1:]):
        text = "--speculative-eagle-topk or --speculative-num-draft-tokens is given without --speculative-num-steps."
        found.append(Finding("error", text, "give all three, or none of them", "bad-flag"))
    if version is not None and has_draft_model(algorithm):
        params = speculative_params(version, knobs, architecture)
        if params is not None and params.warning:
            fix = f"set --speculative-num-draft-tokens {params.num_draft_tokens}, or a higher top-k"
            found.append(Finding("warning", params.warning, fix, "bad-flag"))
    return found


def look_at_model(profile: Profile, knobs: Mapping[str, KnobValue]) -> ModelLook:
    """Reads the target's and the draft's headers where they lie on this machine; a broken one is told by its reader."""
    path = model_path(knobs)
    target = local_path(profile, path) if isinstance(path, str) else None
    if target is None or not target.exists():
        return ModelLook()
    from tui.models.draft import draft_mismatch
    from tui.models.errors import CheckpointError
    from tui.sources.checkpoints import read_checkpoint, read_draft

    try:
        checkpoint = read_checkpoint(target)
    except CheckpointError as error:
        return ModelLook(problem=str(error))
    algorithm, draft_path = knobs.get("speculative-algorithm"), knobs.get("speculative-draft-model-path")
    mismatches: tuple[str, ...] = ()
    problem = None
    if isinstance(algorithm, str) and has_draft_model(algorithm.upper()):
        folder = local_path(profile, draft_path) if isinstance(draft_path, str) else None
        if draft_path is None or (folder is not None and folder.exists()):
            try:
                mismatches = draft_mismatch(checkpoint, read_draft(target, folder), algorithm)
            except CheckpointError as error:
                problem = str(error)
    return ModelLook(
        attention_heads=checkpoint.num_attention_heads,
        kv_heads=checkpoint.num_key_value_heads,
        architecture=checkpoint.architectures[0] if checkpoint.architectures else None,
        problem=problem,
        mismatches=mismatches,
    )
