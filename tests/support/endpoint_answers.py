"""What servers of SGLang answer, and how the tests of the endpoint source read what comes of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scripted import Reply

from tui.facts import Endpoint, Fact
from tui.sources.endpoints import EndpointSource

RECORDED = Path(__file__).parent.parent / "fixtures" / "sglang-0.5.23"
NOW = 1_700_000_000.0
Connect = Callable[..., EndpointSource]


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
OLD: Mapping[str, Reply] = {
    "/get_model_info": (200, {"model_path": "m", "tokenizer_path": "m", "is_generation": True}),
    "/get_server_info": (200, {**INFO, "version": "0.4.9"}),
    "/get_load": (200, [{"dp_rank": 0, "num_reqs": 7, "num_waiting_reqs": 3, "num_tokens": 900}]),
}


def endpoint(facts: list[Fact]) -> Endpoint:
    assert isinstance(facts[0], Endpoint)
    return facts[0]


def kinds(facts: list[Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def only(facts: list[Fact], kind: type[Fact]) -> Any:
    (found,) = (fact for fact in facts if isinstance(fact, kind))
    return found
