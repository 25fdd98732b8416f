"""The HTTP side of a rehearsed server: the endpoints that SGLang's versions have, and requests that take their time."""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tui.rehearsal import answers
from tui.rehearsal.engine import Engine, Request
from tui.rehearsal.launch import Launch
from tui.rehearsal.metricspage import metrics_page
from tui.rehearsal.startup import Started

_WORDS = ("the", "draft", "proposes", "and", "the", "target", "verifies", "what", "was", "right", "stays")
_OPEN = ("/health", "/ready", "/metrics")
_LARGEST_BODY = 8 << 20
_DEFAULT_OUTPUT = 128
_HEALTH_LIMIT_S = 20.0


class Front:
    """What the handlers share. `state`: "starting", "ready" or "draining". `stamps`: last step of each DP rank."""

    def __init__(
        self, launch: Launch, started: Started, engines: tuple[Engine, ...], log: Callable[[str], None]
    ) -> None:
        self.launch = launch
        self.started = started
        self.engines = engines
        self.log = log
        self.state = "starting"
        self.stamps = {engine.rank.dp: time.time() for engine in engines}
        self._next = 0
        self._lock = threading.Lock()

    def least_busy(self) -> Engine:
        """Round robin over DP ranks, as SGLang does; a rank that stands still is not known to."""
        with self._lock:
            self._next = (self._next + 1) % len(self.engines)
            return self.engines[self._next]

    @property
    def healthy(self) -> bool:
        """Whether a token came back lately: /health asks the schedulers for one."""
        return self.state == "ready" and all(time.time() - at < _HEALTH_LIMIT_S for at in self.stamps.values())


def bind(front: Front, host: str, port: int) -> ThreadingHTTPServer:
    """Listens; `serve_forever` in a thread answers. Raises OSError."""
    server = _Server((host, port), type("Handler", (_Handler,), {"front": front}))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nothing to print."""


class _Handler(BaseHTTPRequestHandler):
    front: ClassVar[Front]
    protocol_version = "HTTP/1.1"
    server_version = "uvicorn"
    sys_version = ""
    timeout = 120
    disable_nagle_algorithm = True  # as uvicorn: else every answer on a kept connection waits 40 ms for the client

    def log_message(self, format: str, *args: Any) -> None:
        """Access lines are written by `_said`, in uvicorn's form."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if not self._may(address.path):
            return
        route = self._routes().get(address.path)
        if route is None:
            self._json({"detail": "Not Found"}, 404)
        else:
            route(parse_qs(address.query))

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        length = int(self.headers.get("Content-Length") or 0)
        if length > _LARGEST_BODY:
            self.close_connection = True
            self._json({"detail": "Payload Too Large"}, 413)
            return
        body = self.rfile.read(length)
        if not self._may(path):
            return
        if path not in ("/generate", "/v1/chat/completions", "/v1/completions", "/flush_cache"):
            self._json({"detail": "Not Found"}, 404)
            return
        if path == "/flush_cache":
            self._text("Cache flushed.\n", 200)
            return
        try:
            wanted = json.loads(body)
            self._generate(path, dict(wanted))
        except (ValueError, TypeError, AttributeError):
            self._json({"error": {"message": "The body is no JSON object that this endpoint takes."}}, 400)

    def _routes(self) -> dict[str, Callable[[dict[str, list[str]]], None]]:
        version = self.front.launch.version
        since, before = version.at_least, version.before
        routes: dict[str, Callable[[dict[str, list[str]]], None]] = {
            "/health": self._health,
            "/health_generate": self._health,
            "/get_model_info": self._model_info,
            "/get_server_info": self._server_info,
            "/v1/models": self._models,
        }
        if since(0, 5, 6):
            routes |= {"/model_info": self._model_info, "/server_info": self._server_info}
        if since(0, 5, 20):
            routes["/ready"] = self._ready
        if since(0, 5, 8):
            routes["/v1/loads"] = self._loads
        if since(0, 4, 7) and before(0, 5, 21):
            routes["/get_load"] = lambda query: self._json(answers.old_loads(self.front.engines))
        if self.front.launch.flags.get("enable_metrics"):
            routes["/metrics"] = self._metrics
        return routes

    def _health(self, query: dict[str, list[str]]) -> None:
        self._text("", 200 if self.front.healthy else 503)

    def _ready(self, query: dict[str, list[str]]) -> None:
        self._text("", 200 if self.front.state == "ready" else 503)

    def _model_info(self, query: dict[str, list[str]]) -> None:
        self._json(answers.model_info(self.front.launch))

    def _server_info(self, query: dict[str, list[str]]) -> None:
        front = self.front
        self._json(answers.server_info(front.launch, front.started, front.engines))

    def _models(self, query: dict[str, list[str]]) -> None:
        launch = self.front.launch
        model = {
            "id": launch.flags.served_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": launch.flags.served_name,
            "max_model_len": launch.context_len,
        }
        self._json({"object": "list", "data": [model]})

    def _loads(self, query: dict[str, list[str]]) -> None:
        front = self.front
        include = frozenset(",".join(query.get("include", [])).split(",")) - {""}
        ranks = {int(rank) for rank in query.get("dp_rank", []) if rank.isdecimal()}
        engines = [engine for engine in front.engines if not ranks or engine.rank.dp in ranks]
        self._json(answers.loads(front.launch, front.started, engines, include, front.stamps))

    def _metrics(self, query: dict[str, list[str]]) -> None:
        front = self.front
        self._text(
            metrics_page(front.launch, front.started, front.engines), 200, "text/plain; version=0.0.4; charset=utf-8"
        )

    def _generate(self, path: str, wanted: dict[str, Any]) -> None:
        front = self.front
        if front.state != "ready":
            self._json({"error": {"message": "The server is not ready."}}, 503)
            return
        parameters = wanted.get("sampling_params") or {}
        output = wanted.get("max_completion_tokens") or wanted.get("max_tokens") or parameters.get("max_new_tokens")
        prompt = _prompt_tokens(wanted)
        limit = min(front.launch.context_len, front.started.tokens) - 6
        if prompt > limit:
            self._json({"error": {"message": _too_long(prompt, limit)}}, 400)
            return
        request = Request(uuid.uuid4().hex, prompt, max(1, min(int(output or _DEFAULT_OUTPUT), limit - prompt + 1)))
        front.least_busy().submit(request)
        shape = _Generate(front, request) if path == "/generate" else _OpenAi(front, request, path)
        if wanted.get("stream"):
            self._stream(shape, request)
            return
        for _ in _news(request):
            pass
        self._json(shape.whole())

    def _stream(self, shape: "_Generate | _OpenAi", request: Request) -> None:
        self._said(200)
        self.send_response_only(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            start = 0
            for count in _news(request):
                self._chunk(f"data: {json.dumps(shape.piece(start, count))}\n\n")
                start += count
            self._chunk(f"data: {json.dumps(shape.end())}\n\n")
            self._chunk("data: [DONE]\n\n")
            self._chunk("")
        except OSError:
            request.aborted = True
            self.close_connection = True

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _may(self, path: str) -> bool:
        key = self.front.launch.flags.get("api_key")
        if not key or path.startswith(_OPEN) or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self._json({"error": "Unauthorized"}, 401)
        return False

    def _json(self, data: Any, status: int = 200) -> None:
        self._text(json.dumps(data), status, "application/json")

    def _text(self, text: str, status: int, kind: str = "text/plain; charset=utf-8") -> None:
        data = text.encode()
        self._said(status)
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _said(self, status: int) -> None:
        """uvicorn's access line."""
        host, port = self.client_address[:2]
        words = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 413: "Payload Too Large"}
        path = "".join(c if c.isprintable() else "?" for c in self.path)
        word = words.get(status, "Service Unavailable")
        self.front.log(f'INFO:     {host}:{port} - "{self.command} {path} HTTP/1.1" {status} {word}')


