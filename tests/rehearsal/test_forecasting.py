"""What the forecast says of a rehearsal is what the rehearsal server then does."""

from pathlib import Path

import pytest

from tui.facts import PoolSummary
from tui.forecast import Forecast, Gpu, forecast
from tui.forecast import Machine as ForecastMachine
from tui.rehearsal.forecasting import rehearsal_learned
from tui.rehearsal.gpus import RehearsalGpus
from tui.rehearsal.machine import Machine, parse_machine
from tui.rehearsal.modelfacts import model_facts
from tui.sglang.versions import parse_version

KNOBS = {"model-path": "/models/Kimi-K2.5", "tp-size": 8, "context-length": 131072, "cuda-graph-max-bs": 128}
DRAFT = {
    "speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "/models/Kimi-K2.5-EAGLE3",
    "speculative-num-steps": 2, "speculative-eagle-topk": 4, "speculative-num-draft-tokens": 4,
}  # fmt: skip


def predict(version: str, idle: Path, machine: Machine | None = None, **knobs: object) -> Forecast:
    """As before a launch on the idle machine. `idle`: a state file that does not exist."""
    given = {**KNOBS, **{name.replace("_", "-"): value for name, value in knobs.items()}}
    readings = RehearsalGpus(idle, machine).sample(0.0).gpus
    gpus = tuple(
        Gpu(index=gpu.index, total_mib=(machine or Machine()).mib, free_gib_now=gpu.free_gib) for gpu in readings
    )
    return forecast(
        parse_version(version), ForecastMachine(gpus=gpus), model_facts(given), given, rehearsal_learned(given)
    )


def test_the_story(tmp_path: Path) -> None:
    refused = predict("0.5.9", tmp_path / "none", **DRAFT)
    assert refused.fits is False
    assert refused.fraction is not None
    assert refused.fraction.value == pytest.approx(0.7596, abs=0.0001)
    assert refused.fraction.first_working == 0.769
    assert refused.free_before.gib == pytest.approx(94.08)
    assert refused.available.gib == pytest.approx(21.75)
    works = predict("0.5.9", tmp_path / "none", **DRAFT, mem_fraction_static=0.85)
    assert works.fits is True
    assert works.kv_tokens == 116707


@pytest.mark.parametrize("version", ["0.4.6", "0.5.5", "0.5.12", "0.5.23"])
def test_prediction_and_rehearsal_agree(start, eagle3, graphs, tmp_path: Path, version: str) -> None:
    told = predict(version, tmp_path / "none", **DRAFT, mem_fraction_static=0.85)
    server = start(version, (*eagle3, *graphs(version, 128), "--mem-fraction-static", "0.85"))
    server.wait_ready()
    summary = next(fact for fact in server.read() if isinstance(fact, PoolSummary))
    assert told.kv_tokens == summary.max_total_num_tokens


def test_a_small_machine_and_any_path(start, tmp_path: Path) -> None:
    machine = parse_machine("1x24564MiB")
    knobs = {"model-path": "org/some-8b", "tp-size": 1, "context-length": 8192}
    told = predict("0.5.12", tmp_path / "none", machine, mem_fraction_static=0.85, **knobs)
    flags = ("--model-path", "org/some-8b", "--context-length", "8192", "--mem-fraction-static", "0.85")
    server = start("0.5.12", (*flags, "--cuda-graph-max-bs", "128"), machine=machine)
    server.wait_ready()
    (rank,) = server.ledger()
    assert (rank.rank, rank.base, rank.kv_tokens) == ("TP0", 14.99, told.kv_tokens)
    assert " TP0]" not in server.text()
