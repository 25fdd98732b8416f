"""`i`: every segment, several knobs and the numbers of the status line, each with its source and its formula."""

from dataclasses import replace

import pytest

from tui.app.explain import MOVES, bar_entries, entry_lines, equation, plan_entries
from tui.app.explain_knobs import knob_entry
from tui.app.explain_numbers import number_entries
from tui.app.main import SpecdeckApp
from tui.app.screens.explaining import bar_lines, screen_lines
from tui.app.screens.reader import Reader
from tui.app.widgets.canvas import length
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.knobs import Knobs
from tui.app.widgets.rows import Rows
from tui.snapshot import SEGMENTS, RankMemory

RANKS = tuple(
    RankMemory(
        rank=f"TP{index}",
        free_before=94.08 + 0.01 * index,
        base=72.33,
        draft=1.5,
        kv_base=7.64,
        kv_draft=0.06,
        graphs_base=1.9,
        graphs_draft=0.2,
        kv_tokens=116_707,
    )
    for index in range(8)
)


@pytest.fixture
def serving(fake):
    """A server whose log told its memory."""
    return replace(fake.serving(), ranks=RANKS)


def rows(entry):
    return dict(entry.rows)


def by_name(entries):
    return {entry.name: entry for entry in entries}


def test_every_segment_tells_its_size_its_source_and_what_moves_it(serving):
    found = by_name(bar_entries(serving.gpus[0], serving))
    assert set(found) == {*SEGMENTS, "total", "budget"}
    for name in SEGMENTS:
        assert found[name].size != "–"
        assert found[name].source == "measured"
        assert rows(found[name])["from"]
        assert "moves with" in rows(found[name]) or "note" in rows(found[name])
    assert set(MOVES) <= set(SEGMENTS)


def test_the_formulas_have_the_numbers_of_this_server(serving):
    found = by_name(bar_entries(serving.gpus[0], serving))
    assert rows(found["base"])["is"] == "this rank's share of 578.64 GiB on all 8 ranks"
    assert rows(found["graphs"])["is"].startswith("target 1.90 + draft 0.20")
    kv = rows(found["kv"])["is"]
    assert kv.startswith("target 7.64 + draft 0.06. The pool: A - P x (1 - f) = 21.75 - 94.08 x (1 - 0.85) = 7.64 GiB")
    assert "116 707 tokens of 68.6 KiB; 62%" in kv
    assert "another amount" not in kv
    assert "95.59 total - 72.33 base - 1.50 draft" in rows(found["other"])["is"]
    assert rows(found["budget"])["is"] == "P x f = 94.08 x 0.85 = 79.97 GiB"


def test_a_pool_that_is_not_what_the_equation_gives_is_said(serving):
    capped = replace(serving, ranks=tuple(replace(rank, kv_base=3.0) for rank in RANKS))
    assert "another amount" in rows(by_name(bar_entries(capped.gpus[0], capped))["kv"])["is"]


def test_the_draft_counts_inside_the_fraction_where_this_sglang_counts_it_so(serving):
    later = replace(serving, sglang_version="0.5.14")
    old, new = equation(serving), equation(later)
    assert old is not None
    assert new is not None
    assert old.available - new.available == pytest.approx(1.5)


@pytest.mark.parametrize(
    "change", [{"sglang_version": None}, {"sglang_version": "0.3.0"}, {"fraction": None}, {"ranks": ()}]
)
def test_without_a_part_of_it_there_is_no_equation(serving, change):
    snapshot = replace(serving, **change)
    assert equation(snapshot) is None
    assert bar_entries(snapshot.gpus[0], snapshot)
    assert knob_entry("mem-fraction-static", 0.85, "profile", "", snapshot).rows


def test_unknown_is_never_zero(fake):
    found = by_name(bar_entries(fake.loading().gpus[0], fake.loading()))
    assert (found["kv"].size, found["kv"].source, rows(found["kv"])["from"]) == ("–", "unknown", "not logged")


def test_the_plan_tells_its_own_sources(fake):
    found = by_name(plan_entries(fake.fitting().bars[0]))
    assert set(found) == set(SEGMENTS)
    assert found["kv"].size == "2.94"


