"""A sweep over real servers: what its table says against what the servers say, and each run played again."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import urllib3

from tui.commands import watchedrun
from tui.commands.common import to_json
from tui.commands.sweepmachine import PlaceMachine
from tui.feed.place import RealPlace
from tui.runs import summaries
from tui.runs.benches import workloads
from tui.runs.recorder import Recorder
from tui.runs.replay import Player
from tui.runs.sweeping import run_sweep
from tui.runs.sweepplan import make_cases
from tui.runs.sweepstate import DONE, SweepStore
from tui.runs.sweeptext import table_lines
from tui.runs.timeline import moments
from tui.session import Session

pytestmark = pytest.mark.sglang

PROFILES = ("profiles/tiny-plain.toml", "profiles/tiny-ngram.toml", "profiles/tiny-standalone.toml")
COUNTERS = ("generation_tokens_total", "spec_verify_calls_total")
LOADS = workloads("decode-1", 0.25)


def total(text: str, name: str) -> float:
    """A counter of a /metrics page, over all ranks."""
    return sum(map(float, re.findall(rf"^sglang:{name}{{.*}} (\S+)$", text, re.MULTILINE)))


@contextmanager
def counters(port: int) -> Iterator[list[tuple[float, ...]]]:
    """What /metrics says of COUNTERS while the `with` lasts, each different answer once."""
    seen: list[tuple[float, ...]] = []
    over = threading.Event()

    def work() -> None:
        with urllib3.PoolManager(retries=False, timeout=5.0) as http:
            while not over.wait(0.1):
                try:
                    text = http.request("GET", f"http://127.0.0.1:{port}/metrics").data.decode()
                except urllib3.exceptions.HTTPError:
                    continue
                found = tuple(map(partial(total, text), COUNTERS))
                if not seen or seen[-1] != found:
                    seen.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.fixture
def heard(monkeypatch) -> dict[str, list]:
    """The facts of each run in the order in which they were folded while it lived."""
    found: dict[str, list] = {}

    class Listening(Recorder):
        def record(self, facts) -> None:
            found.setdefault(self.folder.name, []).extend(facts)
            super().record(facts)

    monkeypatch.setattr(watchedrun, "Recorder", Listening)
    return found


def as_bytes(snapshot) -> bytes:
    return json.dumps(to_json(snapshot), sort_keys=True, ensure_ascii=False).encode()


def test_a_sweep_over_plain_ngram_and_standalone(deck, free_port, heard) -> None:
    store, sweeps = deck.store, SweepStore(deck.state)
    sweep = sweeps.new(make_cases(PROFILES, [f"port={free_port}"]), {"bench": LOADS[0].name}, None)
    machine = PlaceMachine(RealPlace(), store, "specdeck", 300.0, print)
    with counters(free_port) as told:
        done = run_sweep(sweep, sweeps, machine, LOADS, lambda *_: None)
    assert [trial.status for trial in done.trials] == [DONE] * 3, [trial.why for trial in done.trials]
    results = {trial.case.profile: trial.results[0] for trial in done.trials}
    for result in results.values():
        assert (result.failed, result.output_tokens) == (0, LOADS[0].requests * LOADS[0].output_tokens)
        assert result.counter_tok_s == pytest.approx(result.tok_s, rel=0.03)
    assert results[PROFILES[0]].accept_len is None

    # NGRAM's accept length, out of the servers' own counters around exactly this load.
    ngram = results[PROFILES[1]]
    spans = [
        (after[0] - before[0]) / (after[1] - before[1])
        for i, before in enumerate(told)
        for after in told[i + 1 :]
        if after[0] - before[0] == ngram.output_tokens and after[1] > before[1]
    ]
    assert any(ngram.accept_len == pytest.approx(span, rel=0.02) for span in spans), (ngram.accept_len, told)
    row = next(line for line in table_lines(done) if "tiny-ngram" in line)
    assert f"{ngram.accept_len:.2f}" in row
    assert store.active() == []

    for trial in done.trials:
        check_replay(store.load(trial.run), heard[trial.run], trial)


def test_who_makes_the_load(deck, free_port, sglang_venv) -> None:
    """SGLang's own generator where its `datasets` is installed; else one sentence, and the simple client."""
    python = sglang_venv / "bin" / "python"
    has_own = subprocess.run([python, "-c", "import datasets"], capture_output=True).returncode == 0
    done = deck.launch("tiny-ngram", free_port)
    assert done.returncode == 0, done.stdout + done.stderr
    words = ("bench", "--bench", "decode-1", "--scale", "0.125")
    told = deck.run(*words)
    assert told.returncode == 0, told.stdout + told.stderr
    reason, _, line = told.stdout.strip().rpartition("\n")
    assert ("No module named 'datasets'; specdeck's own load is used instead." in reason) is not has_own
    assert "accept length" in line
    [result] = json.loads(deck.run("runs", deck.last().name, "--json").stdout)["benches"]
    assert result["engine"] == ("sglang.bench_serving" if has_own else "specdeck")
    assert result["counter_tok_s"] == pytest.approx(result["tok_s"], rel=0.03)
    assert (result["failed"], result["output_tokens"]) == (0, 2 * 64)
    if not has_own:
        refused = deck.run(*words, "--engine", "sglang")
        assert refused.returncode == 2
        assert "did not work" in refused.stderr
    assert deck.status()["state"] == "running"
    assert deck.run("stop", "--yes").returncode == 0


def check_replay(run, facts, trial) -> None:
    """The same snapshot byte for byte, at the end and wherever one goes."""
    live = Session()
    live.extend(facts)
    player = Player(lambda: moments(run))
    assert as_bytes(player.final()) == as_bytes(live.snapshot())
    stream = list(moments(run))
    for where in ("70%", "ready", "20%", "+0:05", "99%"):
        player.seek(where)
        folded = Session()
        folded.extend(moment.fact for moment in stream[: player.index])
        assert as_bytes(player.snapshot()) == as_bytes(folded.snapshot(player.at)), where
    summary = summaries.load(run.path)
    assert summary is not None
    assert summary.final
    assert summary.benches == trial.results
    assert summary.kv_tokens == trial.kv_tokens == 20000
