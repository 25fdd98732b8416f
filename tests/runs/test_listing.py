"""The history: rows, order, what the operator adds, what is damaged, what is removed."""

import json
import os
from collections.abc import Callable

import pytest

from tui.facts import Exited
from tui.procid import process_id
from tui.runs import benches, listing, summaries
from tui.runs.history import row_of
from tui.runs.runtext import plain, run_lines, table_lines
from tui.runs.store import Run, RunStore, process_json

Make = Callable[..., Run]
AT = 1_800_000_000.0


def names(rows: list[listing.Row]) -> list[str]:
    return [row.name for row in rows]


def test_rows_are_made_of_what_is_there(made: Make, store: RunStore) -> None:
    first = made(at=AT, knobs={"cuda-graph-max-bs": 512})
    second = made(at=AT + 600, knobs={"cuda-graph-max-bs": 128}, exited=Exited(at=AT + 660, code=1))
    other = made("llama", at=AT + 300, knobs={"tp-size": 1})
    table = listing.rows(store)
    assert names(table) == [second.name, other.name, first.name]
    assert [row.outcome for row in table] == ["failed to start", "stopped before ready", "stopped before ready"]
    assert table[0].change == "cuda-graph-max-bs 512 -> 128"
    assert table[0].summary is not None
    assert table[0].summary.previous == first.name
    assert table[1].change == ""
    assert summaries.load(first.path) is not None  # kept, so that the next list is quick


def test_a_damaged_folder_is_shown_and_the_others_work(made: Make, store: RunStore) -> None:
    good, no_command, garbage = made(at=AT), made(at=AT + 60), made(at=AT + 120)
    half = made(at=AT + 180)
    listing.rows(store)  # all of them have summaries
    (no_command.path / "command.json").unlink()
    (garbage.path / "command.json").write_text("{")
    (garbage.path / "summary.json").write_text("[1]")
    (half.path / "summary.json").write_text('{"run": 3, "speeds": 7}')
    table = listing.rows(store)
    by_name = {row.name: row for row in table}
    assert by_name[good.name].outcome == "stopped before ready"
    assert by_name[no_command.name].outcome == "damaged"
    assert by_name[garbage.name].outcome == "damaged"
    assert by_name[half.name].outcome == "stopped before ready"
    lines = table_lines(table)
    assert len(lines) == 5
    assert "command.json is missing" in "\n".join(lines)


def test_sorting_puts_the_baseline_first_and_the_unknown_last(made: Make, store: RunStore) -> None:
    runs = [made(at=AT + 60 * i) for i in range(4)]
    for run, tokens in zip(runs, (500, None, 900, 100), strict=True):
        summary = summaries.ensure(run)
        data = json.loads(run.summary.read_text())
        data["kv_tokens"] = tokens
        run.summary.write_text(json.dumps(data))
        assert summary is not None
    table = listing.rows(store)
    assert names(listing.sort(table, "tokens")) == [runs[i].name for i in (2, 0, 3, 1)]
    assert names(listing.sort(table, "time", reverse=True)) == [run.name for run in runs]
    listing.pin(runs[3], store)
    assert names(listing.sort(listing.rows(store), "tokens"))[0] == runs[3].name
    listing.pin(runs[0], store)
    assert [row.name for row in listing.rows(store) if row.notes.baseline] == [runs[0].name]
    pinned = listing.baseline(store)
    assert pinned is not None
    assert pinned.run == runs[0].name
    listing.unpin(runs[0])
    assert listing.baseline(store) is None
    for key in listing.SORTS:
        assert len(listing.sort(table, key)) == 4


def test_filtering_by_words(made: Make, store: RunStore) -> None:
    a = made("kimi", at=AT, knobs={"speculative-algorithm": "EAGLE3"})
    b = made("llama", at=AT + 60)
    listing.annotate(b, "The GOOD one")
    table = listing.rows(store)
    assert names(listing.matching(table, "eagle3 kimi")) == [a.name]
    assert names(listing.matching(table, "good")) == [b.name]
    assert names(listing.matching(table, "eagle3 llama")) == []
    assert len(listing.matching(table, "")) == 2


def test_notes_and_pins_do_not_lose_each_other(made: Make, store: RunStore) -> None:
    run = made()
    listing.pin(run, store)
    listing.annotate(run, "faster")
    assert listing.notes_of(run.path) == listing.Notes("faster", True)
    listing.unpin(run)
    assert listing.notes_of(run.path) == listing.Notes("faster", False)


