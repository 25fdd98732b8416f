"""`specdeck plan`: the story's numbers, exit codes, the JSON contract, and what it says about a bad question."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from tui.cli import main
from tui.files import write_json
from tui.runs.store import RunStore
from tui.runs.summary import Summary, to_json
from tui.server.profiles import load

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "tests/schemas/plan.schema.json").read_text())
PROFILE = str(ROOT / "profiles/kimi-k2.5-eagle3.toml")
MACHINE = ["--gpus", "8x97887MiB", "--free-gib", "94.08"]
NUMBERS = [*MACHINE, "--base-gib", "72.33", "--kv-bytes-per-token", "70272"]
VISION = ["--vision-layers", "27", "--vision-hidden", "1152"]
STORY = [PROFILE, *NUMBERS, *VISION, "--set", "cuda-graph-max-bs=128"]
SERVERS = ROOT / "tests/fixtures/sglang-0.5.23"


@pytest.fixture
def plan(capsys, monkeypatch, tmp_path):
    """plan(arguments) -> (exit code, the JSON, checked against the schema), where nothing was launched before."""
    monkeypatch.setenv("SPECDECK_STATE_DIR", str(tmp_path))

    def run(*arguments):
        code = main(["plan", *arguments, "--json"])
        answer = json.loads(capsys.readouterr().out)
        jsonschema.validate(answer, SCHEMA)
        return code, answer

    return run


def set_to(fraction):
    return ["--set", f"mem-fraction-static={fraction}"]


def test_the_automatic_fraction_of_the_story_does_not_start(plan):
    code, answer = plan(*STORY, "--sglang-version", "0.5.9")
    assert code == 1
    assert answer["fits"] is False
    assert answer["verdict"]["kind"] == "weights-over-budget"
    assert round(answer["fraction"]["value"], 4) == 0.7596
    assert answer["fraction"]["source"] == "auto"
    assert round(answer["fraction"]["floor"], 4) == 0.7688
    assert answer["fraction"]["first_working"] == 0.769
    assert answer["kv_budget_gib"] == pytest.approx(-0.864, abs=0.001)
    assert answer["kv_tokens"] == 0
    assert answer["free_before_gib"] == 94.08
    assert answer["suggestion"]["knobs"] == {"mem-fraction-static": 0.85}
    assert answer["suggestion"]["kv_tokens"] == 116_707
    assert len(answer["gpus"]) == 8
    assert [gpu["tight"] for gpu in answer["gpus"]] == [True] + [False] * 7


@pytest.mark.parametrize(
    ("fraction", "code", "rest", "tokens"), [(0.76, 1, -0.83, 0), (0.769, 0, 0.02, 267), (0.85, 0, 7.64, 116_707)]
)
def test_fractions_of_the_story(plan, fraction, code, rest, tokens):
    found, answer = plan(*STORY, *set_to(fraction), "--sglang-version", "0.5.9")
    assert found == code
    assert answer["fraction"]["source"] == "given"
    assert round(answer["kv_budget_gib"], 2) == rest
    assert answer["kv_tokens"] == tokens
    assert answer["verdict"]["kind"] == ("none" if code == 0 else "weights-over-budget")


def test_without_speculation_the_story_starts_at_0_7787(plan):
    code, answer = plan(*STORY, "--set", "speculative-algorithm=")
    assert (code, round(answer["fraction"]["value"], 4)) == (0, 0.7787)
    code, answer = plan(*STORY, "--set", "speculative-algorithm=", "--set", "cuda-graph-max-bs=512")
    assert (code, round(answer["fraction"]["value"], 4)) == (0, 0.7715)


def test_from_0_5_14_on_the_draft_is_in_the_floor(plan):
    code, answer = plan(*STORY, "--sglang-version", "0.5.14", "--draft-gib", "1.5")
    assert code == 1
    assert round(answer["fraction"]["floor"], 4) == 0.7848
    assert answer["segments"]["draft"] == {"gib": 1.5, "source": "measured"}
    # With the suggestion it starts, and the exit code says so.
    code, again = plan(
        *STORY,
        "--sglang-version",
        "0.5.14",
        "--draft-gib",
        "1.5",
        *set_to(answer["suggestion"]["knobs"]["mem-fraction-static"]),
    )
    assert code == 0
    assert again["kv_tokens"] == answer["suggestion"]["kv_tokens"]


def test_a_draft_of_unknown_size_decides_nothing_it_cannot(plan):
    # 1.5 GiB more or less of draft decide between +0.4 and -3.4 GiB of KV: nobody can tell.
    code, answer = plan(*STORY, "--sglang-version", "0.5.14", *set_to(0.775))
    assert code == 2
    assert answer["fits"] is None
    assert answer["verdict"]["kind"] == "unknown"
    assert any("draft's size is not known" in text for text in answer["warnings"])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--gpus", "8x97887MiB", "--base-gib", "72.33"], "KV bytes per token"),
        ([*MACHINE, "--kv-bytes-per-token", "70272"], "size of the weights"),
        (["--free-gib", "94", "--base-gib", "72", "--kv-bytes-per-token", "70272"], "size of the GPUs"),
    ],
)
def test_what_is_missing_is_named(plan, monkeypatch, arguments, what):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # a machine without a driver, wherever this runs
    code, answer = plan(*arguments, "--sglang-version", "0.5.9")
    assert code == 2
    assert what in answer["verdict"]["text"]
    assert answer["suggestion"] is None or answer["suggestion"]["kv_tokens"] > 0


def test_an_unknown_version_is_not_guessed(plan):
    code, answer = plan(*NUMBERS)
    assert (code, answer["era"], answer["verdict"]["kind"]) == (2, None, "unknown")
    code, answer = plan(*NUMBERS, "--sglang-version", "0.4.1")
    assert code == 2
    assert "older than 0.4.6" in answer["verdict"]["text"]


def test_too_many_ranks_for_the_machine(plan):
    code, answer = plan(*STORY, "--set", "tp-size=16")
    assert (code, answer["verdict"]["kind"]) == (1, "does-not-fit")
    assert "needs 16 GPUs and there are 8" in answer["verdict"]["text"]
    assert answer["suggestion"] is None


@pytest.mark.parametrize("kind", ["plain", "eagle3", "standalone"])
def test_numbers_out_of_a_real_servers_log(plan, kind):
    log = (SERVERS / kind / "server.log").read_text()
    code, answer = plan("--from-log", str(SERVERS / kind / "server.log"), "--set", "mem-fraction-static=0.5")
    assert code == 0
    assert answer["era"] == "0.5.14 – 0.5.23"
    assert f"Load weight begin. avail mem={answer['free_before_gib']:.2f} GB" in log
    assert answer["kv_tokens"] == 20_000  # its arguments cap the pool
    code, answer = plan("--from-log", str(SERVERS / kind / "server.log"), "--set", "mem-fraction-static=0.0001")
    assert (code, answer["verdict"]["kind"]) == (1, "weights-over-budget")


def test_the_floor_agrees_with_a_servers_own_refusal(plan, tmp_path):
    lines = [
        "[2026-11-29 13:00:00] Load weight begin. avail mem=20.00 GB",
        "[2026-11-29 13:00:01] Load weight end. elapsed=1.00 s, type=LlamaForCausalLM, avail mem=19.50 GB, "
        "mem usage=0.50 GB.",
    ]
    log = tmp_path / "server.log"
    log.write_text("\n".join(lines) + "\n")
    _, answer = plan(
        "--from-log", str(log), "--gpus", "1x24564MiB", "--sglang-version", "0.5.23", *set_to(0.0001),
        "--kv-bytes-per-token", "16384",
    )  # fmt: skip
    # 1 - available/pre, as the ValueError of kv_cache_configurator.py prints it.
    assert f"{answer['fraction']['floor']:.4f}" == f"{1 - 19.5 / 20:.4f}"
    assert answer["fits"] is False


def test_for_people_it_shows_bar_numbers_verdict_and_suggestion(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["plan", *STORY]) == 1
    text = capsys.readouterr().out
    bar = next(line for line in text.splitlines() if line.startswith("GPU 0"))
    assert len(bar) <= 100
    assert bar.endswith("95.6 GiB")
    # The weights cross the tick of the budget.
    assert bar.index("┃") <= bar.rindex("█") + 2
    for part in ("0.7596 (automatic)", "floor 0.7688", "-0.86 GiB", "Will not start", "Try --mem-fraction-static 0.85"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Name a profile, or give the numbers"),
        (["no-such-profile"], "no-such-profile"),
        ([PROFILE, "--gpus", "eight"], "8x97887MiB"),
        ([PROFILE, "--gpus", "0x80GiB"], "8x97887MiB"),
        ([PROFILE, *MACHINE, "--set", "0.85"], "KNOB=VALUE"),
        ([PROFILE, *MACHINE, "--set", "tp-size=many"], "--tp-size needs a whole number"),
        ([PROFILE, *MACHINE, "--sglang-version", "newest"], "not a version"),
        ([PROFILE, *MACHINE, "--base-gib", "-3"], "--base-gib must be above 0"),
        ([PROFILE, *MACHINE, "--base-gib", "nan"], "--base-gib must be above 0"),
        (["--from-log", "/nonexistent/server.log"], "cannot be read"),
        (["--from-log", str(ROOT / "pyproject.toml")], "holds no memory lines"),
    ],
)
def test_a_bad_question_is_one_sentence_and_2(capsys, arguments, said):
    assert main(["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1


def test_it_never_loads_the_screen_or_the_driver(capsys, monkeypatch):
    for name in ("textual", "pynvml", "plotext"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it now fails
    assert main(["plan", *STORY, "--sglang-version", "0.5.9"]) == 1
    capsys.readouterr()


def test_what_earlier_launches_measured_counts_for_the_same_model_on_this_machine(plan, tmp_path):
    tiny, version = ROOT / "profiles/tiny-plain.toml", ["--sglang-version", "0.5.23"]
    folder = RunStore(tmp_path).folder / "2026-11-29T12-00-00_tiny-plain"
    folder.mkdir(parents=True)
    seen = Summary(
        run=folder.name, sglang_version="0.5.23", knobs=load(tiny).knobs, ready_s=20.0, overhead_gib=1.5,
        memory_gib={"base": 0.36},
    )  # fmt: skip

    def sources(*more):
        _, answer = plan(str(tiny), "--kv-bytes-per-token", "16384", *version, *set_to(0.5), *more)
        return answer["segments"]["base"]["source"], answer["segments"]["base"]["gib"]

    assert sources()[0] != "learned"
    write_json(folder / "summary.json", to_json(seen))
    assert sources() == ("learned", 0.36)
    assert sources("--set", "quantization=fp8")[0] != "learned"
    assert sources("--gpus", "1x24GiB")[0] != "learned"
    assert sources("--base-gib", "0.4") == ("measured", 0.4)
