"""Our themes: dark, light, high contrast, and one of the terminal's own 16 colours.

The segment colours follow Okabe and Ito's palette, which people with red-green blindness can tell apart; glyphs and
letters say the same again.
"""

from textual.theme import BUILTIN_THEMES, Theme

DARK = "specdeck-dark"
LIGHT = "specdeck-light"
CONTRAST = "specdeck-contrast"
ANSI = "specdeck-ansi"


def _dark() -> Theme:
    return Theme(
        name=DARK,
        primary="#56b4e9",
        secondary="#8fa3b3",
        accent="#e69f00",
        warning="#f0c23c",
        error="#ff7a4d",
        success="#2fbf9b",
        foreground="#d6dde3",
        background="#12161a",
        surface="#1a2026",
        panel="#222a32",
        variables={
            "quiet": "#8494a1",
            "faint": "#4a5661",
            "strong": "#ffffff",
            "seg-base": "#3f8fd2",
            "seg-draft": "#e69f00",
            "seg-graphs": "#cc79a7",
            "seg-kv-used": "#2fbf9b",
            "seg-kv": "#1d7d66",
            "seg-other": "#8494a1",
            "seg-foreign": "#ff7a4d",
            "seg-free": "#3a444d",
            "tick": "#ffffff",
            "line-speed": "#56b4e9",
            "line-accept": "#e69f00",
        },
    )


def _light() -> Theme:
    return Theme(
        name=LIGHT,
        primary="#005f99",
        secondary="#4a5a68",
        accent="#9a5b00",
        warning="#8a6100",
        error="#b83c00",
        success="#00705a",
        foreground="#1c2328",
        background="#fbfbf8",
        surface="#f0f0ea",
        panel="#e4e4dc",
        dark=False,
        variables={
            "quiet": "#5a6670",
            "faint": "#a9b1b8",
            "strong": "#000000",
            "seg-base": "#0072b2",
            "seg-draft": "#d08700",
            "seg-graphs": "#b0568a",
            "seg-kv-used": "#007a5c",
            "seg-kv": "#5fb39c",
            "seg-other": "#7d8891",
            "seg-foreign": "#c84a00",
            "seg-free": "#c3c9cd",
            "tick": "#000000",
            "line-speed": "#005f99",
            "line-accept": "#9a5b00",
        },
    )


def _contrast() -> Theme:
    return Theme(
        name=CONTRAST,
        primary="#ffff00",
        secondary="#ffffff",
        accent="#00ffff",
        warning="#ffff00",
        error="#ff9a66",
        success="#66ffcc",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#1a1a1a",
        variables={
            "quiet": "#ffffff",
            "faint": "#9a9a9a",
            "strong": "#ffffff",
            "seg-base": "#66b8ff",
            "seg-draft": "#ffb733",
            "seg-graphs": "#ff9ed0",
            "seg-kv-used": "#33ffc4",
            "seg-kv": "#1fae87",
            "seg-other": "#c8c8c8",
            "seg-foreign": "#ff7a3d",
            "seg-free": "#707070",
            "tick": "#ffffff",
            "line-speed": "#ffff00",
            "line-accept": "#00ffff",
        },
    )


def _ansi() -> Theme:
    plain = "ansi_default"
    return Theme(
        name=ANSI,
        ansi=True,
        primary="ansi_bright_blue",
        secondary="ansi_cyan",
        accent="ansi_yellow",
        warning="ansi_yellow",
        error="ansi_bright_red",
        success="ansi_green",
        foreground=plain,
        background=plain,
        surface=plain,
        panel=plain,
        boost=plain,
        variables={
            **BUILTIN_THEMES["ansi-dark"].variables,
            "quiet": plain,
            "faint": "ansi_bright_black",
            "strong": plain,
            "seg-base": "ansi_bright_blue",
            "seg-draft": "ansi_yellow",
            "seg-graphs": "ansi_bright_magenta",
            "seg-kv-used": "ansi_bright_green",
            "seg-kv": "ansi_green",
            "seg-other": plain,
            "seg-foreign": "ansi_bright_red",
            "seg-free": "ansi_bright_black",
            "tick": plain,
            "line-speed": "ansi_bright_blue",
            "line-accept": "ansi_yellow",
        },
    )


def themes() -> tuple[Theme, ...]:
    """Every theme of ours."""
    return _dark(), _light(), _contrast(), _ansi()


def variable_defaults() -> dict[str, str]:
    """What a theme that is not ours needs so that our style sheet works with it."""
    return dict(_dark().variables)