def test_a_living_run_is_not_deleted(made: Make, store: RunStore) -> None:
    run = made()
    me = process_id(os.getpid())
    assert me is not None
    (run.path / "keeper.json").write_text(json.dumps({"server": process_json(me), "keeper": None}))
    with pytest.raises(listing.RunBusyError, match="still running"):
        listing.delete(store.load(run.name))
    assert run.path.exists()
    (run.path / "keeper.json").unlink()
    listing.delete(store.load(run.name))
    assert store.names() == []
    assert list(store.folder.iterdir()) == []


def test_text_of_a_log_cannot_drive_the_terminal(made: Make) -> None:
    run = made(exited=Exited(at=AT + 60, code=1))
    summary = summaries.make(run)
    listing.annotate(run, "\x1b[2Jgone\nline")
    text = "\n".join(run_lines(summary, listing.notes_of(run.path)))
    assert "\x1b" not in text
    assert plain("a\tb\x07") == "a·b·"


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("summary.json", {"kv_tokens": "many"}),
        ("summary.json", {"started_at": "yesterday"}),
        ("summary.json", {"started_at": 1e308}),
        ("summary.json", {"ready_s": float("nan"), "best_tok_s": float("inf")}),
        ("summary.json", {"knobs": [1], "changed": 7}),
        ("summary.json", {"memory_gib": {"base": "72"}}),
        ("summary.json", {"speeds": [{"speed": {"batch": "1", "tok_s": 80.0}}]}),
        ("summary.json", {"speeds": [{"speed": {"batch": None, "tok_s": None}}]}),
        ("summary.json", {"machine": {"total_mib": "much", "gpus": [7]}}),
        ("summary.json", {"outcome": 3}),
        ("command.json", {"started_at": 1e308}),
        ("command.json", {"port": float("inf")}),
        ("exit.json", {"at": -1.0}),
        ("exit.json", {"code": float("inf")}),
    ],
)
def test_no_value_of_one_file_breaks_the_list(made: Make, store: RunStore, file: str, change: dict) -> None:
    good, bad = made(at=AT), made(at=AT + 60)
    listing.rows(store)
    path = bad.path / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    if file != "summary.json":
        (bad.path / "summary.json").unlink()
    for key in listing.SORTS:
        table = listing.sort(listing.rows(store), key)
        assert sorted(names(table)) == [good.name, bad.name]
        assert len(table_lines(table)) == 3
        assert [row_of(row).name for row in table] == names(table)
    outcome = next(row.outcome for row in table if row.name == bad.name)
    assert outcome == ("stopped before ready" if file == "summary.json" else "damaged")


def test_a_damaged_run_stands_where_its_name_says(made: Make, store: RunStore) -> None:
    runs = [made(at=AT + 60 * i) for i in range(3)]
    (runs[1].path / "command.json").unlink()
    (runs[1].path / "summary.json").unlink(missing_ok=True)
    assert names(listing.sort(listing.rows(store), "time")) == [run.name for run in reversed(runs)]


def test_the_next_removal_clears_what_one_that_was_cut_short_left(made: Make, store: RunStore) -> None:
    run = made(at=AT)
    left = store.folder / ".gone-2026-11-29T20-00-01_base"
    left.mkdir()
    (left / "server.log").write_text("INFO\n")
    listing.delete(run)
    assert list(store.folder.iterdir()) == []


def test_what_is_no_folder_is_deleted_too(made: Make, store: RunStore) -> None:
    run = made(at=AT)
    stray, link = store.folder / "2026-11-29T20-00-01_file", store.folder / "2026-11-29T20-00-02_link"
    stray.touch()
    link.symlink_to(run.path)
    assert [row.outcome for row in listing.rows(store)].count("damaged") >= 1
    for path in (stray, link):
        listing.delete(store.load(path.name))
    assert store.names() == [run.name]
    assert (run.path / "command.json").exists()
    listing.delete(store.load("2026-11-29T20-00-03_gone"))  # somebody was faster


def test_a_bench_that_cannot_be_true_is_left_out(made: Make) -> None:
    run = made(at=AT)
    good = {
        "workload": "decode-1", "batch": 1, "at": AT, "wall_s": 1.0, "requests": 2, "failed": 0, "input_tokens": 8,
        "output_tokens": 64, "tok_s": 64.0, "engine": "specdeck",
    }  # fmt: skip
    wrong = ({"tok_s": "fast"}, {"batch": 0}, {"wall_s": 0}, {"workload": 1}, {"accept_len": float("nan")})
    (run.path / benches.NAME).write_text("".join(json.dumps({**good, **change}) + "\n" for change in ({}, *wrong)))
    assert [result.tok_s for result in benches.load(run.path)] == [64.0]
