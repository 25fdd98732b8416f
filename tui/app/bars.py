"""Strip maths of the GPU bars: from GiB to whole cells. Pure; no Textual."""

from collections.abc import Sequence

from tui.snapshot import GpuBar

# What a cell of a bar can be, left to right. The kv segment is split into the part that holds tokens and the rest.
KINDS = ("base", "draft", "graphs", "kv-used", "kv", "other", "foreign", "free", "unknown")
# Less than this is drawn as nothing: it would be written 0.00.
NOTHING_GIB = 0.005


def apportion(values: Sequence[float], width: int) -> list[int]:
    """Whole cells for each value, summing to `width`: largest remainder, and at least one cell for what is not zero.

    When there are more values than cells, the largest values get one each. All zero gives all zeros.
    """
    total = sum(values)
    if width <= 0 or total <= 0:
        return [0] * len(values)
    present = [i for i, value in enumerate(values) if value > 0]
    if len(present) >= width:
        chosen = set(sorted(present, key=lambda i: (-values[i], i))[:width])
        return [1 if i in chosen else 0 for i in range(len(values))]
    quotas = [value / total * width for value in values]
    cells = [int(quota) for quota in quotas]
    for i in present:
        cells[i] = max(1, cells[i])
    by_remainder = sorted(present, key=lambda i: (cells[i] - quotas[i], i))
    while (spare := width - sum(cells)) != 0:
        if spare > 0:
            for i in by_remainder[:spare]:
                cells[i] += 1
        else:
            cells[max(present, key=lambda i: (cells[i] - quotas[i], cells[i]) if cells[i] > 1 else (-1e9, 0))] -= 1
    return cells


def parts(bar: GpuBar) -> list[tuple[str, float]]:
    """(kind, GiB) of a bar, left to right. What the known segments leave of the total is of kind "unknown"."""
    sizes = [(name, _size(bar, name)) for name in ("base", "draft", "graphs")]
    kv = _size(bar, "kv")
    used = min(kv, max(0.0, bar.kv_used_gib or 0.0))
    sizes.append(("kv-used", used))
    sizes.append(("kv", kv - used))
    sizes += [(name, _size(bar, name)) for name in ("other", "foreign", "free")]
    if bar.total_gib is not None:
        sizes.append(("unknown", max(0.0, bar.total_gib - sum(size for _, size in sizes))))
    return [(kind, size if size >= NOTHING_GIB else 0.0) for kind, size in sizes]


def bar_cells(bar: GpuBar, scale_gib: float, width: int) -> list[tuple[str, int]]:
    """Runs (kind, cells) of a bar drawn to the scale `scale_gib` GiB = `width` cells; runs of no cells are left out.

    The runs sum to the bar's own length, which is `width` for the largest GPU and less for smaller ones.
    """
    length = bar_length(bar, scale_gib, width)
    sizes = parts(bar)
    cells = apportion([size for _, size in sizes], length)
    return [(kind, count) for (kind, _), count in zip(sizes, cells, strict=True) if count]


def bar_length(bar: GpuBar, scale_gib: float, width: int) -> int:
    """How many cells long the bar is."""
    total = bar.total_gib if bar.total_gib is not None else sum(size for _, size in parts(bar))
    if scale_gib <= 0 or total <= 0 or width <= 0:
        return 0
    return max(1, min(width, round(total / scale_gib * width)))


def tick_cell(bar: GpuBar, scale_gib: float, width: int) -> int | None:
    """The cell that holds the end of the static budget, or None when it is unknown or off the bar."""
    length = bar_length(bar, scale_gib, width)
    if bar.budget_gib is None or not bar.total_gib or length == 0 or bar.budget_gib < 0:
        return None
    return min(length - 1, int(bar.budget_gib / bar.total_gib * length))


def over_budget(bar: GpuBar) -> bool:
    """Whether the weights cross the budget, so that no KV cache can be."""
    weights = _size(bar, "base") + _size(bar, "draft")
    return bar.budget_gib is not None and weights > bar.budget_gib


def scale_of(bars: Sequence[GpuBar]) -> float:
    """GiB of the longest bar: all bars are drawn to one scale."""
    return max((bar.total_gib or sum(size for _, size in parts(bar)) for bar in bars), default=0.0)


def used_fraction(bar: GpuBar) -> float | None:
    """The share of the GPU that is not free, 0..1."""
    free = free_gib(bar)
    if free is None or not bar.total_gib:
        return None
    return min(1.0, max(0.0, 1 - free / bar.total_gib))


def segment_gib(bar: GpuBar, name: str) -> float | None:
    """GiB of a segment, or None when not known."""
    amount = bar.segments.get(name)
    return amount.gib if amount else None


def free_gib(bar: GpuBar) -> float | None:
    """Free GiB, or None when not known."""
    return segment_gib(bar, "free")


def kv_fraction(bar: GpuBar) -> float | None:
    """The share of the KV cache that holds tokens, or None when not known."""
    kv = segment_gib(bar, "kv")
    return bar.kv_used_gib / kv if bar.kv_used_gib is not None and kv else None


def tightest(bars: Sequence[GpuBar]) -> GpuBar | None:
    """The bar by which all is judged: the marked one, else the first."""
    return next((bar for bar in bars if bar.tight), bars[0] if bars else None)


def _size(bar: GpuBar, name: str) -> float:
    return max(0.0, segment_gib(bar, name) or 0.0)
