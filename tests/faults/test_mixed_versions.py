"""Runs of two SGLang versions in one history: neither speaks for the other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui.runs import listing
from tui.runs.store import RunStore
from tui.runs.summaries import ensure, learned
from tui.server.stopping import kill

VERSIONS = ("0.5.9", "0.5.15")


@pytest.fixture
def store(tmp_path: Path, faults, free_port: int):
    store = RunStore(tmp_path / "state")
    told = {**os.environ, "SPECDECK_STATE_DIR": str(store.root), "PYTHONPATH": str(faults.ROOT)}
    for version in VERSIONS:
        launch = ["run", "kimi-k2.5-base", "--rehearsal", "--yes", "--speed", "2000", "--wait", "ready",
                  "--set", f"port={free_port}", "--sglang-version", version]  # fmt: skip
        # A stop waits until the GPUs are free again; the next server would not fit beside the memory of a dead one.
        for command in (launch, ["stop", "--yes"]):
            subprocess.run([sys.executable, "-m", "tui", *command], env=told, check=True, capture_output=True)
    yield store
    for run in store.active():
        list(kill(run))


def test_neither_version_speaks_for_the_other(store: RunStore) -> None:
    runs = store.runs()
    summaries = {summary.sglang_version: summary for run in runs if (summary := ensure(run)) is not None}
    assert set(summaries) == set(VERSIONS)
    for version, summary in summaries.items():
        assert learned(store, summary.knobs, version, rehearsal=True) is not None
    assert learned(store, runs[0].knobs, "0.5.23", rehearsal=True) is None
    assert {row.summary.sglang_version for row in listing.rows(store) if row.summary is not None} == set(VERSIONS)


def test_a_log_of_one_version_after_the_other_is_read_as_each_says(store: RunStore, tmp_path: Path, faults) -> None:
    """A service that is updated goes on in the same log file."""
    texts = [run.log.read_text() for run in reversed(store.runs())]
    log = tmp_path / "both.log"
    log.write_text("".join(texts))
    told = {**os.environ, "SPECDECK_STATE_DIR": str(store.root), "PYTHONPATH": str(faults.ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tui", "attach", "--log", str(log), "--once"], env=told, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert "72.33" in done.stdout or "base" not in done.stdout
    assert "144.66" not in done.stdout