class _Generate:
    """SGLang's own /generate: each piece carries the whole text so far."""

    def __init__(self, front: Front, request: Request) -> None:
        self._front = front
        self._request = request
        self._began = time.time()

    def piece(self, start: int, count: int) -> dict[str, Any]:
        return {"text": _text(0, start + count), "output_ids": [], "meta_info": self._meta(None, start + count)}

    def end(self) -> dict[str, Any]:
        return self.whole()

    def whole(self) -> dict[str, Any]:
        done = self._request.produced
        return {
            "text": _text(0, done),
            "output_ids": list(range(done)),
            "meta_info": self._meta({"type": "length", "length": done}, done),
        }

    def _meta(self, reason: dict[str, Any] | None, done: int) -> dict[str, Any]:
        request = self._request
        meta = {
            "id": request.rid,
            "finish_reason": reason,
            "prompt_tokens": request.prompt,
            "weight_version": "default",
            "completion_tokens": done,
            "cached_tokens": request.cached,
            "e2e_latency": time.time() - self._began,
        }
        if self._front.launch.algorithm is not None:
            meta["spec_verify_ct"] = request.verify_calls
        return meta


class _OpenAi:
    """/v1/chat/completions and /v1/completions."""

    def __init__(self, front: Front, request: Request, path: str) -> None:
        self._chat = "chat" in path
        self._request = request
        kind = "chat.completion" if self._chat else "text_completion"
        self._head = {
            "id": request.rid,
            "object": kind,
            "created": int(time.time()),
            "model": front.launch.flags.served_name,
        }

    def piece(self, start: int, count: int) -> dict[str, Any]:
        text = _text(start, count)
        body: dict[str, Any] = {"delta": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        return self._chunk([{"index": 0, **body, "logprobs": None, "finish_reason": None}])

    def end(self) -> dict[str, Any]:
        body: dict[str, Any] = {"delta": {}} if self._chat else {"text": ""}
        last = self._chunk([{"index": 0, **body, "logprobs": None, "finish_reason": "length"}])
        return {**last, "usage": self._usage()}

    def whole(self) -> dict[str, Any]:
        text = _text(0, self._request.produced)
        body: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice = {"index": 0, **body, "logprobs": None, "finish_reason": "length"}
        return {**self._head, "choices": [choice], "usage": self._usage()}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": choices, "usage": None}

    def _usage(self) -> dict[str, Any]:
        request = self._request
        return {
            "prompt_tokens": request.prompt,
            "total_tokens": request.prompt + request.produced,
            "completion_tokens": request.produced,
            "prompt_tokens_details": None,
        }


def _news(request: Request) -> Iterator[int]:
    while (count := request.news.get()) is not None:
        yield count


def _text(start: int, count: int) -> str:
    return "".join(f" {_WORDS[i % len(_WORDS)]}" for i in range(start, start + count))


def _prompt_tokens(wanted: dict[str, Any]) -> int:
    """About four characters a token, as nothing here has a tokenizer."""
    ids = wanted.get("input_ids")
    if isinstance(ids, list):
        return max(1, len(ids))
    messages = wanted.get("messages")
    text = wanted.get("text") or wanted.get("prompt") or ""
    if isinstance(messages, list):
        text = " ".join(str(message.get("content", "")) for message in messages if isinstance(message, dict))
    return max(1, len(str(text)) // 4)


def _too_long(prompt: int, limit: int) -> str:
    return (
        f"Input length ({prompt} tokens) exceeds the maximum allowed length ({limit} tokens). Use a shorter input or "
        "enable --allow-auto-truncate."
    )
