"""A campaign as the history keeps it: run folders of the rehearsal's own facts, with what specdeck writes beside."""

import json
from pathlib import Path
from typing import Any

import scenes

from tui.factlines import dump_fact
from tui.facts import Exited, Launched
from tui.runs import listing, summaries
from tui.runs.recorder import Recorder
from tui.runs.store import Run, RunStore

SERVED_S = 60.0
APART_S = 60.0
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("kimi-k2.5-base", {"cuda-graph-max-bs": 512}),
    ("kimi-k2.5-base", {"cuda-graph-max-bs": 128}),
    ("kimi-k2.5-eagle3", {}),
    ("kimi-k2.5-eagle3", {"mem-fraction-static": 0.85}),
)


def made(root: Path) -> RunStore:
    """The runs of `CASES` in a state directory; the first is the baseline."""
    store, at = RunStore(root), scenes.NOON
    for profile, changes in CASES:
        stage = scenes.Stage(at=at)
        life = scenes.Life(stage, profile, changes)
        started = life.start()
        if started is not None:
            life.serve(started, SERVED_S)
            life.stop()
        run = _kept(store, stage, profile, at)
        summaries.ensure(run)
        at = float(int(stage.at + APART_S))
    listing.pin(store.runs()[-1], store)
    return store


def _kept(store: RunStore, stage: scenes.Stage, profile: str, at: float) -> Run:
    launched = next(fact for fact in stage.facts if isinstance(fact, Launched))
    ended = next(fact for fact in stage.facts if isinstance(fact, Exited))
    command = {
        "profile": profile,
        "argv": list(launched.command),
        "knobs": dict(launched.knobs),
        "started_at": at,
        "port": None,
        "rehearsal": True,
        "sglang_version": launched.sglang_version,
    }
    run = store.create(profile, {"command.json": json.dumps(command), "server.log": stage.log.decode()}, at)
    run.control.write_text("".join(f"{dump_fact(fact)}\n" for fact in (launched, ended)))
    (run.path / "exit.json").write_text(
        json.dumps({"at": ended.at, "code": ended.code, "signal": ended.signal, "requested": ended.requested})
    )
    recorder = Recorder(run.path, summarise=lambda _: None)
    recorder.record(stage.facts)
    recorder.close()
    return store.load(run.name)
