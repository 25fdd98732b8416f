"""A forecast in words, and the tightest GPU as a bar of characters. Lines without a line end."""

from collections.abc import Mapping, Sequence

from tui.forecast.amounts import high, low
from tui.forecast.result import Forecast, Suggestion
from tui.snapshot import Amount, GpuBar, Source
from tui.wording import count

_BLOCKS = {"base": "█", "draft": "▓", "graphs": "▒", "kv": "□", "other": "░", "foreign": "╳", "free": "·", "tick": "┃"}
_LETTERS = {"base": "B", "draft": "D", "graphs": "G", "kv": "k", "other": "O", "foreign": "F", "free": ".", "tick": "|"}
_NAMES = {
    "base": "base",
    "draft": "draft",
    "graphs": "graphs",
    "kv_base": "KV",
    "kv_draft": "draft KV",
    "state": "state",
    "other": "other",
    "free": "free",
}
_SOURCES = {"given": "given", "auto": "automatic", "fallback": "SGLang's fallback"}
_UNKNOWN = "–"


def lines_of(found: Forecast, *, width: int = 78, ascii_only: bool = False) -> list[str]:
    """The forecast for a terminal of `width` columns: bar, numbers, verdict, suggestion, warnings."""
    lines = [_heading(found)]
    bar = next((gpu.bar for gpu in found.gpus if gpu.bar.tight), None)
    if bar is not None and bar.total_gib:
        lines += bar_lines(bar, found.segments, width, ascii_only)
    lines += _numbers(found)
    lines += ["", found.verdict.text]
    if found.suggestion is not None:
        lines.append(_try(found.suggestion))
    lines += [f"What would help: {text}." for text in found.helps]
    lines += [f"Note: {text}" for text in found.warnings]
    return lines


def bar_lines(bar: GpuBar, segments: Mapping[str, Amount], width: int, ascii_only: bool) -> list[str]:
    """The bar, and under it what each glyph stands for."""
    signs = _LETTERS if ascii_only else _BLOCKS
    title = f"GPU {bar.index} " if bar.kind != "host" else "host  "
    total = bar.total_gib or 0.0
    end = f" {total:.1f} GiB"
    cells = max(10, width - len(title) - len(end))
    row = _cells(bar, cells, signs)
    if bar.budget_gib is not None and 0 < bar.budget_gib < total:
        at = min(cells - 1, int(bar.budget_gib / total * cells))
        row[at] = signs["tick"]
    legend = []
    for name, word in _NAMES.items():
        amount = segments.get(name)
        if amount is None or (amount.gib == 0 and name in ("draft", "kv_draft", "state")):
            continue
        sign = signs["kv" if name.startswith(("kv", "state")) else name]
        legend.append(f"{sign} {word} {_gib(amount)}")
    return [title + "".join(row) + end, *_wrapped(legend, width, " " * len(title))]


def _cells(bar: GpuBar, cells: int, signs: Mapping[str, str]) -> list[str]:
    """Each segment ends at its share of the bar, so rounding never adds up."""
    row, at, total = [signs["free"]] * cells, 0.0, bar.total_gib or 1.0
    for name in ("base", "draft", "graphs", "kv", "other", "foreign"):
        amount = bar.segments.get(name)
        size = (amount.gib if amount else None) or 0.0
        first, last = round(at / total * cells), round(min(total, at + size) / total * cells)
        row[first:last] = [signs[name]] * max(0, last - first)
        at += size
    return row[:cells]


def _wrapped(parts: Sequence[str], width: int, indent: str) -> list[str]:
    lines, current = [], indent
    for part in parts:
        if len(current) + len(part) + 3 > width and current != indent:
            lines.append(current.rstrip())
            current = indent
        current += part + "   "
    return [*lines, current.rstrip()]


def _heading(found: Forecast) -> str:
    version = f"SGLang {found.sglang_version}" if found.sglang_version else "SGLang of unknown version"
    era = f", by the rules of {found.era}" if found.era else ""
    return version + era


def _numbers(found: Forecast) -> list[str]:
    fraction = found.fraction
    value = _UNKNOWN if fraction.value is None else f"{fraction.value:.4f}"
    floor = _UNKNOWN if fraction.floor is None else f"{fraction.floor:.4f}"
    first = _UNKNOWN if fraction.first_working is None else f"{fraction.first_working:.3f}"
    source = _SOURCES.get(fraction.source, fraction.source)
    lines = [f"fraction   {value} ({source}); floor {floor}, first that starts {first}"]
    if fraction.source == "auto" and fraction.formula and fraction.value is not None:
        lines.append(f"           = {fraction.formula}")
    lines.append(f"memory     {_gib(found.free_before)} GiB free before weights, {_gib(found.available)} after")
    needed = found.needed
    if found.slack_gib is not None:
        need = "" if needed.gib is None else f", of which about {needed.gib:.2f} are needed{_span(needed)}"
        lines.append(f"slack      {found.slack_gib:.2f} GiB{need}")
    if found.kv_budget_gib is not None:
        lines.append(f"KV cache   {found.kv_budget_gib:+.2f} GiB, {_tokens(found)}")
    if found.max_running_requests is not None and found.request_table_gib is not None:
        lines.append(f"requests   {found.max_running_requests} slots, table of {found.request_table_gib:.2f} GiB")
    return lines


def _tokens(found: Forecast) -> str:
    if found.kv_tokens is None:
        return f"{_UNKNOWN} tokens"
    text = f"{count(found.kv_tokens)} tokens"
    if found.kv_tokens_low is None or found.kv_tokens_high is None or found.kv_tokens_low == found.kv_tokens_high:
        return text
    return f"{text} ({count(found.kv_tokens_low)} to {count(found.kv_tokens_high)})"


def _try(suggestion: Suggestion) -> str:
    knobs = " ".join(f"--{name} {value}" for name, value in suggestion.knobs.items())
    return f"Try {knobs}: {count(suggestion.kv_tokens)} tokens; it {suggestion.why}."


def _gib(amount: Amount) -> str:
    if amount.gib is None:
        return _UNKNOWN
    return f"{amount.gib:.2f}{'?' if amount.source is Source.ESTIMATED else ''}"


def _span(amount: Amount) -> str:
    least, most = low(amount), high(amount)
    return "" if least is None or most is None or most - least < 0.005 else f" ({least:.2f} to {most:.2f})"
