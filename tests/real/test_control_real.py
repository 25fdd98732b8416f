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


def written(run, words: str) -> None:
    """Wait until the server's log holds `words`."""
    product.until(
        lambda: words in run.log.read_text(), product.READY_LIMIT_S, f"{words!r} in the log", run.log.read_text
    )


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


def knob(dashboard: product.Dashboard, name: str, value: str) -> None:
    """Set a knob that has no value for the next start, by the search for flags."""
    dashboard.press("F", "enter edits it")
    dashboard.press(name, f"▸ {name} ")
    dashboard.press("\r", f"{name}   in force")
    dashboard.press(value, value)
    dashboard.press("\r", "R restarts")


def insist(dashboard: product.Dashboard, told: str) -> None:
    """Say yes, twice where the plan, of whatever memory is free here, objects; wait until `told` is on the screen."""

    def answered() -> str:
        return next((words for words in (told, "y once more") if words in dashboard.text()), "")

    dashboard.press("y")
    if product.until(answered, product.LIMIT_S, f"{told!r} on the screen", dashboard.text) != told:
        dashboard.press("y", told)


def test_a_restart_that_fails_goes_back_unasked_and_by_one_key(deck, free_port) -> None:
    assert deck.launch("tiny-plain", free_port).returncode == 0
    first = deck.last()
    assert first.ready_at is not None
    words = ("--set", "context-length=999999", "--wait", "ready", "--or-back", "--yes")
    done = deck.run("restart", *words, limit_s=3 * product.READY_LIMIT_S)
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

    with product.Dashboard(deck) as dashboard:
        dashboard.shows("● serving")
        knob(dashboard, "context-length", "999999")
        dashboard.press("R", "Restart the server?")
        dashboard.shows("999999")
        insist(dashboard, "K kills now")
        dashboard.shows("✗ failed", "B go back", "context-length", limit_s=product.READY_LIMIT_S)
        dashboard.press("B", f"Back to {back.name}")
        dashboard.shows("● serving", limit_s=product.READY_LIMIT_S)
        again = deck.last()
        assert (again.knobs, alive(again.server)) == (first.knobs, True)
        with product.stream(again.url, 1500):  # it holds the stop up, so that the key falls into it
            dashboard.press("R", "Restart the server?")
            insist(dashboard, "K kills now")
            dashboard.press("\x1b", "nothing is launched")
        product.until(lambda: not product.in_session(again.server.pid), product.LIMIT_S, "the server's end")
    assert deck.store.active() == []
    assert deck.last().name == again.name
    gone(again, free_port)


def test_without_its_keeper_a_server_goes_on_and_is_stopped_after_its_last_request(deck, free_port) -> None:
    assert deck.launch("tiny-plain", free_port).returncode == 0
    run = deck.last()
    assert send_signal(run.keeper, signal.SIGKILL)
    product.until(lambda: not alive(run.keeper), product.LIMIT_S, "the keeper's end")
    status = deck.status()
    assert status["state"] == "running"
    assert [caution["kind"] for caution in status["warnings"]] == ["keeper-gone"]
    with product.Dashboard(deck) as dashboard:
        dashboard.shows("serving", "keeper of this server is gone")
    with product.stream(run.url, 300) as parts:
        done = deck.run("stop", "--yes", "--grace", "240", limit_s=2 * product.READY_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "keeper is gone" in done.stdout
    assert b"".join(parts).rstrip().endswith(b"data: [DONE]")
    gone(run, free_port)
    assert [fact.requested for fact in journal(run) if isinstance(fact, Exited)] == [True]
    assert deck.status()["state"] == "stopped"


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
            second.press("S", "Cancel")
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
            second.press("S", "Cancel")
            second.press("y", "processes are gone")
    gone(run, free_port)


def test_a_stop_while_the_weights_are_loaded(deck, free_port) -> None:
    run = deck.begin("tiny-eagle3", free_port)
    assert deck.status()["state"] == "starting"
    written(run, "Load weight begin")
    done = deck.run("stop", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    gone(run, free_port)
    assert deck.status()["exit_signal"] == "SIGTERM" or deck.status()["exit_code"] is not None


def test_a_port_that_a_silent_listener_holds(deck, free_port) -> None:
    listener = socket.socket()
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        run = deck.begin("tiny-plain", free_port)
        written(run, "server_args=")  # it binds its port last
        listener.bind(("127.0.0.1", free_port))
        listener.listen()
        refused = deck.run("run", "tiny-plain", "--set", f"port={free_port}", "--yes")
        assert (refused.returncode, f"Port {free_port} is held by process" in refused.stderr) == (2, True)
        written(run, "address already in use")
        status = deck.status()
        assert (status["state"], status["endpoint"]) == ("starting", "foreign")
        done = deck.run("stop", "--yes", "--grace", "3")
        assert done.returncode == 1
        assert f"Port {free_port} is held by process" in done.stdout
        gone(run, None)
    assert ports.is_free("127.0.0.1", free_port)


def test_a_server_started_by_hand_is_watched_adopted_and_stopped(deck, launch, free_port) -> None:
    with launch("tiny-plain") as server:
        server.wait_ready(product.READY_LIMIT_S)
        pid = server.process.pid
        looked = deck.run("attach", "--pid", str(pid), "--once", "--json")
        seen = json.loads(looked.stdout)
        assert (seen["state"], seen["controlled"], seen["kv_tokens"]) == ("running", False, 20000)
        assert deck.store.latest() is None
        with product.Dashboard(deck) as dashboard:
            dashboard.shows("D watches or takes over")
            dashboard.press("D", "takes it over")
            while f"▸ process {pid} " not in dashboard.text():  # other servers may run on this machine
                before = dashboard.text()
                dashboard.press("k")
                product.until(
                    lambda before=before: dashboard.text() != before, product.LIMIT_S, "another server chosen"
                )
            dashboard.press("A", "Take this server over?")
            assert deck.store.latest() is None
            dashboard.press("y", "taken over")
            dashboard.shows("● serving")
            run = deck.last()
            assert (run.server, run.adopted) == (process_id(pid), True)
            adopted = deck.status()
            assert (adopted["state"], adopted["controlled"], adopted["kv_tokens"]) == ("running", True, 20000)
            dashboard.press("S", "Cancel")
            dashboard.press("y")
            assert server.wait_exit(product.LIMIT_S) is not None
            dashboard.shows("processes are gone")
        gone(run, free_port)
        assert deck.status()["state"] == "stopped"
