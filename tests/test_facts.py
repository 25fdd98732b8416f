"""What a verdict offers to apply."""

from tui.facts import Fix, Verdict

FIRST = Fix(knob="mem-fraction-static", old=0.9, new=0.85, why="more slack")
SECOND = Fix(knob="cuda-graph-max-bs", old=512, new=128, why="smaller graphs")


def verdict(kind: str) -> Verdict:
    return Verdict(kind=kind, title="", why="", confidence="certain", fixes=(FIRST, SECOND))


def test_fixes_are_alternatives_and_the_best_one_is_applied() -> None:
    assert verdict("capture-oom").remedy == (FIRST,)


def test_a_renamed_flag_is_taken_out_and_put_in_together() -> None:
    assert verdict("bad-flag").remedy == (FIRST, SECOND)
