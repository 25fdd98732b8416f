"""Knob steps, typed values, the keymap file, copies, and what the terminal can do."""

import os
from pathlib import Path

import pytest

from tui.app import clipboard, keymap
from tui.app.glyphs import ASCII, UNICODE, glyphs
from tui.app.knob_values import next_value, parse
from tui.app.plain import plain
from tui.app.screens.reader import help_lines
from tui.app.terminal import choose_theme, few_glyphs, refusal
from tui.app.text import width_of
from tui.port import FlagInfo


@pytest.mark.parametrize(
    ("name", "flag", "value", "up", "expected"),
    [
        ("speculative-num-steps", None, 4, True, 5),
        ("speculative-num-steps", None, 0, False, 0),
        ("cuda-graph-max-bs", None, 128, True, 256),
        ("context-length", None, 262144, False, 131072),
        ("mem-fraction-static", None, 0.85, True, 0.86),
        ("x", None, True, False, False),
        ("x", None, "/models/x", True, "/models/x"),
        ("x", FlagInfo("x", "bool"), None, True, True),
        ("x", FlagInfo("x", choices=("x", "y")), "y", True, "x"),
        ("x", FlagInfo("x", choices=("x", "y")), None, True, "x"),
    ],
)
def test_steps(name: str, flag: FlagInfo | None, value: object, up: bool, expected: object) -> None:
    assert next_value(name, value, up, flag) == expected


def test_typed_values() -> None:
    assert parse("a", " 12 ", FlagInfo("a", "int")) == 12
    assert parse("a", "0.85", FlagInfo("a", "float")) == 0.85
    assert parse("a", "off", FlagInfo("a", "bool")) is False
    assert parse("a", "x", FlagInfo("a", choices=("x",))) == "x"
    assert parse("a", "1 2, 4", FlagInfo("a", "int", many=True)) == [1, 2, 4]
    assert parse("a", '{"b": 1}', FlagInfo("a", "json")) == {"b": 1}
    assert parse("a", "4k", FlagInfo("a", "size")) == "4k"
    assert parse("a", "7", None, old=4) == 7
    assert parse("a", "text", None) == "text"
    assert parse("a", "", FlagInfo("a", "int")) is None


@pytest.mark.parametrize(
    ("flag", "typed", "words"),
    [
        (FlagInfo("a", "int"), "1.5", "needs a whole number"),
        (FlagInfo("a", "float"), "much", "needs a number"),
        (FlagInfo("a", "bool"), "perhaps", "is a switch"),
        (FlagInfo("a", choices=("x", "y")), "z", "not one of x, y"),
        (FlagInfo("a", "json"), "{", "needs JSON"),
        (FlagInfo("a", "str", many=True), "'x", "not closed"),
    ],
)
def test_what_cannot_be_is_refused_in_words(flag: FlagInfo, typed: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse("a", typed, flag)


def test_a_keymap_may_be_flat_or_in_tables(tmp_path: Path) -> None:
    path = tmp_path / "keymap.toml"
    path.write_text('"app.leave" = "Q"\n[knob]\nup = "x,plus"\n')
    assert keymap.load(path, ["app.leave", "knob.up"]) == {"app.leave": "Q", "knob.up": "x,plus"}
    assert keymap.load(tmp_path / "absent.toml", []) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "not TOML"),
        ('"no.such" = "x"', "no.such"),
        ('"app.leave" = 3', "must be a text"),
        ('"app.leave" = ""', "must be a text"),
    ],
)
def test_a_keymap_that_cannot_be_used_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "keymap.toml"
    path.write_text(text)
    with pytest.raises(keymap.KeymapError, match=words):
        keymap.load(path, ["app.leave"])


def test_folders_follow_xdg() -> None:
    assert keymap.config_folder({"XDG_CONFIG_HOME": "/c"}) == Path("/c/specdeck")
    assert keymap.config_folder({"HOME": "/h"}) == Path("/h/.config/specdeck")
    assert keymap.state_folder({"SPECDECK_STATE_DIR": "/s"}) == Path("/s")
    assert keymap.state_folder({"XDG_STATE_HOME": "/x"}) == Path("/x/specdeck")


