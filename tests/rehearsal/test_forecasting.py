"""What the forecast says of a rehearsal is what the rehearsal server then does."""

import pytest

from tui.facts import PoolSummary
from tui.forecast import Forecast, forecast
from tui.rehearsal.forecasting import rehearsal_learned, rehearsal_machine, rehearsal_model
from tui.rehearsal.gpus import RehearsalGpus
from tui.rehearsal.machine import Machine, parse_machine
from tui.rehearsal.scenarios import SCENARIOS
from tui.sglang.versions import parse_version

KNOBS = {"model-path": "/models/Kimi-K2.5", "tp-size": 8, "context-length": 131072, "cuda-graph-max-bs": 128}
DRAFT = {
    "speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "/models/Kimi-K2.5-EAGLE3",
    "speculative-num-steps": 2, "speculative-eagle-topk": 4, "speculative-num-draft-tokens": 4,
}  # fmt: skip


def predict(version: str, machine: Machine | None = None, **knobs: object) -> Forecast:
    given = {**KNOBS, **{name.replace("_", "-"): value for name, value in knobs.items()}}
    return forecast(
        parse_version(version),
        rehearsal_machine(machine or Machine()),
        rehearsal_model(given),
        given,
        rehearsal_learned(given),
    )


def test_the_story() -> None:
    refused = predict("0.5.9", **DRAFT)
    assert refused.fits is False
    assert refused.fraction is not None
    assert refused.fraction.value == pytest.approx(0.7596, abs=0.0001)
    assert refused.fraction.first_working == 0.769
    assert refused.free_before.gib == pytest.approx(94.08)
    assert refused.available.gib == pytest.approx(21.75)
    works = predict("0.5.9", **DRAFT, mem_fraction_static=0.85)
    assert works.fits is True
    assert works.kv_tokens == 116707


@pytest.mark.parametrize("version", ["0.4.6", "0.5.5", "0.5.12", "0.5.23"])
def test_prediction_and_rehearsal_agree(start, eagle3, graphs, version: str) -> None:
    told = predict(version, **DRAFT, mem_fraction_static=0.85)
    server = start(version, (*eagle3, *graphs(version, 128), "--mem-fraction-static", "0.85"))
    server.wait_ready()
    summary = next(fact for fact in server.read() if isinstance(fact, PoolSummary))
    assert told.kv_tokens == summary.max_total_num_tokens


def test_a_small_machine_and_any_path(start) -> None:
    machine = parse_machine("1x24564MiB")
    knobs = {"model-path": "org/some-8b", "tp-size": 1, "context-length": 8192}
    told = predict("0.5.12", machine, mem_fraction_static=0.85, **knobs)
    flags = ("--model-path", "org/some-8b", "--context-length", "8192", "--mem-fraction-static", "0.85")
    server = start("0.5.12", (*flags, "--cuda-graph-max-bs", "128"), machine=machine)
    server.wait_ready()
    (rank,) = server.ledger()
    assert (rank.rank, rank.base, rank.kv_tokens) == ("TP0", 14.99, told.kv_tokens)
    assert " TP0]" not in server.text()


def test_what_another_program_holds_counts(tmp_path) -> None:
    sample = RehearsalGpus(tmp_path / "none", Machine(), SCENARIOS["foreign"].foreign_gib).sample(0.0)
    machine = rehearsal_machine(Machine(), sample)
    assert [round(gpu.free_gib_now or 0) for gpu in machine.gpus] == [95, 95, 95, 83, 95, 95, 95, 95]
