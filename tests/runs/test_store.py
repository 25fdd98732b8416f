import errno
import json
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tui.facts import ProcessId
from tui.files import StoreError, append_lines, read_json, write_atomically, write_json
from tui.procid import process_id
from tui.runs.store import RunNotFoundError, RunStore, load_run, process_json, state_dir

NOON = 1_796_000_000.0
COMMAND = json.dumps({"profile": "eagle-3", "argv": ["sglang", "serve"], "started_at": NOON, "port": 30000})


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state")


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """no_room(n): after n more bytes the disk is full."""
    write = os.write

    def fill(left: int) -> None:
        def limited(file: int, data: bytes) -> int:
            nonlocal left
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            written = write(file, data[:left])
            left -= written
            return written

        monkeypatch.setattr(os, "write", limited)

    return fill


def me() -> ProcessId:
    found = process_id(os.getpid())
    assert found is not None
    return found


def test_a_run_appears_complete_and_private(store: RunStore) -> None:
    run = store.create("eagle-3", {"command.json": COMMAND, "profile.toml": "name = 'eagle-3'\n"}, NOON)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_eagle-3", run.name)
    assert run.damaged is None
    assert (run.profile, run.command, run.started_at, run.port) == ("eagle-3", ("sglang", "serve"), NOON, 30000)
    assert run.server is run.keeper is run.exited is None
    for folder in (store.root, store.folder, run.path):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert run.profile_copy.stat().st_mode & 0o777 == 0o600
    assert os.listdir(store.folder) == [run.name]


