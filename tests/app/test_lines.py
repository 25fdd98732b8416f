"""What the lines of the screen say, without a screen."""

from dataclasses import replace

import pytest

from tui.app.glyphs import ASCII, UNICODE
from tui.app.widgets.canvas import Line, length
from tui.app.widgets.gpu_bars import Layout, bar_line, ghost_line, in_order, label
from tui.app.widgets.legend import gpu_title, legend
from tui.app.widgets.plot import chart, mark_columns
from tui.app.widgets.status_line import stale_sources, status
from tui.app.widgets.verdict_card import as_text, card
from tui.snapshot import Ages, Phase, PlotMark, State


def said(line: Line) -> str:
    return "".join(text for text, _ in line)


STATES = ("empty", "no_machine", "serving", "cautioned", "loading", "crashed", "replayed", "many", "hostile")


@pytest.mark.parametrize("width", [1, 20, 40, 80, 120, 200])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_nothing_is_wider_than_the_screen(fake, state: str, width: int, glyphs) -> None:
    snapshot = getattr(fake, state)()
    if width >= 40:
        assert length(status(snapshot, width, glyphs)) <= width
        assert length(gpu_title(snapshot, width)) <= width
    if width >= 78:
        for bar in snapshot.gpus:
            assert length(legend(bar, width, glyphs)) <= width
    if snapshot.gpus and width >= 40:
        layout = Layout(snapshot.gpus, width)
        for bar in snapshot.gpus:
            assert length(bar_line(bar, layout, glyphs, cursor=False)) <= width
    if snapshot.verdict:
        for line in card(snapshot.verdict, width, 8, glyphs):
            assert length(line) <= max(width, 20)


def test_serving_says_speed_acceptance_occupancy_and_requests(fake) -> None:
    line = said(status(fake.serving(), 120, UNICODE))
    for words in (
        "kimi-eagle3",
        "serving",
        "12m04s",
        "89.5 tok/s",
        "accept 2.31",
        "KV 62%",
        "12 running",
        "3 queued",
        "0.5.9",
    ):
        assert words in line
    assert line.rstrip().endswith("live")


def test_a_narrow_line_keeps_what_matters_most(fake) -> None:
    line = said(status(fake.serving(), 60, UNICODE))
    assert "serving" in line
    assert "89.5 tok/s" in line
    assert "SGLang" not in line


@pytest.mark.parametrize(
    "phase", [phase for phase in Phase if phase.value not in ("no server", "serving", "stopping", "ended")]
)
def test_every_phase_of_a_start_is_named_with_its_time(fake, phase: Phase) -> None:
    line = said(status(fake.loading(phase), 160, UNICODE))
    assert phase.value in line
    assert "of ~8m00s" in line
    if fake.PHASES[phase][1] is not None:
        assert f"{fake.PHASES[phase][1]:.0f}%" in line


def test_unknown_speed_is_a_dash(fake) -> None:
    snapshot = replace(fake.serving(), gen_tok_s=None, running=None)
    assert "– tok/s" in said(status(snapshot, 120, UNICODE))
    assert "– running" in said(status(snapshot, 120, UNICODE))


def test_a_failure_says_how_it_ended(fake) -> None:
    assert "failed: exit code 1 before it was ready" in said(status(fake.crashed(), 120, UNICODE))


def test_silence_is_named_with_its_age() -> None:
    ages = Ages(log_s=900.0, gpu_s=12.0, endpoint_s=75.0)
    assert stale_sources(ages, State.RUNNING) == ["GPU data 12s old", "server data 1m15s old"]
    assert stale_sources(Ages(log_s=900.0, gpu_s=1.0), State.RUNNING) == []
    assert stale_sources(ages, State.FAILED) == ["GPU data 12s old"]


def test_a_frozen_screen_says_so(fake) -> None:
    assert "FROZEN" in said(status(fake.serving(), 120, UNICODE, frozen=True))


def test_a_rehearsal_is_never_taken_for_the_real_thing(fake) -> None:
    for width in (40, 80, 120):
        assert "REHEARSAL" in said(status(fake.replayed(), width, UNICODE))


def test_a_bar_shows_every_segment_in_order_and_the_tick(fake) -> None:
    snapshot = fake.serving()
    line = said(bar_line(snapshot.gpus[0], Layout(snapshot.gpus, 120), UNICODE, cursor=False))
    positions = [line.index(glyph) for glyph in "█▓▒■□░·"]
    assert positions == sorted(positions)
    assert line.count("┃") == 1
    assert "10.82 GiB free" in line
    assert "89%" in line


def test_the_tightest_gpu_is_marked(fake) -> None:
    snapshot = fake.serving()
    layout = Layout(snapshot.gpus, 120)
    marked = [bar.index for bar in snapshot.gpus if "◂" in said(bar_line(bar, layout, UNICODE, cursor=False))]
    assert marked == [3]


def test_weights_over_the_budget_change_the_tick(fake) -> None:
    bar = fake.crashed().gpus[0]
    styles = [style for _, style in bar_line(bar, Layout((bar,), 120), UNICODE, cursor=False)]
    assert "tick-over" in styles
    assert "tick" not in styles


