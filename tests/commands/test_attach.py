"""`specdeck attach`: what it is asked to watch."""

import argparse
from pathlib import Path

from tui.commands import attach
from tui.commands.attachtarget import target_of
from tui.feed import targets
from tui.feed.targets import Target
from tui.runs.store import RunStore


def asked(*words):
    parser = argparse.ArgumentParser()
    attach.add_arguments(parser)
    return parser.parse_args(words)


def test_a_process_in_a_container_has_its_log_and_address_told(tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "of_pid", lambda pid: Target(title=f"process {pid}", url="http://127.0.0.1:30000"))
    store = RunStore(tmp_path)
    found = target_of(asked("--pid", "7"), store)
    assert (found.title, found.log, found.url) == ("process 7", None, "http://127.0.0.1:30000")
    found = target_of(asked("--pid", "7", "--log", "sglang.log", "--url", "127.0.0.1:31000"), store)
    assert (found.title, found.log, found.url) == ("process 7", Path("sglang.log"), "http://127.0.0.1:31000")


def test_a_log_and_an_address_without_a_process(tmp_path):
    store = RunStore(tmp_path)
    found = target_of(asked("--log", "sglang.log", "--url", "127.0.0.1:31000"), store)
    assert (found.log, found.url) == (Path("sglang.log"), "http://127.0.0.1:31000")
    assert target_of(asked("--url", "127.0.0.1:31000"), store).log is None