def test_the_same_second_gives_numbers_even_in_a_race(store: RunStore) -> None:
    threads = [
        threading.Thread(target=store.create, args=("eagle-3", {"command.json": COMMAND}, NOON)) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = store.names()
    assert len(names) == 12
    assert names[0].endswith("_eagle-3+12")
    assert names[-2].endswith("_eagle-3+2")
    assert names[-1].endswith("_eagle-3")
    assert {store.load(name).damaged for name in names} == {None}


@pytest.mark.parametrize(
    ("profile", "folder"),
    [("../../etc", "etc"), ("a b/c\n", "a-b-c"), ("…", "run"), ("", "run"), ("x" * 300, "x" * 60), ("a_b", "a_b")],
)
def test_any_profile_name_makes_a_folder_name(store: RunStore, profile: str, folder: str) -> None:
    run = store.create(profile, {"command.json": COMMAND}, NOON)
    assert run.path.parent == store.folder
    assert run.name[20:] == folder


def test_damaged_folders_are_listed_with_their_reason(store: RunStore) -> None:
    good = store.create("good", {"command.json": COMMAND}, NOON)
    bad = {
        "2026-01-01T00-00-00_empty": (None, "command.json is missing"),
        "2026-01-01T00-00-01_cut": ('{"argv": [', "not JSON"),
        "2026-01-01T00-00-02_list": ("[]", "not a JSON object"),
        "2026-01-01T00-00-03_no-argv": ("{}", "argv"),
        "2026-01-01T00-00-04_deep": ("[" * 100_000, "not JSON"),
        "2026-01-01T00-00-05_port": ('{"argv": [], "port": "x"}', "do not say"),
        "2026-01-01T00-00-06_env": ('{"argv": [], "env": 3}', "do not say"),
    }
    for name, (text, _) in bad.items():
        (store.folder / name).mkdir()
        if text is not None:
            (store.folder / name / "command.json").write_text(text)
    (store.folder / ".new-abc").mkdir()
    (store.folder / "notes").mkdir()
    (store.folder / "2026-01-01T00-00-09_file").write_text("a file, not a folder")

    runs = {run.name: run for run in store.runs()}
    assert set(runs) == {good.name, "2026-01-01T00-00-09_file", *bad}
    assert runs[good.name].damaged is None
    for name, (_, reason) in bad.items():
        assert reason in (runs[name].damaged or "")
        assert runs[name].profile == name[20:]
    assert store.latest() == good
    assert store.active() == []


def test_exit_json_of_the_keeper_is_read(store: RunStore) -> None:
    run = store.create("x", {"command.json": COMMAND}, NOON)
    write_json(run.path / "exit.json", {"code": None, "signal": "SIGKILL", "at": NOON + 1, "requested": True})
    exited = store.load(run.name).exited
    assert exited is not None
    assert (exited.code, exited.signal, exited.requested, exited.at) == (None, "SIGKILL", True, NOON + 1)


def test_active_is_by_identity_not_by_pid(store: RunStore) -> None:
    def run_of(server: ProcessId, name: str) -> str:
        run = store.create(name, {"command.json": COMMAND}, NOON)
        write_json(run.path / "keeper.json", {"server": process_json(server), "keeper": None})
        return run.name

    living = run_of(me(), "living")
    run_of(replace(me(), start_ticks=me().start_ticks + 1), "recycled")
    run_of(replace(me(), boot_id="before the reboot"), "reboot")
    assert [run.name for run in store.active()] == [living]


def test_a_lingering_keeper_is_active_though_the_server_ended(store: RunStore) -> None:
    run = store.create("x", {"command.json": COMMAND}, NOON)
    write_json(run.path / "exit.json", {"code": 1, "signal": None, "at": NOON})
    write_json(run.path / "keeper.json", {"server": None, "keeper": process_json(me())})
    assert store.active() == []
    (run.path / "keeper.sock").touch()
    assert [found.name for found in store.active()] == [run.name]


def test_find(store: RunStore) -> None:
    first = store.create("kimi", {"command.json": COMMAND}, NOON)
    second = store.create("kimi", {"command.json": COMMAND}, NOON + 60)
    other = store.create("tiny-3", {"command.json": COMMAND}, NOON + 120)
    assert store.find(first.name) == first
    assert store.find(second.name[:-1]) == second
    assert store.find("kimi") == second
    assert store.find("tiny-3") == other
    assert store.latest() == store.load(other.name)
    with pytest.raises(RunNotFoundError, match="3 runs"):
        store.find(first.name[:10])
    with pytest.raises(RunNotFoundError, match="No run begins with 'nope'"):
        store.find("nope")
    assert load_run(store.folder / "nope").damaged == "there is no such folder"


def test_the_newest_is_by_time_even_when_the_clock_was_set_back(store: RunStore) -> None:
    def command(at: float) -> dict[str, str]:
        return {"command.json": json.dumps({"argv": [], "started_at": at})}

    store.create("before", command(NOON), NOON)
    after = store.create("after", command(NOON + 60), NOON - 3600)
    assert store.latest() == after


def test_state_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECDECK_STATE_DIR", str(tmp_path / "here"))
    assert state_dir() == tmp_path / "here"
    assert RunStore().names() == []
    assert not (tmp_path / "here").exists()
    monkeypatch.delenv("SPECDECK_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_dir() == tmp_path / "xdg" / "specdeck"


def test_a_full_disk_is_a_sentence_and_leaves_nothing(store: RunStore, no_room: Callable[[int], None]) -> None:
    store.create("kept", {"command.json": COMMAND}, NOON)
    no_room(20)
    with pytest.raises(StoreError, match=r"No room to write .*command\.json: the disk is full.*SPECDECK_STATE_DIR"):
        store.create("x", {"command.json": COMMAND}, NOON + 1)
    assert [name[20:] for name in os.listdir(store.folder)] == ["kept"]


def test_a_full_disk_keeps_the_old_file(tmp_path: Path, no_room: Callable[[int], None]) -> None:
    file = tmp_path / "exit.json"
    write_json(file, {"a": 1})
    no_room(5)
    with pytest.raises(StoreError):
        write_json(file, {"a": "b" * 100})
    assert read_json(file) == {"a": 1}
    assert os.listdir(tmp_path) == ["exit.json"]


def test_a_full_disk_takes_a_half_line_back(tmp_path: Path, no_room: Callable[[int], None]) -> None:
    file = tmp_path / "facts.jsonl"
    append_lines(file, ["one", "two"])
    no_room(6)
    with pytest.raises(StoreError):
        append_lines(file, ["three", "four"])
    assert file.read_text() == "one\ntwo\n"


def test_unwritable_and_misplaced_state_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is not a folder"):
        RunStore(tmp_path / "file").create("x", {"command.json": COMMAND})
    with pytest.raises(StoreError, match="is not a folder"):
        RunStore(tmp_path / "file" / "below").create("x", {"command.json": COMMAND})

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StoreError, match=r"it is read-only\. Set SPECDECK_STATE_DIR"):
        RunStore(tmp_path / "ro").create("x", {"command.json": COMMAND})


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".exit.json.{os.getpid()}.tmp").symlink_to(victim)
    with pytest.raises(StoreError):
        write_atomically(tmp_path / "exit.json", "x")
    assert victim.read_text() == "precious"
