"""A Snapshot as plain lines, for scripts, logs and dumb terminals. What is not known is –."""

from tui.snapshot import SEGMENTS, Amount, GpuBar, Snapshot

_UNKNOWN = "–"


def lines_of(snapshot: Snapshot) -> list[str]:
    """State first, then load, every GPU, cautions and the verdict."""
    head = f"{snapshot.title or 'no server'}: {snapshot.state}"
    if snapshot.progress.phase.value != snapshot.state.value:
        head += f", {snapshot.progress.phase.value}"
    if snapshot.state_reason:
        head += f" ({snapshot.state_reason})"
    lines = [head + (" [rehearsal]" if snapshot.rehearsal else "")]
    version = snapshot.sglang_version or snapshot.version_note
    lines.append(_row("SGLang", version or _UNKNOWN, "model", snapshot.model or _UNKNOWN))
    pool = ("KV tokens", _count(snapshot.kv_tokens), "pool used", _percent(snapshot.token_usage))
    speed = ("tok/s", _number(snapshot.gen_tok_s, 1), "accept length", _number(snapshot.accept_len, 2))
    lines.append(_row(*pool, *speed, "running", _count(snapshot.running), "queued", _count(snapshot.queue)))
    lines += [_gpu(bar) for bar in snapshot.gpus]
    if snapshot.gpu_error:
        lines.append(f"GPUs: {snapshot.gpu_error}")
    lines += [f"Differs: {text}" for text in snapshot.disagreements]
    lines += [f"Caution: {caution.text}" for caution in snapshot.warnings]
    if snapshot.verdict is not None:
        lines += [f"Verdict: {snapshot.verdict.title}", f"  {snapshot.verdict.why}"]
    return [_clean(line) for line in lines]


def _gpu(bar: GpuBar) -> str:
    if bar.error:
        return f"GPU {bar.index} {bar.name}: {bar.error}"
    parts = [f"{name} {_gib(bar.segments.get(name, Amount()))}" for name in SEGMENTS]
    what = "host" if bar.kind == "host" else f"GPU {bar.index}"
    rank = f" {bar.rank}" if bar.rank else ""
    return f"{what}{rank}: {', '.join(parts)} of {_number(bar.total_gib, 2)} GiB{' (tightest)' if bar.tight else ''}"


def _row(*pairs: str) -> str:
    return "  ".join(f"{name} {value}" for name, value in zip(pairs[::2], pairs[1::2], strict=True))


def _gib(amount: Amount) -> str:
    return _number(amount.gib, 2)


def _number(value: float | None, digits: int) -> str:
    return _UNKNOWN if value is None else f"{value:.{digits}f}"


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{100 * value:.0f} %"


def _clean(text: str) -> str:
    """Log text and process names may hold escape sequences; nothing but text goes to the terminal."""
    return "".join(char if char.isprintable() else "�" for char in text)
