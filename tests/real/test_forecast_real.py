"""The forecast against a real server: its own token count out of its own P and A, and a plan made before the launch."""

import argparse
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

import layout
import psutil
import pytest
import serving

from tui.cli import main
from tui.commands.plan import add_arguments
from tui.commands.plan_inputs import gather
from tui.forecast import Forecast, forecast
from tui.forecast.checkpointfacts import model_facts
from tui.sglang.budget import PoolInputs, size_pool
from tui.sglang.kvcell import cell_size
from tui.sglang.memknobs import memory_knobs
from tui.sglang.versions import parse_version
from tui.sources.checkpoints import read_checkpoint, read_draft
from tui.sources.host import ready_bytes

pytestmark = pytest.mark.sglang

VERSION = parse_version("0.5.23")
WEIGHTS = re.compile(r"Load weight begin\. avail mem=([\d.]+) GB")
LOADED = re.compile(r"Load weight end\. .*avail mem=([\d.]+) GB")
TOKENS = re.compile(r"max_total_num_tokens=(\d+)")
FLOOR = re.compile(r"minimum viable = 1 - available/pre = ([\d.]+)")
EXACT = re.compile(r"exact pre=([\d.]+) available=([\d.]+)")
DRAFTS = {"tiny-plain": None, "tiny-eagle3": "tiny-eagle3", "tiny-standalone": "tiny-draft-near"}
# Of this machine's memory. The server's own allocations between the last log line and the pool (up to 0.05 GiB) must be
# small beside the pool for a comparison within 2 %.
FRACTIONS = (0.2, 0.25, 0.3)
GIB = 1 << 30
# What other programs may take meanwhile: at the smallest fraction an error of about 2 %.
NOISE_BYTES = 100 << 20
ROUNDING_GIB = 0.02  # of two decimals, and of what the server itself does between the line and the pool
STILL_BYTES = 16 << 20
LIMIT_S, REFUSED_LIMIT_S = 300.0, 30.0
ATTEMPTS = 3


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


@dataclass(frozen=True, slots=True)
class Start:
    """A plan, and what the launch after it came to. `moved`: bytes that other programs took or gave back meanwhile.

    `logged` and `exact`: P and A in GiB, as the lines of the log round them and as the pool was sized with them.
    """

    before: Forecast
    tokens: int
    logged: tuple[float, float]
    exact: tuple[float, float]
    moved: float


def free_bytes() -> int:
    """Memory that can be had: a process that ended leaves some of its own on the lists of the CPUs for minutes."""
    return psutil.virtual_memory().available + ready_bytes()


def settled_memory() -> int:
    """Free bytes once they stand still: what a large process had comes back over seconds."""
    now = free_bytes()
    for _ in range(30):
        time.sleep(1.0)
        before, now = now, free_bytes()
        if abs(now - before) < STILL_BYTES:
            break
    return now


def start(launch, models: Path, profile: str, fraction: float) -> Start:
    """Plan, launch until the pool is made, end."""
    memory = settled_memory()
    before = plan(profile, fraction)
    knobs = {"max-total-tokens": None, "mem-fraction-static": fraction}
    with launch(profile, knobs, env={"PYTHONPATH": str(layout.HERE / "exact")}) as server:
        server.wait_for_line("Engine startup timings", LIMIT_S)  # after the summary of the pool
        log = server.text()
    moved = abs(settled_memory() - memory)
    free_before, available = float(WEIGHTS.search(log)[1]), float(LOADED.findall(log)[-1])
    folders = [models / name for name in ("tiny-llama", DRAFTS[profile]) if name]
    weights = sum(path.stat().st_size for folder in folders for path in folder.glob("*.safetensors"))
    # While the weights were loaded, nothing but them may have taken memory.
    moved = max(moved, abs((free_before - available) * GIB - weights))
    exact = tuple(map(float, EXACT.search(log).groups()))
    return Start(before, int(TOKENS.search(log)[1]), (free_before, available), exact, moved)


def tokens_of(profile: str, models: Path, fraction: float, found: tuple[float, float]) -> int:
    """The pool out of a server's own P and A."""
    inputs = PoolInputs(
        version=VERSION, free_before_gib=found[0], available_gib=found[1], fraction=fraction,
        cell_bytes=cell_of(profile, models),
    )  # fmt: skip
    return size_pool(inputs).tokens