def test_a_gpu_that_is_lost_says_so_in_its_row(fake) -> None:
    bar = replace(fake.gpu(2), error="fallen off the bus")
    assert "fallen off the bus" in said(bar_line(bar, Layout((bar,), 80), UNICODE, cursor=False))


def test_a_plan_that_fails_says_so_and_one_that_fits_shows_its_room(fake) -> None:
    bars = fake.refused().bars
    layout = Layout(bars, 120)
    assert "will not start" in said(ghost_line(bars[0], layout, UNICODE, fits=False))
    assert "GiB free" in said(ghost_line(bars[0], layout, UNICODE, fits=True))


def test_kinds_of_memory_have_names(fake) -> None:
    names = [
        label(replace(fake.gpu(0), kind=kind, rank=rank))
        for kind, rank in (
            ("gpu", "TP0"),
            ("mig", None),
            ("unified", None),
            ("host", "TP0"),
            ("log", "TP7"),
            ("log", None),
        )
    ]
    assert names == ["GPU0 TP0", "MIG0", "UMA0", "RAM", "TP7", "rank 0"]


def test_a_few_gpus_keep_their_order_and_many_begin_with_the_tightest(fake) -> None:
    assert [bar.index for bar in in_order(fake.serving().gpus)] == list(range(8))
    ordered = in_order(fake.many().gpus)
    assert ordered[0].tight
    frees = [bar.segments["free"].gib for bar in ordered]
    assert frees == sorted(frees)


def test_the_legend_names_every_segment_with_the_tightest_gpus_numbers(fake) -> None:
    line = said(legend(fake.serving().gpus[3], 130, UNICODE))
    for words in (
        "base 72.33",
        "draft 1.50",
        "graphs 2.10",
        "KV 7.64 (62% full)",
        "other 1.90",
        "foreign 0.00",
        "free 10.12 GiB",
    ):
        assert words in line
    assert "budget 79.97" in line


def test_the_legend_shows_unknown_as_a_dash(fake) -> None:
    assert "draft –" in said(legend(fake.crashed().gpus[3], 130, UNICODE))


def test_the_card_keeps_title_and_fix_when_rows_are_few(fake) -> None:
    lines = [said(line) for line in card(fake.VERDICT, 78, 3, UNICODE)]
    assert len(lines) == 3
    assert "No room for the KV cache" in lines[0]
    assert "mem-fraction-static not set → 0.85" in lines[2]


def test_the_card_with_room_shows_reason_evidence_and_fix(fake) -> None:
    text = "\n".join(said(line) for line in card(fake.VERDICT, 118, 12, UNICODE))
    assert "it starts from 0.769" in text
    assert "log line 3119" in text
    assert "116 707 tokens" in text


def test_a_fix_keeps_its_whole_reason_where_the_card_is_narrow_but_has_rows(fake) -> None:
    [fix] = fake.VERDICT.fixes
    narrow = [said(line) for line in card(fake.VERDICT, 78, 8, UNICODE)]
    assert len(narrow) <= 8
    [at] = [at for at, line in enumerate(narrow) if "fix  " in line]
    assert fix.why not in narrow[at]
    assert fix.why in narrow[at + 1]


def test_a_doubtful_verdict_says_that_it_is(fake) -> None:
    assert "(likely)" in said(card(replace(fake.VERDICT, confidence="likely"), 118, 12, UNICODE)[0])


def test_no_control_key_is_offered_to_a_reader(fake) -> None:
    assert "apply" in said(card(fake.VERDICT, 118, 12, UNICODE)[0])
    assert "apply" not in said(card(fake.VERDICT, 118, 12, UNICODE, read_only=True)[0])


def test_the_whole_verdict_as_text(fake) -> None:
    text = as_text(fake.VERDICT)
    assert "missing_gib = 0.83" in text
    assert "fix: mem-fraction-static not set -> 0.85" in text


def test_marks_stand_where_they_happened(fake) -> None:
    marks = (PlotMark(at=50.0, text="launch"), PlotMark(at=100.0, text="exit"), PlotMark(at=-5.0, text="before"))
    assert mark_columns(marks, (0.0, 100.0), 40) == [(20, "launch"), (39, "exit")]


@pytest.mark.parametrize(("rows", "accepts"), [(12, True), (6, False)])
def test_the_chart_fills_its_rows_and_gives_acceptance_a_lane_when_there_is_room(
    fake, rows: int, accepts: bool
) -> None:
    edges = (fake.NOW - 250, fake.NOW + 50)
    lines = chart(fake.serving(), edges, (70, rows), UNICODE)
    assert len(lines) == rows
    assert ("accept" in {style for line in lines for _, style in line}) is accepts
    assert "ready" in said(lines[-1])


def test_an_empty_chart_says_what_to_do(fake) -> None:
    edges = (fake.NOW - 250, fake.NOW + 50)
    assert "L launches" in " ".join(said(line) for line in chart(fake.empty(), edges, (70, 8), UNICODE))
    assert "as soon as" in " ".join(said(line) for line in chart(fake.loading(), edges, (70, 8), UNICODE))
