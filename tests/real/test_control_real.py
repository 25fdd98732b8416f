"""Control of the real server when things go wrong: failed launches, lost keepers and dashboards, held ports."""

import json
import signal
import socket
import subprocess
import sys

import layout
import product
import pytest
import serving

from tui.factlines import read_facts
from tui.facts import Exited
from tui.procid import alive, process_id
from tui.server import ports
from tui.server.signals import send_signal

pytestmark = pytest.mark.sglang

UNCAPPED = ("--set", "max-total-tokens=", "--set", "mem-fraction-static=0.0001")


def gone(run, port: int | None) -> None:
    """Nothing of the run is left, by the kernel's word."""
    assert product.in_session(run.server.pid) == []
    assert product.tree_of(run) == []
    assert port is None or ports.is_free("127.0.0.1", port)


def journal(run) -> list:
    return list(read_facts(run.control.read_text().splitlines()))


@pytest.mark.parametrize(
    ("words", "end", "told"),
    [
        (("--set", "no-such-flag=true"), {"code": 2, "signal": None}, "unrecognized arguments: --no-such-flag"),
        (UNCAPPED, {"code": None, "signal": "SIGKILL"}, "minimum viable"),
    ],
    ids=["unknown-flag", "no-room"],
)
def test_a_failed_launch_is_told_and_recorded(deck, free_port, words, end, told) -> None:
    done = deck.launch("tiny-plain", free_port, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "failed" in done.stdout
    run = deck.last()
    recorded = json.loads((run.path / "exit.json").read_text())
    assert {name: recorded[name] for name in end} == end
    assert not recorded["requested"]
    assert told in "".join(recorded["last_lines"]) + run.log.read_text()
    status = deck.status()
    assert (status["state"], status["exit_code"], status["exit_signal"]) == ("failed", end["code"], end["signal"])
    assert "before it was ready" in status["state_reason"]
    assert deck.run("status").returncode == 1
    gone(run, free_port)


def test_a_run_whose_pid_is_a_strangers_by_now_is_not_touched(deck, free_port) -> None:
    deck.launch("tiny-plain", free_port, "--set", "no-such-flag=true")
    run = deck.last()
    (run.path / "exit.json").unlink()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        told = json.loads((run.path / "keeper.json").read_text())
        told["server"]["pid"] = told["keeper"]["pid"] = stranger.pid
        told["tree"] = [told["server"]]
        (run.path / "keeper.json").write_text(json.dumps(told))
        for words in (("stop",), ("stop", "--kill")):
            done = deck.run(*words, run.name, "--yes")
            assert done.returncode == 0
            assert "does not run any more" in done.stdout
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_restart_that_fails_goes_back_to_what_was_ready(deck, free_port) -> None:
    assert deck.launch("tiny-plain", free_port).returncode == 0
    first = deck.last()
    assert first.ready_at is not None
    words = ("--set", "context-length=999999", "--wait", "ready", "--or-back", "--yes")
    done = deck.run("restart", *words, limit_s=2 * product.READY_LIMIT_S)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"going back to {first.name}" in done.stdout
    back, failed, oldest = deck.store.runs()
    assert oldest.name == first.name
    assert failed.exited is not None
    assert failed.knobs["context-length"] == 999999
    assert back.knobs == first.knobs
    status = deck.status()
    assert (status["run"], status["state"], status["endpoint"]) == (back.name, "running", "ready")
    assert serving.server_info(back.url)["max_total_num_tokens"] == 20000
    gone(first, None)
    gone(failed, None)
    assert deck.run("stop", "--yes").returncode == 0
    gone(back, free_port)


def test_without_its_keeper_a_server_goes_on_and_is_stopped_after_its_last_request(deck, free_port) -> None:
    assert deck.launch("tiny-plain", free_port).returncode == 0
    run = deck.last()
    assert send_signal(run.keeper, signal.SIGKILL)
    product.until(lambda: not alive(run.keeper), 5, "the keeper's end")
    status = deck.status()
    assert status["state"] == "running"
    assert [caution["kind"] for caution in status["warnings"]] == ["keeper-gone"]
    with product.Dashboard(deck) as dashboard:
        dashboard.shows("serving", "keeper of this server is gone")
    with product.stream(run.url, 300) as parts:
        done = deck.run("stop", "--yes", "--grace", "120", limit_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "keeper is gone" in done.stdout
    assert b"".join(parts).rstrip().endswith(b"data: [DONE]")
    gone(run, free_port)
    assert [fact.requested for fact in journal(run) if isinstance(fact, Exited)] == [True]
    assert deck.status()["state"] == "exited"


def profile_at(port: int, folder) -> str:
    """tiny-plain as a file of the user's own, with another port."""
    text = (layout.PROFILES / "tiny-plain.toml").read_text()
    text = text.replace("port = 30000", f"port = {port}").replace('cwd = ".."', f'cwd = "{layout.ROOT}"')
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_two_dashboards_one_controls_until_its_terminal_goes(deck, free_port, tmp_path) -> None:
    with product.Dashboard(deck, profile_at(free_port, tmp_path)) as first:
        first.shows("serving", limit_s=product.READY_LIMIT_S)
        run = deck.last()
        with product.Dashboard(deck) as second:
            second.shows("serving")
            second.press("S")
            second.shows("Cancel")
            second.press("y")
            second.shows("controls this server now", f"process {first.pid}")
            assert alive(run.server)
            refused = deck.run("stop", "--yes")
            assert (refused.returncode, "controls this server now" in refused.stderr) == (2, True)
            assert first.hang_up() != 0
            assert alive(run.server)
            assert serving.get(run.url, "/health").status == 200
            with product.Dashboard(deck, "--read-only") as third:
                assert "S stop" not in third.shows("serving", "q leave")
                third.press("S?")  # the help that the second key opens tells that the first one did nothing
                assert "Cancel" not in third.shows("Leave, the server stays")
            # A server whose scheduler was killed ends by itself after six seconds: the stop falls into them.
            product.scheduler_of(run).kill()
            second.press("S")
            second.shows("Cancel")
            second.press("y")
            product.until(lambda: not product.in_session(run.server.pid), 60, "the server's end")
            second.shows("processes are gone")
    gone(run, free_port)


def test_a_stop_while_the_weights_are_loaded(deck, free_port) -> None:
    run = deck.begin("tiny-eagle3", free_port)
    product.until(lambda: "Load weight begin" in run.log.read_text(), product.READY_LIMIT_S, "loading")
    assert deck.status()["state"] == "starting"
    done = deck.run("stop", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    gone(run, free_port)
    assert deck.status()["exit_signal"] == "SIGTERM" or deck.status()["exit_code"] is not None


def test_a_port_that_a_silent_listener_holds(deck, free_port) -> None:
    listener = socket.socket()
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        run = deck.begin("tiny-plain", free_port)
        product.until(lambda: "Load weight begin" in run.log.read_text(), product.READY_LIMIT_S, "loading")
        listener.bind(("127.0.0.1", free_port))
        listener.listen()
        refused = deck.run("run", "tiny-plain", "--set", f"port={free_port}", "--yes")
        assert (refused.returncode, f"Port {free_port} is held by process" in refused.stderr) == (2, True)
        product.until(lambda: "address already in use" in run.log.read_text(), product.READY_LIMIT_S, "its bind")
        status = deck.status()
        assert (status["state"], status["endpoint"]) == ("starting", "foreign")
        done = deck.run("stop", "--yes", "--grace", "3")
        assert done.returncode == 1
        assert f"Port {free_port} is held by process" in done.stdout
        gone(run, None)
    assert ports.is_free("127.0.0.1", free_port)


def test_a_server_started_by_hand_is_adopted_and_stopped(deck, launch, free_port) -> None:
    with launch("tiny-plain") as server:
        server.wait_ready(product.READY_LIMIT_S)
        pid = server.process.pid
        looked = deck.run("attach", "--pid", str(pid), "--once", "--json")
        seen = json.loads(looked.stdout)
        assert (seen["state"], seen["controlled"], seen["kv_tokens"]) == ("running", False, 20000)
        assert deck.store.latest() is None
        adopted = json.loads(deck.run("attach", "--pid", str(pid), "--adopt", "--once", "--json").stdout)
        assert (adopted["state"], adopted["controlled"], adopted["kv_tokens"]) == ("running", True, 20000)
        run = deck.last()
        assert run.server == process_id(pid)
        done = deck.run("stop", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert server.wait_exit(10) is not None
        gone(run, free_port)
        assert deck.status()["state"] == "exited"
