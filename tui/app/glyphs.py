"""The characters of the screen, in two sets: Unicode, and plain ASCII where letters stand for the segments."""

from collections.abc import Mapping
from dataclasses import fields

from tui.frozen import frozen


@frozen(kw_only=False)
class Glyphs:
    """`segments`: one character per kind of `tui.app.bars.KINDS`. The rest is named for its use."""

    segments: Mapping[str, str]
    tick: str
    tight: str
    cursor: str
    rule: str
    mark: str
    edge: str
    dot: Mapping[str, str]  # per state
    progress: tuple[str, str]
    arrow: str
    warn: str
    cross: str
    ghost: str
    sep: str
    ellipsis: str
    plot_marker: str


LETTERS = {"base": "B", "draft": "D", "graphs": "G", "kv-used": "K", "kv": "k", "other": "O", "foreign": "F"}
BLOCKS = {"base": "█", "draft": "▓", "graphs": "▒", "kv-used": "■", "kv": "□", "other": "░", "foreign": "╳"}

UNICODE = Glyphs(
    segments={**BLOCKS, "free": "·", "unknown": "╌"},
    tick="┃",
    tight="◂",
    cursor="▸",
    rule="─",
    mark="┊",
    edge="▌",
    dot={
        "running": "●",
        "starting": "◐",
        "stopping": "◑",
        "failed": "✗",
        "exited": "○",
        "stopped": "○",
        "unknown": "?",
    },
    progress=("█", "░"),
    arrow="→",
    warn="▲",
    cross="✗",
    ghost="╰",
    sep="·",
    ellipsis="…",
    plot_marker="braille",
)

ASCII = Glyphs(
    segments={**LETTERS, "free": ".", "unknown": "?"},
    tick="|",
    tight="<",
    cursor=">",
    rule="-",
    mark=":",
    edge="|",
    dot={
        "running": "*",
        "starting": "~",
        "stopping": "~",
        "failed": "X",
        "exited": "o",
        "stopped": "o",
        "unknown": "?",
    },
    progress=("#", "."),
    arrow="->",
    warn="!",
    cross="X",
    ghost="\\",
    sep="-",
    ellipsis="~",
    plot_marker="*",
)


def glyphs(ascii_only: bool, no_colour: bool) -> Glyphs:
    """The set for a terminal: without colour the segments are letters, whatever else it can draw."""
    if ascii_only:
        return ASCII
    if not no_colour:
        return UNICODE
    return Glyphs(
        segments={**LETTERS, "free": "·", "unknown": "?"},
        **{one.name: getattr(UNICODE, one.name) for one in fields(Glyphs) if one.name != "segments"},
    )


def glyphs_of(app: object) -> Glyphs:
    """Those that an app draws with: ours has chosen, any other has Unicode."""
    chosen: Glyphs = getattr(app, "glyphs", UNICODE)
    return chosen
