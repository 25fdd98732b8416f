"""Versions, their order and the eras they belong to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.sglang.versions import (
    Era,
    draft_counted_before_pool,
    era,
    find_era,
    inflates_tokens,
    parse_version,
)


def version(text):
    parsed = parse_version(text)
    assert parsed is not None, text
    return parsed


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("0.5.9", (0, 5, 9)),
        ("0.5.3.post3", (0, 5, 3)),
        ("0.5.10rc1", (0, 5, 10)),
        ("0.5.12+cu129", (0, 5, 12)),
        ("v0.4.6.post5", (0, 4, 6)),
        ("0.5.6.post3.dev1011+g1a2b3c", (0, 5, 6)),
        (" 0.5\n", (0, 5, 0)),
    ],
)
def test_release_number(text, release):
    assert version(text).release == release


@pytest.mark.parametrize("text", [None, "", "unknown", "main", "0.5.x", "sglang 0.5.9", "5", "0.5.9-"])
def test_what_is_no_version(text):
    assert parse_version(text) is None


def test_order():
    ascending = ["0.4.9.post6", "0.5.10.dev3", "0.5.10a1", "0.5.10rc1", "0.5.10rc2", "0.5.10", "0.5.10.post1", "0.5.11"]
    assert sorted(map(version, reversed(ascending))) == list(map(version, ascending))
    assert len(set(map(version, ascending))) == len(ascending)


def test_local_part_does_not_order():
    assert version("0.5.12+cu129") == version("0.5.12")
    assert str(version("0.5.12+cu129")) == "0.5.12+cu129"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("0.4.6", "0.4.6.post5", Era.B),
        ("0.4.7", "0.5.2", Era.C),
        ("0.5.3", "0.5.6.post2", Era.D),
        ("0.5.7", "0.5.9", Era.E),
        ("0.5.10rc1", "0.5.13", Era.F),
        ("0.5.14", "0.5.23", Era.G),
    ],
)
def test_eras_at_both_ends(first, last, expected):
    assert era(version(first)) is expected
    assert era(version(last)) is expected
    assert find_era(version(last)).warning is None


def test_newer_than_known_is_the_last_era_with_a_warning():
    finding = find_era(version("0.6.0"))
    assert finding.era is Era.G
    assert finding.warning is not None
    assert "0.6.0" in finding.warning
    assert "0.5.23" in finding.warning


def test_too_old_has_no_era_and_a_reason():
    finding = find_era(version("0.4.5"))
    assert finding.era is None
    assert finding.reason is not None
    assert "0.4.6" in finding.reason


def test_unknown_version_is_never_guessed():
    finding = find_era(None)
    assert finding.era is None
    assert finding.reason
    assert draft_counted_before_pool(None) is None
    assert inflates_tokens(None) is None


def test_predicates_change_at_their_borders():
    assert [draft_counted_before_pool(version(text)) for text in ("0.5.13", "0.5.14")] == [False, True]
    assert [inflates_tokens(version(text)) for text in ("0.5.6", "0.5.7")] == [True, False]
    assert [version(text).at_least(0, 5, 10) for text in ("0.5.9", "0.5.10rc1", "0.5.10")] == [False, True, True]


@given(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 30)), st.integers(0, 9))
def test_post_release_is_later_but_in_the_same_era(release, number):
    text = ".".join(map(str, release))
    plain, post = version(text), version(f"{text}.post{number}")
    assert plain < post
    assert era(plain) is era(post)
    assert version(f"{text}rc{number}") < plain


@given(st.lists(st.tuples(st.just(0), st.integers(4, 6), st.integers(0, 30)), min_size=2, max_size=2))
def test_eras_never_go_backwards(releases):
    earlier, later = sorted(version(".".join(map(str, release))) for release in releases)
    order = [None, *Era]
    assert order.index(era(earlier)) <= order.index(era(later))
