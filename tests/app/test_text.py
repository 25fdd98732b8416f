"""Text is harmless, fits its cells, and numbers carry what they mean."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.app.text import count, duration, escape, fit, gib, number, pad, percent, value, wrap

ANY_TEXT = st.text(st.characters(), max_size=60)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]52;c;QQ==\x07", "\\x1b]52;c;QQ==\\x07"),
        ("a\nb\rc\x00d", "a\\x0ab\\x0dc\\x00d"),
        ("tab\there", "tab here"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\ud800", "\\ud800"),
        ("é ü 漢字", "é ü 漢字"),
        ("\U000e0001tag", "\\U000e0001tag"),
    ],
)
def test_what_a_terminal_may_act_upon_is_written_out(raw: str, shown: str) -> None:
    assert escape(raw) == shown


@given(ANY_TEXT)
def test_escaped_text_holds_nothing_that_is_not_plainly_printable(text: str) -> None:
    for char in escape(text):
        assert unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"}


def test_a_huge_string_is_cut_before_it_costs_anything() -> None:
    assert len(escape("\x1b" * 10_000_000, most=100)) <= 400


@given(ANY_TEXT, st.integers(-2, 40))
def test_fitted_text_never_takes_more_cells(text: str, width: int) -> None:
    assert cell_len(fit(escape(text), width)) <= max(0, width)


@given(ANY_TEXT, st.integers(1, 40))
def test_padded_text_takes_exactly_its_cells(text: str, width: int) -> None:
    assert cell_len(pad(escape(text), width)) == width


@given(ANY_TEXT, st.integers(2, 30))
def test_wrapping_keeps_every_character_in_order_and_in_its_width(text: str, width: int) -> None:
    harmless = escape(text)
    lines = wrap(harmless, width)
    assert "".join("".join(lines).split()) == "".join(harmless.split())
    assert all(cell_len(line) <= width for line in lines)


def test_unknown_is_a_dash_and_never_nought() -> None:
    assert (gib(None), number(None), count(None), percent(None), duration(None)) == ("–", "–", "–", "–%", "–")


@pytest.mark.parametrize(
    ("fraction", "shown"), [(0.0, "0%"), (0.0001, "1%"), (0.62, "62%"), (0.9999, "99%"), (1.0, "100%"), (1.2, "120%")]
)
def test_a_percentage_is_full_or_empty_only_when_it_is(fraction: float, shown: str) -> None:
    assert percent(fraction) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0s"), (59.9, "59s"), (724, "12m04s"), (11100, "3h05m"), (187_200, "2d04h"), (-3, "0s")]
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_thousands_are_grouped() -> None:
    assert count(116707) == "116 707"


def test_knob_values_read_as_on_a_command_line() -> None:
    assert [value(v) for v in (None, True, False, 0.85, ["a", 1], "\x07")] == [
        "not set",
        "on",
        "off",
        "0.85",
        "a 1",
        "\\x07",
    ]
