"""Launching, restarting, going back, and who may."""

import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tui.files import StoreError
from tui.procid import alive
from tui.runs.store import Run, RunStore
from tui.server import control
from tui.server.control import LaunchError, last_ready, mark_ready, port_is_ours, profile_of, restart
from tui.server.lock import ControlLock, Owner, owner_of
from tui.server.masking import masked_text, unmasked
from tui.server.profiles import ProfileError, load, parse, save, set_knobs
from tui.server.stopping import stop

Wait = Callable[..., Any]
Again = Callable[[Run], Run]


def test_a_launch_stores_the_exact_command_and_the_environments_difference(world: Any) -> None:
    environ = {**os.environ, "SAME": "1"}
    profile = world.profile(env={"SAME": "1", "OTHER": "2"}, tell=True)
    run = control.launch(profile, world.store, {"say": "hello", "tell": None}, environ=environ)
    assert run.env == {"OTHER": "2"}
    assert list(run.command)[:2] == [sys.executable, str(world.folder / "fake_server.py")]
    assert "--tell" not in run.command
    assert run.command[-2:] == ("--say", "hello")
    assert run.knobs["say"] == "hello"
    assert load(run.profile_copy).knobs == run.knobs
    assert run.profile_path == str(profile.path)


def test_an_unwritable_state_directory_starts_nothing(world: Any) -> None:
    (world.folder / "file").write_text("")
    with pytest.raises(StoreError, match="is not a folder"):
        control.launch(world.profile(), RunStore(world.folder / "file"))


def test_port_is_ours(world: Any, port: int) -> None:
    silent = world.launch()
    assert port_is_ours(silent) is None
    run = world.launch(listen=True, detached=1)
    assert port_is_ours(run) is True
    assert port_is_ours(replace(run, server=silent.server, keeper=silent.keeper, tree=())) is False
    assert port_is_ours(replace(run, port=None)) is None


def test_restart_is_stop_verify_preflight_launch(world: Any) -> None:
    run = world.launch(say="old")
    asked: list[bool] = []

    def preflight() -> str | None:
        asked.append(alive(run.server))
        return None

    steps = list(restart(run, profile_of(run), world.store, {"say": "new"}, grace_s=60, preflight=preflight))
    assert asked == [False]
    done = steps[-1]
    assert done.ok
    assert done.run is not None
    assert done.run.knobs["say"] == "new"
    assert alive(done.run.server)
    texts = [step.text for step in steps]
    assert texts.index("Stopped: its processes are gone, its port is free.") < texts.index("Launching fake.")
    assert [step.kind for step in steps].count("done") == 1


def test_restart_finds_a_bad_profile_before_it_stops_anything(world: Any) -> None:
    run = world.launch()
    bad = world.profile(command=["/nowhere/python3"])
    with pytest.raises(ProfileError, match="is not a program"):
        next(restart(run, bad, world.store))
    with pytest.raises(ProfileError, match=r"knobs\.port"):
        next(restart(run, profile_of(run), world.store, {"port": 99999}))
    assert alive(run.server)


def test_restart_finds_a_held_port_before_it_stops_anything(world: Any, port: int) -> None:
    run = world.launch()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(LaunchError, match=f"Port {port} is held by process"):
        next(restart(run, profile_of(run), world.store, {"port": port}))
    assert alive(run.server)


def test_restart_finds_a_full_disk_before_it_stops_anything(world: Any) -> None:
    run = world.launch()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(StoreError, match="No room to write"):
            next(restart(run, profile_of(run), world.store))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert alive(run.server)
    assert world.store.names() == [run.name]
    assert [path.name for path in world.store.folder.iterdir()] == [run.name]


def test_restart_can_be_refused_by_the_forecast_and_cancelled_between_steps(world: Any) -> None:
    run = world.launch()
    refused = list(restart(run, profile_of(run), world.store, grace_s=60, preflight=lambda: "it will not fit."))[-1]
    assert (refused.ok, refused.text) == (False, "Not launched again: it will not fit.")
    second = world.launch()
    steps = restart(second, profile_of(second), world.store, grace_s=60)
    for step in steps:
        if step.text == "Stopped: its processes are gone, its port is free.":
            steps.close()  # type: ignore[attr-defined]
    assert world.store.active() == []