@pytest.mark.parametrize(
    ("name", "now", "words"),
    [
        ("mem-fraction-static", 0.85, "The floor, 1 - A/P = 0.7688"),
        (
            "mem-fraction-static",
            0.85,
            "A step of 0.01 moves 0.94 GiB from the slack to the KV cache, about 14 371 tokens",
        ),
        ("cuda-graph-max-bs", 128, "2 x 128 = 256 MiB less"),
        ("chunked-prefill-size", 8192, "1.5 x 8192 = 12 288 MiB"),
        ("kv-cache-dtype", "auto", "now 68.6 KiB: 116 707 in 7.64 GiB"),
        ("speculative-algorithm", "EAGLE3", "1.50 GiB on a rank. A step gives 2.31 tokens now"),
        ("speculative-num-steps", 2, "2 draft steps that keep the best 4 continuations each, of which 4 tokens"),
        ("context-length", 262144, "the longest request"),
        ("max-running-requests", 48, "how many requests"),
        ("tp-size", 8, "72.33 GiB of 578.64 on each of 8 ranks"),
    ],
)
def test_knobs_tell_what_they_move(serving, name, now, words):
    assert words in rows(knob_entry(name, now, "profile", "SGLang's help.", serving))["moves"]


def test_a_knob_tells_its_value_its_origin_and_what_it_will_be(serving):
    entry = knob_entry("cuda-graph-max-bs", 128, "server", "Help.", serving, pending=256)
    assert entry.size == "128 -> 256"
    assert rows(entry)["from"].startswith("SGLang chose it")
    assert rows(entry)["is"] == "Help."
    assert "2 x 256 = 512 MiB" in rows(entry)["moves"]
    assert rows(knob_entry("no-such-flag", "x", "profile", "", serving))["is"] == "SGLang gives no help for it."


def test_the_automatic_fraction_tells_how_it_was_chosen(serving):
    formula = "(97887 - 22336) / 97887 = 0.772"
    assert rows(knob_entry("mem-fraction-static", None, "", "", serving, how=formula))["by itself"] == formula
    budget = by_name(bar_entries(serving.gpus[0], serving, formula))["budget"]
    assert formula in rows(budget)["f is"]


@pytest.mark.parametrize("state", ["empty", "no_machine", "loading", "serving", "cautioned", "crashed", "hostile"])
def test_every_number_of_every_state_is_explained_and_nothing_is_wider_than_the_screen(fake, state):
    snapshot = getattr(fake, state)()
    for width in (60, 76, 98):
        lines = screen_lines(snapshot, width)
        lines += [line for bar in snapshot.gpus for line in bar_lines(bar, snapshot, bar, "", width)]
        lines += [
            line
            for knob in snapshot.knobs
            for line in entry_lines([knob_entry(knob.name, knob.value, knob.origin, "", snapshot)], width, "")
        ]
        assert all(length(line) <= width for line in lines)
        assert not any("\x1b" in text for line in lines for text, _ in line)


def test_the_status_line_of_a_serving_server_is_explained(serving):
    found = by_name(number_entries(serving))
    for name in ("state", "SGLang", "tok/s", "accept length", "KV %", "running, queued", "baseline", "live"):
        assert found[name].rows, name
    assert "/v1/loads" in rows(found["tok/s"])["from"]
    silent = replace(serving, ages=replace(serving.ages, endpoint_s=60.0))
    assert "decode line" in rows(by_name(number_entries(silent))["tok/s"])["from"]


async def test_i_explains_what_has_the_focus_and_the_screen_otherwise(fake, serving):
    app = SpecdeckApp(fake.FakeFeed(replace(serving, warnings=fake.cautioned().warnings), fake.fitting()))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("i")
        await until_reader(pilot, "To look at")
        await pilot.press("escape")
        app.dashboard.query_one(GpuBars).focus()
        await pilot.press("i")
        await until_reader(pilot, "A - P x (1 - f) =")
        await pilot.press("escape")
        knobs = app.dashboard.query_one(Knobs)
        knobs.focus()
        knobs.select("mem-fraction-static")
        await pilot.press("minus")
        await until(pilot, lambda: app.dashboard.plan is not None)
        await pilot.press("i")
        await until_reader(pilot, "0.85 -> 0.84")
        await pilot.press("escape")
        app.dashboard.query_one(GpuBars).focus()
        await pilot.press("i")
        await until_reader(pilot, "What the plan makes of it")


async def until(pilot, done):
    for _ in range(500):
        if done():
            return
        await pilot.pause(0.02)
    pytest.fail("it does not come")


async def until_reader(pilot, words):
    def shown():
        screen = pilot.app.screen
        return isinstance(screen, Reader) and words in screen.query_one("#reader-body", Rows).text()

    await until(pilot, shown)
