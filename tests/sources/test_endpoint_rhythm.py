"""When the endpoint source asks what, and when it comes again."""

import threading

import pytest
from endpoint_answers import NOW, OLD, SMALL, Connect, endpoint, kinds, only, recorded
from scripted import Handler, Scripted

from tui.facts import ServerInfo
from tui.sources.endpoints import (
    BACK_OFF_S,
    CHECK_S,
    INFO_RETRY_S,
    INFO_S,
    METRICS_S,
    READY_S,
    STARTING_S,
    EndpointSource,
)


def test_only_questions_that_cost_nothing(server: Scripted, connect: Connect) -> None:
    for replies in (recorded("eagle3"), dict(OLD), {}):
        server.replies = replies
        source = connect(server.url)
        for second in range(0, 130, 2):
            source.poll(NOW + second)
    allowed = {"/ready", "/model_info", "/get_model_info", "/server_info", "/get_server_info", "/v1/loads", "/get_load"}
    assert {path.partition("?")[0] for path in server.asked} == allowed | {"/metrics"}


def test_server_info_is_asked_rarely(server: Scripted, connect: Connect) -> None:
    server.replies = dict(SMALL)
    source = connect(server.url)
    asked = []
    for second in range(130):
        server.asked.clear()
        source.poll(NOW + second)
        if "/server_info" in server.asked:
            asked.append(float(second))
    assert asked == [0.0, INFO_S, 2 * INFO_S]


def test_server_info_that_failed_is_asked_again_soon(server: Scripted, connect: Connect) -> None:
    server.replies = {**SMALL, "/server_info": (500, b"")}
    source = connect(server.url)
    facts = source.poll(NOW)
    assert endpoint(facts).state == "ready"
    assert endpoint(facts).detail == "/server_info answers HTTP 500"
    server.replies = dict(SMALL)
    assert kinds(source.poll(NOW + 1)) == ["Endpoint", "Loads"]
    assert kinds(source.poll(NOW + INFO_RETRY_S)) == ["Endpoint", "Loads", "ServerInfo"]


def test_readiness_is_asked_rarely_while_the_loads_answer(server: Scripted, connect: Connect) -> None:
    server.replies = dict(SMALL)
    source = connect(server.url)
    for second in range(20):
        source.poll(NOW + second)
    assert server.asked.count("/ready") == 20 / CHECK_S
    assert len([path for path in server.asked if path.startswith("/v1/loads")]) == 20


@pytest.mark.parametrize(("has_loads", "times"), [(True, 20 / METRICS_S), (False, 20)])
def test_metrics_page_spares_a_server_that_tells_its_loads(
    server: Scripted, connect: Connect, has_loads: bool, times: float
) -> None:
    server.replies = recorded("plain")
    if not has_loads:
        del server.replies["/v1/loads"]
    source = connect(server.url)
    told = [kinds(source.poll(NOW + second)).count("Metrics") for second in range(20)]
    assert server.asked.count("/metrics") == sum(told) == times


def test_metrics_that_are_off_are_asked_for_once(server: Scripted, connect: Connect) -> None:
    server.replies = dict(SMALL)
    source = connect(server.url)
    for second in range(10):
        source.poll(NOW + second)
    assert server.asked.count("/metrics") == 1


def test_back_off_while_down(connect: Connect, closed_port: int) -> None:
    source = connect(f"http://127.0.0.1:{closed_port}")
    now, waits = NOW, []
    for _ in range(7):
        assert source.wait_s(now) == 0
        assert len(source.poll(now)) == 1
        waits.append(source.wait_s(now))
        assert source.poll(now + waits[-1] - 0.01) == []
        assert source.wait_s(now, starting=True) == STARTING_S
        now += waits[-1]
    assert waits == [*BACK_OFF_S, BACK_OFF_S[-1], BACK_OFF_S[-1]]
    assert source.wait_s(now - 1e6) == 0  # a clock that was set back does not stop it


def test_back_off_ends_when_the_server_answers(server: Scripted, connect: Connect) -> None:
    source = connect(server.url)
    for second in (0, 10, 20):
        source.poll(NOW + second)
    assert source.wait_s(NOW + 20) == 4.0
    server.replies = dict(SMALL)
    assert endpoint(source.poll(NOW + 30)).state == "ready"
    assert source.wait_s(NOW + 30) == READY_S


def test_warming_up_is_no_failure(server: Scripted, connect: Connect) -> None:
    server.replies = {"/ready": (503, b"")}
    source = connect(server.url)
    for second in range(4):
        assert endpoint(source.poll(NOW + second)).state == "starting"
        assert source.wait_s(NOW + second) == READY_S


class OneShot(Handler):
    """Closes the connection after every answer without saying so, as a server does with idle ones."""

    def handle_one_request(self) -> None:
        super().handle_one_request()
        self.close_connection = True


def test_connection_that_was_closed_while_idle_is_opened_again(connect: Connect) -> None:
    with Scripted() as server:
        server.RequestHandlerClass = OneShot
        server.replies = dict(SMALL)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        source = connect(server.url)
        states = [endpoint(source.poll(NOW + second)).state for second in range(5)]
        server.shutdown()
        thread.join()
    assert states == ["ready"] * 5


def test_server_that_was_replaced_is_learned_anew(connect: Connect) -> None:
    port, seen = 0, []
    source: EndpointSource | None = None
    for second, replies in ((0, OLD), (100, SMALL)):
        with Scripted(port) as server:
            port = server.server_port
            server.replies = dict(replies)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            source = source or connect(server.url)
            facts = source.poll(NOW + second)
            seen.append((endpoint(facts).state, only(facts, ServerInfo).version))
            source.close()  # or the old server's thread would go on answering
            server.shutdown()
            thread.join()
        assert endpoint(source.poll(NOW + second + 50)).state == "down"
    assert seen == [("ready", "0.4.9"), ("ready", "0.5.23")]