def test_copies_have_a_cap_and_a_file(tmp_path: Path) -> None:
    assert clipboard.fits("x" * 50_000)
    assert not clipboard.fits("x" * 60_000)
    path = clipboard.save("a\udcffb", tmp_path / "new" / "folder")
    assert path.read_text() == "a?b"
    assert os.stat(path.parent).st_mode & 0o077 == 0
    assert [item.name for item in path.parent.iterdir()] == ["copied.txt"]


@pytest.mark.parametrize(
    ("environ", "asked", "theme"),
    [
        ({"TERM": "xterm-256color"}, None, "specdeck-dark"),
        ({"TERM": "tmux-256color"}, None, "specdeck-dark"),
        ({"TERM": "screen"}, None, "specdeck-ansi"),
        ({"TERM": "xterm"}, None, "specdeck-ansi"),
        ({"TERM": "linux"}, None, "specdeck-ansi"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, None, "specdeck-dark"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "light", "specdeck-ansi"),
        ({"TERM": "xterm-256color"}, "light", "specdeck-light"),
        ({"TERM": "xterm-256color"}, "nord", "nord"),
    ],
)
def test_the_theme_suits_the_terminal(environ: dict[str, str], asked: str | None, theme: str) -> None:
    assert choose_theme(asked, environ) == theme


def test_a_terminal_that_cannot_show_it_is_told_what_to_use() -> None:
    assert "specdeck status" in (refusal({"TERM": "dumb"}, True, True) or "")
    assert "specdeck status" in (refusal({"TERM": "xterm"}, False, True) or "")
    assert "specdeck status" in (refusal({"TERM": "xterm"}, True, False) or "")
    assert refusal({"TERM": "xterm"}, True, True) is None


def test_letters_stand_for_segments_without_colour_and_in_ascii() -> None:
    assert few_glyphs({"TERM": "linux"})
    assert glyphs(True, False) is ASCII
    assert glyphs(False, False) is UNICODE
    assert glyphs(False, True).segments["base"] == "B"
    assert glyphs(False, True).tick == UNICODE.tick


@pytest.mark.parametrize("chosen", [ASCII, UNICODE, glyphs(False, True)])
def test_every_segment_has_a_glyph_of_its_own(chosen) -> None:
    assert len(set(chosen.segments.values())) == len(chosen.segments)
    assert chosen.tick not in chosen.segments.values()


@pytest.mark.parametrize("text", ["58 °C, 8 × H20 … –", "╭─╮│╰╯ ↑↓ ▸█░", "模型 é 🔎", "", "plain"])
def test_what_is_not_ascii_becomes_so_in_as_many_cells(text: str) -> None:
    assert plain(text).isascii()
    assert len(plain(text)) == width_of(text)


def test_ascii_is_ascii() -> None:
    texts = [*ASCII.segments.values(), *ASCII.dot.values(), *ASCII.progress]
    texts += [getattr(ASCII, name) for name in ASCII.__slots__ if isinstance(getattr(ASCII, name), str)]
    assert "".join(texts).isascii()


def test_wide_help_is_in_two_columns_with_nothing_lost() -> None:
    entries = [(f"Group {group}", f"k{row}", f"does {group}.{row}") for group in range(8) for row in range(9)]
    wide = ["".join(text for text, _ in line) for line in help_lines(entries, "", 180, "keymap.toml")]
    narrow = help_lines(entries, "", 90, "keymap.toml")
    assert len(wide) < 0.7 * len(narrow)
    assert max(map(len, wide)) <= 180
    assert [words for _, _, words in entries if not any(words in line for line in wide)] == []
    assert wide[0].split() == ["Group", "0", "Words"]
    assert help_lines(entries, "nothing has this", 180, "keymap.toml") == []
