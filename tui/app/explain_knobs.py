"""What a knob is, where its value comes from, and what it moves, with the numbers of the server on the screen."""

from collections.abc import Callable, Mapping

from tui.app.explain import Equation, Explained, equation, in_force
from tui.app.text import DASH, count, value
from tui.sglang.fraction import ACTIVATION_MIB, GRAPH_MIB
from tui.sglang.versions import parse_version
from tui.snapshot import Snapshot

ORIGINS = {
    "profile": "your profile",
    "server": "SGLang chose it; its log tells",
    "command line": "the command line",
    "": "nobody set it: SGLang's own default or choice holds",
}
STEP = 0.01


def knob_entry(
    name: str, now: object, origin: str, about: str, snapshot: Snapshot, pending: object = None, how: str = ""
) -> Explained:
    """`now`: the value in force; `pending`: the one for the next start, if another; `about`: SGLang's own help.

    `how`: how the automatic fraction comes about, with its numbers.
    """
    size = value(now) if pending is None else f"{value(now)} -> {value(pending)}"
    rows = [("from", ORIGINS.get(origin, origin))]
    if pending is not None:
        rows.append(("then", "yours, at the next start"))
    if about:
        rows.append(("is", about))
    words = _WORDS.get(name)
    if words is not None and (told := words(now if pending is None else pending, snapshot)):
        rows.append(("moves", told))
    elif name in _PLAIN:
        rows.append(("moves", _PLAIN[name]))
    if name == "mem-fraction-static" and how:
        rows.append(("by itself", how))
    if len(rows) == 1:
        rows.append(("is", "SGLang gives no help for it."))
    return Explained(name, size, "", tuple(rows))


def _fraction(_: object, snapshot: Snapshot) -> str:
    found = equation(snapshot)
    if found is None:
        return "the end of the static budget: weights and KV cache inside of it, graphs and activations outside."
    words = (
        f"the KV cache: {found.words()}. The slack, P x (1 - f) = {found.slack:.2f} GiB, is left for the rest. "
        f"The floor, 1 - A/P = {found.floor:.4f}, leaves nothing for KV: only a larger fraction starts."
    )
    return f"{words} {_step(found, snapshot)}"


def _step(found: Equation, snapshot: Snapshot) -> str:
    """What one step of the knob is worth."""
    moved = found.before * STEP
    base = next((rank.kv_base for rank in snapshot.ranks if rank.kv_base), None)
    tokens = f", about {count(round(moved / base * snapshot.kv_tokens))} tokens" if base and snapshot.kv_tokens else ""
    return f"A step of {STEP} moves {moved:.2f} GiB from the slack to the KV cache{tokens}."


def _graphs(setting: object, snapshot: Snapshot) -> str:
    taken = next((rank.graphs_base for rank in snapshot.ranks if rank.graphs_base is not None), None)
    held = "" if taken is None else f" The log says that they take {taken:.2f} GiB on a rank."
    words = "the graphs: larger decode batches than this one run without a graph, and slower."
    if _at_least(snapshot, 0, 5, 3) and isinstance(setting, int) and not isinstance(setting, bool):
        words += (
            f" Choosing the fraction itself, SGLang sets {GRAPH_MIB} MiB aside for each request of it: {GRAPH_MIB} x "
            f"{setting} = {GRAPH_MIB * setting} MiB less for weights and KV cache."
        )
    return words + held


def _chunk(setting: object, snapshot: Snapshot) -> str:
    words = "the activations: so many tokens of a prompt are worked on at once."
    if _at_least(snapshot, 0, 5, 3) and isinstance(setting, int) and setting > 0:
        words += (
            f" Choosing the fraction itself, SGLang sets {ACTIVATION_MIB} MiB aside for each: {ACTIVATION_MIB} x "
            f"{setting} = {count(round(ACTIVATION_MIB * setting))} MiB."
        )
    return words


