"""Two runs in plain words."""

import pytest

from tui.runs.comparing import compare, economy_lines, speed_text, text_lines
from tui.runs.summary import SpeedRow, Summary
from tui.sglang.economics import BatchSpeed


def speed(
    batch: int, tok_s: float, samples: int = 12, context: float | None = 300.0, accept: float | None = None
) -> BatchSpeed:
    return BatchSpeed(
        batch=batch, tok_s=tok_s, samples=samples, low=tok_s - 0.5, high=tok_s + 0.5, context_tokens=context,
        accept_len=accept,
    )  # fmt: skip


def summary(run: str, *speeds: BatchSpeed, **more: object) -> Summary:
    told = {"outcome": "stopped", "ready_s": 300.0, "phases_s": {"loading weights": 250.0}, **more}
    return Summary(run=run, speeds=tuple(SpeedRow(speed=one) for one in speeds), **told)


def test_the_sentence_of_the_story() -> None:
    ratio, text = speed_text(1, speed(1, 82.0), speed(1, 89.5))
    assert ratio == pytest.approx(89.5 / 82)
    assert text == "89.5 against 82 tok/s at batch 1 (+9 %), 12 samples each, spread 89–90 against 81.5–82.5."


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (None, speed(1, 80.0), "the first run did not serve this batch size, so not comparable"),
        (speed(1, 80.0), None, "the second run did not serve"),
        (speed(1, 80.0, context=300), speed(1, 80.0, context=9000), "not comparable, the load differed"),
        (speed(1, 80.0, samples=2), speed(1, 90.0), "12 and 2 samples"),
        (speed(1, 80.0, samples=2), speed(1, 90.0), "too few samples"),
        (speed(1, 80.0), speed(1, 80.3), "within the spread"),
    ],
)
def test_what_cannot_be_relied_on_is_said(old: BatchSpeed | None, new: BatchSpeed | None, words: str) -> None:
    assert words in speed_text(1, old, new)[1]


def test_equal_batch_sizes_are_compared_and_no_others() -> None:
    found = compare([summary("a", speed(1, 82.0), speed(8, 500.0)), summary("b", speed(1, 89.5), speed(16, 900.0))])
    assert [one.batch for one in found.speeds] == [1]
    nothing = compare([summary("a", speed(1, 82.0)), summary("b", speed(8, 500.0))])
    assert [one.ratio for one in nothing.speeds] == [None, None]
    assert all("not comparable" in one.text for one in nothing.speeds)


def test_knobs_memory_and_start_stand_side_by_side() -> None:
    first = summary(
        "a",
        knobs={"tp-size": 8, "cuda-graph-max-bs": 512},
        memory_gib={"base": 72.33, "graphs_base": 0.9, "free": 19.0},
    )
    second = summary(
        "b",
        knobs={"tp-size": 8, "cuda-graph-max-bs": 128, "enable-metrics": True},
        memory_gib={"base": 72.33, "draft": 1.5, "graphs_base": 0.3, "graphs_draft": 0.1, "free": 11.0},
        ready_s=None,
        outcome="failed to start",
    )
    found = compare([first, second])
    assert found.knobs == {"cuda-graph-max-bs": (512, 128), "enable-metrics": (None, True)}
    assert found.memory["graphs"] == (0.9, 0.4)
    assert found.memory["draft"] == (None, 1.5)
    text = "\n".join(text_lines(found, 80, ascii_only=True))
    assert "cuda-graph-max-bs                  A: 512  B: 128" in text
    assert "enable-metrics                     A: unset  B: on" in text
    assert "draft    A: –  B: 1.50" in text
    assert "b was never ready" in text
    bars = [line.split()[1] for line in text.splitlines() if line.startswith(("  A BB", "  B BB"))]
    assert len(bars) == 2
    assert bars[0].count("B") == bars[1].count("B")
    assert "D" not in bars[0]
    assert "D" in bars[1]


def test_speculation_is_judged_when_one_of_them_has_it() -> None:
    plain = summary("a", speed(1, 89.5), speed(32, 1400.0), kv_tokens=116_000, fraction=0.85)
    spec = summary(
        "b", speed(1, 150.0, accept=2.5), speed(32, 1100.0, accept=2.4), kv_tokens=100_000, fraction=0.85,
        algorithm="EAGLE3",
    )  # fmt: skip
    found = compare([plain, spec])
    assert [one.verdict for one in found.economy] == ["pays", "does not pay"]
    assert found.turns_over is not None
    assert "16 000 KV tokens" in found.kv
    assert "It turns over at about batch" in "\n".join(text_lines(found))
    assert compare([plain, summary("c", speed(1, 80.0))]).economy == ()


def test_one_run_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="two runs"):
        compare([summary("a")])


def test_of_several_runs_each_sentence_names_its_two() -> None:
    runs = [
        summary("slow", speed(1, 82.0)),
        summary("plain", speed(1, 89.5), speed(8, 500.0)),
        summary("spec", speed(1, 120.0, accept=2.3), algorithm="EAGLE3"),
        summary("best", speed(1, 160.0, accept=2.7), algorithm="EAGLE3"),
    ]
    found = compare(runs)
    assert [one.text[:14] for one in found.speeds] == ["B against A: 8", "C against A: 1", "D against A: 1"]
    assert found.pair == (3, 1)  # the fastest with speculation against the fastest without, whatever comes first
    assert economy_lines(found)[0] == "D against B, the fastest of each kind:"
    assert found.economy[0].speed_up == pytest.approx(160.0 / 89.5)
    assert compare(runs[:2]).speeds[0].text.startswith("89.5 against 82")
    assert compare(runs[:2]).pair is None
    assert compare([summary("a"), summary("b", algorithm="NGRAM")]).pair == (1, 0)
