"""The forecast against a real server: its own token count out of its own P and A, and a plan made before the launch."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import layout
import psutil
import pytest
import serving

from tui.commands.plan import add_arguments
from tui.commands.plan_inputs import gather
from tui.forecast import Forecast, forecast
from tui.forecast.checkpointfacts import model_facts
from tui.sglang.budget import PoolInputs, size_pool
from tui.sglang.kvcell import cell_size
from tui.sglang.memknobs import memory_knobs
from tui.sglang.versions import parse_version
from tui.sources.checkpoints import read_checkpoint, read_draft

pytestmark = pytest.mark.sglang

VERSION = parse_version("0.5.23")
WEIGHTS = re.compile(r"Load weight begin\. avail mem=([\d.]+) GB")
LOADED = re.compile(r"Load weight end\. .*avail mem=([\d.]+) GB")
TOKENS = re.compile(r"max_total_num_tokens=(\d+)")
FLOOR = re.compile(r"minimum viable = 1 - available/pre = ([\d.]+)")
DRAFTS = {"tiny-plain": None, "tiny-eagle3": "tiny-eagle3", "tiny-standalone": "tiny-draft-near"}
# Of this machine's memory. The server's own allocations between the last log line and the pool (up to 0.05 GiB) must be
# small beside the pool for a comparison within 2 %.
FRACTIONS = (0.2, 0.25, 0.3)
NOISE_BYTES = 300 << 20


def plan(profile: str, fraction: float) -> Forecast:
    """What `specdeck plan` works out before the launch."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    knobs = ["--set", "max-total-tokens=", "--set", f"mem-fraction-static={fraction}"]
    inputs = gather(parser.parse_args([str(layout.PROFILES / f"{profile}.toml"), *knobs, "--sglang-version", "0.5.23"]))
    return forecast(inputs.version, inputs.machine, inputs.model, inputs.knobs)


def cell_of(profile: str, models: Path) -> float:
    """Bytes per token by the checkpoints' headers."""
    knobs = serving.tomllib.loads((layout.PROFILES / f"{profile}.toml").read_text())["knobs"]
    target = models / "tiny-llama"
    draft = DRAFTS[profile]
    facts = model_facts(VERSION, read_checkpoint(target), read_draft(target, models / draft) if draft else None, knobs)
    algorithm = memory_knobs(knobs).speculative_algorithm
    return cell_size(VERSION, facts.target, algorithm=algorithm, draft=facts.draft).total


@pytest.fixture
def quiet() -> Callable[[], bool]:
    """Whether this machine has, once the server ended, the memory it had before the test."""
    before = psutil.virtual_memory().available

    def judge() -> bool:
        return abs(psutil.virtual_memory().available - before) < NOISE_BYTES

    return judge


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("profile", sorted(DRAFTS))
def test_tokens_of_a_real_server(launch, models, quiet, profile, fraction) -> None:
    before = plan(profile, fraction)
    with launch(profile, {"max-total-tokens": None, "mem-fraction-static": fraction}) as server:
        server.wait_for_line("Engine startup timings")  # after the summary of the pool
        log = server.text()
    tokens = int(TOKENS.search(log)[1])
    free_before, available = float(WEIGHTS.search(log)[1]), float(LOADED.findall(log)[-1])
    own = size_pool(
        PoolInputs(
            version=VERSION, free_before_gib=free_before, available_gib=available, fraction=fraction,
            cell_bytes=cell_of(profile, models),
        )
    )  # fmt: skip
    assert own.tokens == pytest.approx(tokens, rel=0.02)
    assert before.fits is True
    if not quiet():
        pytest.skip("other programs moved this machine's memory meanwhile: a plan made before cannot be judged")
    assert before.kv_tokens_low <= tokens <= before.kv_tokens_high
    assert before.kv_tokens == pytest.approx(tokens, rel=0.1)


def test_a_refused_fraction_was_refused_by_plan(launch) -> None:
    before = plan("tiny-plain", 0.0001)
    assert (before.fits, before.verdict.kind) == (False, "weights-over-budget")
    with launch("tiny-plain", {"max-total-tokens": None, "mem-fraction-static": 0.0001}) as server:
        server.wait_exit(serving.READY_LIMIT_S)
        log = server.text()
    free_before, available = float(WEIGHTS.search(log)[1]), float(LOADED.search(log)[1])
    assert float(FLOOR.search(log)[1]) == pytest.approx(1 - available / free_before, abs=0.003)
    assert before.fraction.floor == pytest.approx(float(FLOOR.search(log)[1]), abs=0.02)