def _cell(_: object, snapshot: Snapshot) -> str:
    base = next((rank.kv_base for rank in snapshot.ranks if rank.kv_base), None)
    if not base or not snapshot.kv_tokens:
        return "the size of a token in the KV cache, and so how many tokens it holds."
    cell = base * 2**20 / snapshot.kv_tokens
    return f"the size of a token in the KV cache, now {cell:.1f} KiB: {count(snapshot.kv_tokens)} in {base:.2f} GiB."


def _draft(_: object, snapshot: Snapshot) -> str:
    weights = next((rank.draft for rank in snapshot.ranks if rank.draft), None)
    held = "" if weights is None else f" The draft's weights take {weights:.2f} GiB on a rank."
    accept = f" A step gives {snapshot.accept_len:.2f} tokens now." if snapshot.accept_len is not None else ""
    return (
        "the speed: a draft proposes tokens, one step of the target verifies them. It costs the draft's weights, KV "
        f"and graphs, and pays when a step brings more tokens than it takes longer.{held}{accept}"
    )


def _steps(_: object, snapshot: Snapshot) -> str:
    flags = in_force(snapshot)
    steps, top, tokens = (
        flags.get(f"speculative-{name}", DASH) for name in ("num-steps", "eagle-topk", "num-draft-tokens")
    )
    accept = (
        ""
        if snapshot.accept_len is None
        else f" Accepted: {snapshot.accept_len:.2f} tokens per step, the free one included."
    )
    return (
        f"the accept length and the cost of a step: {value(steps)} draft steps that keep the best {value(top)} "
        f"continuations each, of which {value(tokens)} tokens are verified at once.{accept}"
    )


def _requests(_: object, snapshot: Snapshot) -> str:
    limit = "" if snapshot.max_running_requests is None else f" In force: {count(snapshot.max_running_requests)}."
    return f"how many requests are decoded at once; the request table in `other` has a row for each.{limit}"


def _context(_: object, snapshot: Snapshot) -> str:
    context = "" if snapshot.context_len is None else f" In force: {count(snapshot.context_len)} tokens."
    return f"the longest request, and so the rows of the request table in `other`; the KV cache must hold one.{context}"


def _ranks(_: object, snapshot: Snapshot) -> str:
    parts = [rank.base for rank in snapshot.ranks if rank.base is not None]
    shares = f" Now {parts[0]:.2f} GiB of {sum(parts):.2f} on each of {len(parts)} ranks." if len(parts) > 1 else ""
    return f"every segment: the weights and KV heads are split over so many GPUs.{shares}"


def _at_least(snapshot: Snapshot, *release: int) -> bool:
    version = parse_version(snapshot.sglang_version or "")
    return version is not None and version.at_least(*release)


_WORDS: Mapping[str, Callable[[object, Snapshot], str]] = {
    "mem-fraction-static": _fraction,
    "cuda-graph-max-bs": _graphs,
    "cuda-graph-max-bs-decode": _graphs,
    "chunked-prefill-size": _chunk,
    "kv-cache-dtype": _cell,
    "max-total-tokens": _cell,
    "speculative-algorithm": _draft,
    "speculative-draft-model-path": _draft,
    "speculative-num-steps": _steps,
    "speculative-eagle-topk": _steps,
    "speculative-num-draft-tokens": _steps,
    "max-running-requests": _requests,
    "context-length": _context,
    "tp-size": _ranks,
}
_PLAIN: Mapping[str, str] = {
    "model-path": "the base weights, and with the model's shape everything else.",
    "quantization": "the base weights.",
    "dtype": "the base weights and the activations.",
    "dp-size": "the number of KV caches: each DP rank has its own.",
    "enable-dp-attention": "the KV cache: each DP rank has one of its own, and the activations.",
    "attention-backend": "the workspaces in `other`, and the speed.",
    "enable-metrics": "nothing in memory; /metrics, and with it the accept length of each second, is there.",
    "port": "nothing in memory; where the server answers.",
    "host": "nothing in memory; who may reach the server.",
    "served-model-name": "nothing in memory; the name that clients ask for.",
}
