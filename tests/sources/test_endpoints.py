"""The endpoint source against servers in this process that behave as they are told."""

import http.server
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tui.factlines import dump_fact, load_fact
from tui.facts import Endpoint, Fact, Loads, Metrics, ServerInfo
from tui.sources import endpoint_http, endpoint_shapes
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

RECORDED = Path(__file__).parent.parent / "fixtures" / "sglang-0.5.23"
NOW = 1_700_000_000.0

Reply = tuple[int, Any] | Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet, or the kernel waits 40 ms between them
    server: "Scripted"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.keys.append(self.headers.get("Authorization"))
        reply = self.server.replies.get(self.path.partition("?")[0], (404, {"detail": "Not Found"}))
        if callable(reply):
            reply(self)
        else:
            self.answer(*reply)

    def answer(self, status: int, content: Any, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        return


class Scripted(http.server.ThreadingHTTPServer):
    """Answers by path; `over` ends replies that would last for ever."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.replies: dict[str, Reply] = {}
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # a caller that hangs up is what many of these tests are about


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as scripted:
        thread = threading.Thread(target=scripted.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield scripted
        scripted.over.set()
        scripted.shutdown()
        thread.join()


Connect = Callable[..., EndpointSource]


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[EndpointSource] = []

    def go(url: str, **more: Any) -> EndpointSource:
        opened.append(EndpointSource(url, **{"timeout_s": 5.0, **more}))
        return opened[-1]

    yield go
    for source in opened:
        source.close()


def recorded(name: str) -> dict[str, Reply]:
    """A server of SGLang 0.5.23, by what a real one answered."""
    folder = RECORDED / name
    return {
        "/ready": (200, b""),
        "/server_info": (200, (folder / "server_info.json").read_bytes()),
        "/v1/loads": (200, (folder / "v1_loads.busy.json").read_bytes()),
        "/metrics": (200, (folder / "metrics.txt").read_bytes()),
    }


INFO = {"model_path": "m", "tp_size": 1, "internal_states": [], "version": "0.5.23"}
LOADS = {"loads": [{"dp_rank": 0, "num_running_reqs": 1}]}
SMALL: Mapping[str, Reply] = {"/ready": (200, b""), "/server_info": (200, INFO), "/v1/loads": (200, LOADS)}


def endpoint(facts: list[Fact]) -> Endpoint:
    assert isinstance(facts[0], Endpoint)
    return facts[0]


def kinds(facts: list[Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def only(facts: list[Fact], kind: type[Fact]) -> Any:
    (found,) = (fact for fact in facts if isinstance(fact, kind))
    return found


def no_control_characters(text: str) -> bool:
    return text.isprintable()


# ------------------------------------------------------------------------------------- what servers say


@pytest.mark.parametrize("name", ["plain", "eagle3", "standalone", "ngram"])
def test_recorded_server(server: Scripted, connect: Connect, name: str) -> None:
    server.replies = recorded(name)
    facts = connect(server.url).poll(NOW)

    assert kinds(facts) == ["Endpoint", "Metrics", "Loads", "ServerInfo"]
    assert all(fact.at == NOW for fact in facts)
    state = endpoint(facts)
    assert (state.url, state.state, state.detail) == (server.url, "ready", "")
    assert state.latency_s is not None
    info = only(facts, ServerInfo)
    assert (info.version, info.status) == ("0.5.23", "ready")
    assert info.args["device"] == "cpu"
    assert info.args["tp_size"] == 1
    assert "internal_states" not in info.args
    assert info.max_total_num_tokens == info.memory[0].token_capacity
    assert info.memory[0].kvcache_gib > 0
    assert set(info.memory[0].graphs_gib) >= {"decode", "target_verify", "draft_extend"}
    assert info.startup_time_s["load_weight"] > 0
    assert "--device" in info.launch_command
    assert (info.avg_accept_len[0] is None) == (name == "plain")
    (load,) = only(facts, Loads).loads
    entry = json.loads((RECORDED / name / "v1_loads.busy.json").read_text())["loads"][0]
    assert (load.dp_rank, load.running, load.waiting) == (0, entry["num_running_reqs"], entry["num_waiting_reqs"])
    assert (load.used_tokens, load.gen_tok_s, load.stamp) == (
        entry["num_used_tokens"],
        entry["gen_throughput"],
        entry["timestamp"],
    )
    assert load.max_total_num_tokens == info.max_total_num_tokens
    assert load.retracted == 0
    assert (load.accept_len is None) == (name == "plain")
    assert only(facts, Metrics).ranks[0].values["max_total_num_tokens"] == info.max_total_num_tokens


def test_two_dp_ranks(server: Scripted, connect: Connect) -> None:
    loads = {"loads": [{"dp_rank": 1, "num_running_reqs": 4, "timestamp": 9.5}, {"dp_rank": 0, "num_running_reqs": 3}]}
    states = [
        {"last_gen_throughput": 10.5, "memory_usage": {"weight": 1.5, "kvcache": 2.5, "graph": {"decode": 0.25}}},
        {"last_gen_throughput": None, "avg_spec_accept_length": 2.5, "memory_usage": {"graph": 0.75}},
        {"memory_usage": {"weight": 3.0, "cuda_graph": 0.5}},
        {},
    ]
    server.replies = {**SMALL, "/v1/loads": (200, loads), "/server_info": (200, {**INFO, "internal_states": states})}
    facts = connect(server.url).poll(NOW)
    assert [(load.dp_rank, load.running, load.stamp) for load in only(facts, Loads).loads] == [
        (1, 4, 9.5),
        (0, 3, None),
    ]
    info = only(facts, ServerInfo)
    assert info.last_gen_tok_s == (10.5, None, None, None)
    assert info.avg_accept_len == (None, 2.5, None, None)
    assert [(memory.weight_gib, dict(memory.graphs_gib)) for memory in info.memory] == [
        (1.5, {"decode": 0.25}),
        (None, {"decode": 0.75}),
        (3.0, {"decode": 0.5}),
        (None, {}),
    ]


OLD: Mapping[str, Reply] = {
    "/get_model_info": (200, {"model_path": "m", "tokenizer_path": "m", "is_generation": True}),
    "/get_server_info": (200, {**INFO, "version": "0.4.9"}),
    "/get_load": (200, [{"dp_rank": 0, "num_reqs": 7, "num_waiting_reqs": 3, "num_tokens": 900}]),
}


def test_old_server_is_asked_by_the_old_names(server: Scripted, connect: Connect) -> None:
    server.replies = dict(OLD)
    source = connect(server.url)
    facts = source.poll(NOW)
    assert kinds(facts) == ["Endpoint", "Loads", "ServerInfo"]
    assert endpoint(facts).state == "ready"
    assert only(facts, ServerInfo).version == "0.4.9"
    (load,) = only(facts, Loads).loads
    assert (load.running, load.waiting, load.used_tokens) == (4, 3, None)  # its tokens count the waiting prompts too

    server.asked.clear()
    for second in (CHECK_S, 2 * CHECK_S):
        source.poll(NOW + second)
    assert set(server.asked) == {"/get_model_info", "/get_load"}  # what it lacked is not asked again


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


def test_secrets_are_masked(server: Scripted, connect: Connect) -> None:
    info = {**INFO, "api_key": "hush-1", "admin_api_key": "hush-2", "hf_token": "hush-3", "tokenizer_path": "t"}
    info |= {"ssl_keyfile_password": "hush-4", "launch_command": "--api-key hush-5 --port 1", "max_total_tokens": 5}
    server.replies = {**SMALL, "/server_info": (200, info)}
    found = only(connect(server.url).poll(NOW), ServerInfo)
    assert "hush" not in repr(found)
    assert (found.args["tokenizer_path"], found.args["max_total_tokens"]) == ("t", 5)
    assert found.args["api_key"] == "***"


def test_hostile_words_lose_their_control_characters(server: Scripted, connect: Connect) -> None:
    info = {**INFO, "version": "0.5\x1b[2J\r\n" + "x" * 500, "status": "re\x07ady"}
    server.replies = {**SMALL, "/server_info": (200, info)}
    found = only(connect(server.url).poll(NOW), ServerInfo)
    assert no_control_characters(found.version + found.status)
    assert len(found.version) == 80


@pytest.mark.parametrize("value", ["many", None, [1], {"a": 1}, True, 1e400, 10**400, 1.5])
def test_numbers_of_the_wrong_kind_are_unknown(server: Scripted, connect: Connect, value: Any) -> None:
    load = {"dp_rank": value, "num_running_reqs": value, "speculative": value, "queues": value, "memory": value}
    state = {"memory_usage": {"token_capacity": value}, "last_gen_throughput": "many"}
    info = {**INFO, "version": 5, "max_total_num_tokens": value, "internal_states": [state, value]}
    server.replies = {**SMALL, "/v1/loads": (200, {"loads": [load]}), "/server_info": (200, info)}
    facts = connect(server.url).poll(NOW)
    assert endpoint(facts).state == "ready"
    (read,) = only(facts, Loads).loads
    assert (read.dp_rank, read.running, read.accept_len, read.retracted) == (0, None, None, None)
    found = only(facts, ServerInfo)
    assert (found.version, found.max_total_num_tokens, found.memory[0].token_capacity) == (None, None, None)
    assert found.last_gen_tok_s[0] is None


KEYS = [
    "loads",
    "internal_states",
    "model_path",
    "tp_size",
    "memory_usage",
    "graph",
    "dp_rank",
    "speculative",
    "version",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=9),
    max_leaves=20,
)


@given(JSON)
@example({"model_path": "m", "tp_size": 1, "internal_states": [{"memory_usage": {"graph": [1]}}]})
@settings(max_examples=150, deadline=None)
def test_no_json_is_too_strange(data: Any) -> None:
    info = endpoint_shapes.server_info(data, NOW)
    assert (info is None) or {"model_path"} <= info.args.keys()
    found = endpoint_shapes.loads(data, NOW)
    assert found is None or all(isinstance(load.dp_rank, int) for load in found.loads)
    if info is not None:
        assert load_fact(dump_fact(info)) is not None


# ---------------------------------------------------------------------------------------------- states


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_nothing_listens(connect: Connect, closed_port: int) -> None:
    (fact,) = connect(f"127.0.0.1:{closed_port}").poll(NOW)
    assert fact == Endpoint(
        at=NOW,
        url=f"http://127.0.0.1:{closed_port}",
        state="down",
        detail=f"nothing listens on 127.0.0.1:{closed_port}",
    )


def test_name_that_is_not_known(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    fact = endpoint(connect("http://no-such-host.invalid:30000").poll(NOW))
    assert fact.state == "down"
    assert "no-such-host.invalid" in fact.detail


def test_from_warming_up_to_draining(server: Scripted, connect: Connect) -> None:
    source = connect(server.url)
    states = []
    for second, (status, starting) in enumerate([(503, True), (503, False), (200, True), (503, False), (503, True)]):
        server.replies = {**SMALL, "/ready": (status, b"")}
        facts = source.poll(NOW + second * CHECK_S, starting=starting)
        states.append(endpoint(facts).state)
        assert (len(facts) > 1) == (status == 200)
        assert endpoint(facts).detail.isprintable()
    assert states == ["starting", "starting", "ready", "draining", "starting"]


@pytest.mark.parametrize("status", [401, 403])
def test_key_is_wanted(server: Scripted, connect: Connect, status: int) -> None:
    """/ready and /metrics are open, so the throughput is told all the same."""
    page = b'sglang:gen_throughput{tp_rank="0"} 12.5\n'
    server.replies = {
        **SMALL,
        "/v1/loads": (status, {"error": "Unauthorized"}),
        "/server_info": (status, b""),
        "/metrics": (200, page),
    }
    facts = connect(server.url).poll(NOW)
    assert kinds(facts) == ["Endpoint", "Metrics"]
    assert endpoint(facts).state == "unauthorized"
    assert "asks for an API key" in endpoint(facts).detail

    refused = endpoint(connect(server.url, api_key="wrong").poll(NOW))
    assert refused.state == "unauthorized"
    assert "refuses this API key" in refused.detail
    assert "wrong" not in refused.detail


def test_key_is_sent(server: Scripted, connect: Connect) -> None:
    server.replies = dict(SMALL)
    assert endpoint(connect(server.url, api_key="s3cret").poll(NOW)).state == "ready"
    assert set(server.keys) == {"Bearer s3cret"}


@pytest.mark.parametrize("key", ["a\r\nHost: elsewhere", "schlüssel", "tab\t"])
def test_key_that_is_no_header(key: str) -> None:
    with pytest.raises(ValueError, match="HTTP header") as caught:
        EndpointSource("http://127.0.0.1:1", api_key=key)
    assert key not in str(caught.value)


def test_redirects_are_not_followed_and_get_no_key(server: Scripted, connect: Connect) -> None:
    with Scripted() as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.replies = {"/ready": lambda handler: handler.answer(307, b"", Location=f"{other.url}/ready")}
        fact = endpoint(connect(server.url, api_key="s3cret").poll(NOW))
        other.shutdown()
        thread.join()
        assert other.asked == []
    assert fact.state == "foreign"
    assert "not followed" in fact.detail


HTML = b"<!doctype html><title>Hello</title>"


@pytest.mark.parametrize(
    "replies",
    [
        {},
        dict.fromkeys(("/ready", "/model_info", "/server_info", "/v1/loads", "/metrics"), (200, HTML)),
        {"/ready": (200, b"OK")},
        {"/ready": (200, b""), "/server_info": (200, {"name": "other", "version": "1"})},
        {"/ready": (200, b""), "/v1/loads": (200, {"cpu": [0.5]})},
        {"/model_info": (200, {"id": "other"})},
        {"/ready": (200, b""), "/metrics": (200, b"vllm:num_requests_running 0\n")},
    ],
)
def test_another_program_answers(server: Scripted, connect: Connect, replies: dict[str, Reply]) -> None:
    server.replies = replies
    facts = connect(server.url).poll(NOW)
    assert kinds(facts) == ["Endpoint"]
    assert endpoint(facts).state == "foreign"
    assert "not SGLang" in endpoint(facts).detail


def test_another_program_in_place_of_the_server(server: Scripted, connect: Connect) -> None:
    source = connect(server.url)
    server.replies = dict(SMALL)
    assert endpoint(source.poll(NOW)).state == "ready"
    server.replies = {}
    assert endpoint(source.poll(NOW + CHECK_S)).state == "foreign"


@pytest.mark.parametrize(
    "body", [b'{"loads": [', b"[" * 100_000, b'{"loads": \xff\xfe}', b'{"loads": [{}]} trailing', b"[1, 2"]
)
@pytest.mark.parametrize("path", ["/v1/loads", "/server_info"])
def test_broken_json(server: Scripted, connect: Connect, path: str, body: bytes) -> None:
    server.replies = {**SMALL, path: (200, body)}
    fact = endpoint(connect(server.url).poll(NOW))
    assert fact.state == "garbage"
    assert fact.detail.endswith(f"answers {path} with broken JSON")


def test_form_that_is_not_known_is_told(server: Scripted, connect: Connect) -> None:
    source = connect(server.url)
    server.replies = dict(SMALL)
    source.poll(NOW)
    server.replies = {**SMALL, "/v1/loads": (200, {"ranks": []})}
    facts = source.poll(NOW + 1)
    assert kinds(facts) == ["Endpoint"]
    assert (endpoint(facts).state, endpoint(facts).detail) == ("ready", "/v1/loads answers in a form that is not known")


@pytest.mark.parametrize(("status", "state"), [(500, "garbage"), (418, "garbage"), (502, "down"), (504, "down")])
def test_readiness_that_fails(server: Scripted, connect: Connect, status: int, state: str) -> None:
    server.replies = {**SMALL, "/ready": (status, b"Internal Server Error")}
    fact = endpoint(connect(server.url).poll(NOW))
    assert fact.state == state
    assert str(status) in fact.detail


# -------------------------------------------------------------------------------- answers without an end


def hang(handler: Handler) -> None:
    handler.server.over.wait()
    handler.close_connection = True


def drip_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b"X-More: yes\r\n")
        handler.wfile.flush()


def drip_body(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b" " * 65536)


def endless_chunks(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")


def broken_off(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.wfile.write(b'{"loads": [')
    handler.close_connection = True


@pytest.mark.parametrize("path", ["/ready", "/v1/loads"])
@pytest.mark.parametrize("reply", [hang, drip_headers, drip_body])
def test_slow_answers_are_given_up(
    server: Scripted, connect: Connect, path: str, reply: Callable[[Handler], None]
) -> None:
    server.replies = {**SMALL, path: reply}
    source = connect(server.url, timeout_s=0.3)
    fact = endpoint(source.poll(NOW))
    assert fact.state == "slow"
    assert fact.detail.endswith(f"did not finish its answer to {path} within 0.3 s")
    server.replies = dict(SMALL)
    assert endpoint(source.poll(NOW + 1)).state == "ready"


@pytest.mark.parametrize("path", ["/ready", "/v1/loads", "/metrics"])
@pytest.mark.parametrize("reply", [endless, endless_chunks])
def test_endless_answers_are_cut(
    server: Scripted,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    reply: Callable[[Handler], None],
) -> None:
    monkeypatch.setattr(endpoint_http, "LARGEST_ANSWER", 1 << 20)
    server.replies = {**SMALL, path: reply}
    fact = endpoint(connect(server.url, timeout_s=60.0).poll(NOW))
    assert fact.state == "garbage"
    assert fact.detail.endswith(f"answers {path} with more than 1 MiB")


def test_answer_that_breaks_off(server: Scripted, connect: Connect) -> None:
    server.replies = {**SMALL, "/v1/loads": broken_off}
    fact = endpoint(connect(server.url).poll(NOW))
    assert fact.state == "garbage"
    assert "broke off" in fact.detail


@pytest.fixture
def raw() -> Iterator[Callable[[bytes], str]]:
    """A program that says something of its own to everybody, then hangs up."""
    listeners: list[socket.socket] = []

    def go(greeting: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(65536)
                    peer.sendall(greeting)

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield go
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize(
    ("greeting", "state"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "foreign"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "foreign"),  # TLS asked in clear
        (b"HTTP/1.1 " + b"9" * 100_000, "foreign"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000, "foreign"),
        (b"", "down"),
    ],
)
def test_programs_that_do_not_speak_http(
    raw: Callable[[bytes], str], connect: Connect, greeting: bytes, state: str
) -> None:
    fact = endpoint(connect(raw(greeting)).poll(NOW))
    assert fact.state == state
    assert fact.detail.isprintable()
    assert len(fact.detail) < 120


def test_https_where_there_is_none(server: Scripted, connect: Connect) -> None:
    fact = endpoint(connect(server.url.replace("http:", "https:")).poll(NOW))
    assert fact.state == "foreign"
    assert "TLS" in fact.detail


def test_certificate_that_nobody_vouches_for(server: Scripted, connect: Connect, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    fact = endpoint(connect(server.url.replace("http:", "https:")).poll(NOW))
    assert fact.state == "foreign"
    assert "is not trusted: self" in fact.detail


# ---------------------------------------------------------------------------------------------- rhythm


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


# --------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("http://localhost:30000/", "http://localhost:30000"),
        ("http://0.0.0.0:30000", "http://127.0.0.1:30000"),
        ("http://[::]:30000", "http://[::1]:30000"),
        ("http://[fd00::1]:30000", "http://[fd00::1]:30000"),
        ("https://box", "https://box:443"),
        ("http://box/llm/", "http://box:80/llm"),
        ("http://user:hush@box:1", "http://box:1"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    assert EndpointSource(url).url == shown


@pytest.mark.parametrize(
    "url", ["", "ftp://box:1", "http://", "http://box:port", "http://box:99999", "http://b\x1b[0m"]
)
def test_addresses_of_nothing(url: str) -> None:
    with pytest.raises(ValueError, match="not the address of an HTTP server") as caught:
        EndpointSource(url)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("url", ["ftp://user:hush@box:1", "http://user:hush@box:port"])
def test_password_in_an_address_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        EndpointSource(url)
    assert "hush" not in str(caught.value)


def test_path_of_a_proxy_is_kept(server: Scripted, connect: Connect) -> None:
    server.replies = {f"/llm{path}": reply for path, reply in SMALL.items()}
    assert endpoint(connect(f"{server.url}/llm/").poll(NOW)).state == "ready"