def test_restart_does_not_launch_over_what_is_left(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.server.stopping.MEMORY_LIMIT_S", 0.0)
    run = world.launch()
    steps = list(restart(run, profile_of(run), world.store, grace_s=60, memory_back=lambda: "GPU 0 is still full"))
    assert not steps[-1].ok
    assert "left something behind" in steps[-1].text
    assert world.store.active() == []


def test_going_back_to_the_last_run_that_was_ready(world: Any) -> None:
    good = world.launch(say="good")
    assert last_ready(world.store) is None
    mark_ready(good)
    list(stop(good, 60))
    time.sleep(0.01)
    bad = world.launch(say="bad")
    found = last_ready(world.store, before=bad)
    assert found is not None
    assert found.name == good.name
    back = profile_of(found)
    assert back.knobs["say"] == "good"
    assert list(restart(bad, back, world.store, grace_s=60))[-1].ok


SECRETS = (
    '# old: --api-key s3cretone\nname = "p"\n'
    '[server]\ncommand = ["x", "--api-key", "s3cretone"]  # HF_TOKEN=s3cretone\n'
    '[env]\nHF_TOKEN = "s3cretone"\nA = "1"  # note\n[knobs]\nadmin-api-key = "s3cretone"\nurl = "http://u:s3cretone@h/"\n'
    'port = 1  # keep this\ncolour = "#112233"\n'
)


def test_masked_and_unmasked(tmp_path: Path) -> None:
    profile = parse(SECRETS, tmp_path / "p.toml")
    text = masked_text(profile)
    assert "s3cret" not in text
    assert "# keep this" in text
    assert "# note" in text
    kept = parse(text, tmp_path / "p.toml")
    assert kept.knobs["colour"] == "#112233"
    whole = unmasked(kept, profile)
    assert (whole.knobs, whole.env, whole.command) == (profile.knobs, profile.env, profile.command)
    again = set_knobs(whole, {"port": 2})
    assert (again.env, again.command) == (profile.env, profile.command)
    with pytest.raises(ProfileError, match=r"admin-api-key, url, HF_TOKEN, server\.command cannot be read from"):
        unmasked(kept, None)
    plain = parse('name = "p"\n[server]\ncommand = ["x"]\n')
    assert unmasked(parse(masked_text(plain)), None) == plain


def test_profile_of_takes_secrets_from_the_profiles_own_file(world: Any) -> None:
    profile = world.profile(api_key="s3cret-value", end=True)
    run = control.launch(profile, world.store)
    with pytest.raises(ProfileError, match="api-key cannot be read from"):
        profile_of(run)
    save(profile)
    assert profile_of(run).knobs["api-key"] == "s3cret-value"


def test_one_controls_at_a_time(world: Any) -> None:
    run = world.store.create("x", {"command.json": json.dumps({"argv": []})})
    assert owner_of(run) is None
    lock = ControlLock.take(run, {"SSH_CONNECTION": "10.0.0.7 5022 10.0.0.1 22"})
    assert isinstance(lock, ControlLock)
    other = ControlLock.take(run)
    assert isinstance(other, Owner)
    assert (other.pid, other.where) == (os.getpid(), "10.0.0.7")
    assert owner_of(run) == other
    assert str(other).endswith(f"on 10.0.0.7 (process {os.getpid()})")
    lock.release()
    lock.release()
    with ControlLock.take(run, {}) as again:  # type: ignore[union-attr]
        assert isinstance(again, ControlLock)
    assert owner_of(run) is None


def test_who_only_asks_for_the_owner_is_not_taken_for_one(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.store.create("x", {"command.json": json.dumps({"argv": []})})
    with open(run.path / "control.lock", "w") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)  # as `owner_of` does for a moment
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(asking, fcntl.LOCK_UN))
        assert isinstance(ControlLock.take(run), ControlLock)


def test_a_killed_dashboard_lets_go_of_control(world: Any) -> None:
    run = world.store.create("x", {"command.json": json.dumps({"argv": []})})
    script = (
        "import sys, time; from pathlib import Path; from tui.runs.store import load_run; "
        "from tui.server.lock import ControlLock; lock = ControlLock.take(load_run(Path(sys.argv[1]))); "
        "print(type(lock).__name__, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script, run.path], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ControlLock\n"
        held = ControlLock.take(run)
        assert isinstance(held, Owner)
        assert held.pid == other.pid
        other.kill()
    assert isinstance(ControlLock.take(run), ControlLock)