def misses(told: Start) -> list[str]:
    """In what a plan was wrong about the launch after it."""
    planned, tokens = told.before, told.tokens
    found = {
        "the verdict": planned.fits is not True,
        "the interval": not planned.kv_tokens_low <= tokens <= planned.kv_tokens_high,
        "the plan": planned.kv_tokens != pytest.approx(tokens, rel=0.1),
    }
    return [what for what, missed in found.items() if missed]


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("profile", sorted(DRAFTS))
def test_tokens_of_a_real_server(launch, models, profile, fraction) -> None:
    for _ in range(ATTEMPTS):
        told = start(launch, models, profile, fraction)
        own, rounded = (tokens_of(profile, models, fraction, found) for found in (told.exact, told.logged))
        planned, tokens = told.before, told.tokens
        print(
            f"{profile} at {fraction}: {tokens} tokens; {own} by its own P and A {told.exact}, {rounded} by its log's "
            f"{told.logged}; planned {planned.kv_tokens} ({planned.kv_tokens_low} to {planned.kv_tokens_high}) "
            f"of P {planned.free_before.gib:.2f}; {planned.kv_tokens / tokens - 1:+.1%}, "
            f"others moved {told.moved / GIB:.2f} GiB"
        )
        assert own == pytest.approx(tokens, rel=0.02)
        if told.logged == pytest.approx(told.exact, abs=ROUNDING_GIB):  # nobody took memory between line and pool
            assert rounded == pytest.approx(tokens, rel=0.02)
        wrong = misses(told)
        if not wrong or told.moved <= NOISE_BYTES:
            break
    else:
        pytest.skip(f"other programs moved this machine's memory in {ATTEMPTS} launches: no plan can be judged")
    assert wrong == []


def refused(launch, fraction: float) -> tuple[Forecast, str, float, float]:
    """A plan, then of the launch that was refused: the floor as its log says it, and its P and A in GiB."""
    for _ in range(ATTEMPTS):
        settled_memory()
        before = plan("tiny-plain", fraction)
        knobs = {"max-total-tokens": None, "mem-fraction-static": fraction}
        with launch("tiny-plain", knobs, env={"PYTHONPATH": str(layout.HERE / "exact")}) as server:
            server.wait_for_line("exact pre=", LIMIT_S)
            server.wait_exit(REFUSED_LIMIT_S)
            log = server.text()
        free_before, available = map(float, EXACT.search(log).groups())
        refusal = FLOOR.search(log)
        if refusal is not None and abs(free_before - available - before.segments["base"].gib) * GIB <= NOISE_BYTES:
            return before, refusal[1], free_before, available
        print(
            f"P {free_before}, A {available}, planned {before.segments['base'].gib}: others moved this machine's memory"
        )
    pytest.skip(f"other programs moved this machine's memory in {ATTEMPTS} launches: no plan can be judged")


def test_a_refused_fraction_was_refused_by_plan_with_the_same_floor(launch, capsys) -> None:
    before, refusal, free_before, available = refused(launch, 0.0001)
    capsys.readouterr()  # what it told of its attempts is none of the plan's words
    assert (before.fits, before.verdict.kind) == (False, "weights-over-budget")
    words = ["--set", "max-total-tokens=", "--set", "mem-fraction-static=0.0001", "--sglang-version", "0.5.23"]
    numbers = ["--free-gib", repr(free_before), "--base-gib", repr(free_before - available), "--json"]
    assert main(["plan", str(layout.PROFILES / "tiny-plain.toml"), *words, *numbers]) == 1
    told = json.loads(capsys.readouterr().out)
    print(f"refusal: {refusal}, plan from P and A: {told['fraction']['floor']}, plan before: {before.fraction.floor}")
    assert told["verdict"]["kind"] == "weights-over-budget"
    # Both are rounded, the plan's to six digits.
    assert told["fraction"]["floor"] == pytest.approx(float(refusal), abs=0.000051)
    # Before the launch P and A are estimates.
    assert before.fraction.floor == pytest.approx(float(refusal), abs=0.02)
