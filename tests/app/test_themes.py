"""What can be told apart on the screen, by whom, and what can be read: computed from the themes' own colours."""

import math
from itertools import combinations

import pytest

from tui.app.themes import themes

OURS = {theme.name: theme for theme in themes() if not theme.ansi}
TEXTS = ("foreground", "primary", "accent", "warning", "error", "success")
TEXT_VARIABLES = ("quiet", "strong", "line-speed", "line-accept")
# What an eye without one kind of cone sees, in linear RGB: Machado, Oliveira and Fernandes, 2009, severity 1.
EYES = {
    "all three cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
}


def linear(colour: str) -> tuple[float, ...]:
    shares = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)


def times(matrix, vector) -> tuple[float, ...]:
    return tuple(sum(factor * value for factor, value in zip(row, vector, strict=True)) for row in matrix)


def oklab(rgb: tuple[float, ...]) -> tuple[float, ...]:
    """Ottosson, 2020: a space in which equal distances look equally large."""
    to_cones = (
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005),
    )
    to_lab = (
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    )
    return times(to_lab, [cone ** (1 / 3) for cone in times(to_cones, rgb)])


def seen(colour: str, eye: str) -> tuple[float, ...]:
    return oklab(tuple(min(1.0, max(0.0, value)) for value in times(EYES[eye], linear(colour))))


def contrast(one: str, other: str) -> float:
    """WCAG 2: 1 for none, 21 for black on white."""
    low, high = sorted(
        sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear(c), strict=True)) for c in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


def segments(theme) -> dict[str, str]:
    return {name: colour for name, colour in theme.variables.items() if name.startswith("seg-")}


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", OURS.values(), ids=OURS)
def test_any_two_segments_look_different(theme, eye: str) -> None:
    """0.02 is a difference that is just seen side by side."""
    near = [
        (one, other, distance)
        for (one, a), (other, b) in combinations(segments(theme).items(), 2)
        if (distance := math.dist(seen(a, eye), seen(b, eye))) < 0.1
    ]
    assert near == []


@pytest.mark.parametrize("theme", OURS.values(), ids=OURS)
def test_text_can_be_read_on_every_ground(theme) -> None:
    texts = {name: getattr(theme, name) for name in TEXTS} | {name: theme.variables[name] for name in TEXT_VARIABLES}
    grounds = (theme.background, theme.surface, theme.panel)
    assert {name for name, colour in texts.items() if min(contrast(colour, g) for g in grounds) < 4.5} == set()
    assert min(contrast(theme.variables["faint"], ground) for ground in grounds) >= 2.5
    assert contrast(theme.variables["faint"], theme.background) >= 3.0


@pytest.mark.parametrize("theme", OURS.values(), ids=OURS)
def test_bars_stand_out_from_the_ground_and_free_memory_is_seen(theme) -> None:
    shares = {name: contrast(colour, theme.background) for name, colour in segments(theme).items()}
    assert {name for name, share in shares.items() if share < (1.5 if name == "seg-free" else 2.4)} == set()


def test_the_theme_of_the_terminal_uses_its_sixteen_colours_only() -> None:
    (theme,) = (theme for theme in themes() if theme.ansi)
    colours = [getattr(theme, name) for name in TEXTS] + [*segments(theme).values(), theme.background, theme.panel]
    assert [colour for colour in colours if not colour.startswith("ansi_")] == []
