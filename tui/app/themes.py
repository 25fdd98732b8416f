"""Our themes: dark, light, high contrast, and one of the terminal's own 16 colours.

The segment colours of the first three are apart in lightness and from blue to yellow, so that people with red-green
blindness can tell them apart too (tests compute it); glyphs and letters say the same again.
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
            "faint": "#6d7a86",
            "strong": "#ffffff",
            "seg-base": "#3b6fdb",
            "seg-draft": "#f7d038",
            "seg-graphs": "#cb93f5",
            "seg-kv-used": "#8fe8d2",
            "seg-kv": "#6dbd8b",
            "seg-other": "#7d838f",
            "seg-foreign": "#d1560f",
            "seg-free": "#3a414c",
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
        accent="#8a5000",
        warning="#7a5600",
        error="#b03600",
        success="#00705a",
        foreground="#1c2328",
        background="#fbfbf8",
        surface="#f0f0ea",
        panel="#e4e4dc",
        dark=False,
        variables={
            "quiet": "#5a6670",
            "faint": "#868e95",
            "strong": "#000000",
            "seg-base": "#3f7fe8",
            "seg-draft": "#d99400",
            "seg-graphs": "#6d2aa8",
            "seg-kv-used": "#15796a",
            "seg-kv": "#67a898",
            "seg-other": "#2f3338",
            "seg-foreign": "#d0240a",
            "seg-free": "#bcc8cd",
            "tick": "#000000",
            "line-speed": "#005f99",
            "line-accept": "#8a5000",
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
            "seg-base": "#5b8cff",
            "seg-draft": "#ffe31c",
            "seg-graphs": "#cfa6ff",
            "seg-kv-used": "#b5ffe3",
            "seg-kv": "#72cc9c",
            "seg-other": "#858893",
            "seg-foreign": "#ff5a1f",
            "seg-free": "#55596a",
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
