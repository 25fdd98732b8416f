"""Fixtures of the tests that drive a real SGLang server on the CPU. They skip where it is not installed."""

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import layout
import product
import serving

TAIL_BYTES = 6000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A failed test tells what its servers and keepers wrote last, and how they ended."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.when == "call" and report.failed and folder is not None:
        for path in sorted(path for name in ("*.log", "exit.json") for path in folder.rglob(name) if path.is_file()):
            tail = path.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
            report.sections.append((f"the end of {path.relative_to(folder)}", tail))
    return report


@pytest.fixture(scope="session")
def sglang_venv() -> Path:
    """The virtual environment of the real server."""
    if not (layout.venv_dir() / ".packages").is_file():
        pytest.skip("the real SGLang is not installed: run `python tests/real/install.py`")
    return layout.venv_dir()


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder that holds tiny-llama, tiny-draft-near, tiny-eagle3 and tiny-draft."""
    if not (layout.models_dir() / ".models").is_file():
        pytest.skip("the models are not made: run `python tests/real/install.py`")
    return layout.models_dir()


@pytest.fixture
def free_port() -> int:
    """A TCP port that nothing listens on."""
    return serving.free_port()


@pytest.fixture
def launch(
    sglang_venv: Path, models: Path, free_port: int, tmp_path: Path
) -> Callable[..., AbstractContextManager[serving.Server]]:
    """`with launch("tiny-plain", {"port": 1234}, env={...}) as server:` starts it; at the end its tree is killed.

    The port is a free one unless the knobs name it. `server.wait_ready()`, `.wait_for_line()` and `.wait_exit()` wait.
    """

    @contextlib.contextmanager
    def start(
        profile: str, extra: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
    ) -> Iterator[serving.Server]:
        built = serving.command(profile, {"port": free_port, **(extra or {})}, env)
        log = tmp_path / f"server-{len(list(tmp_path.glob('server-*.log'))) + 1}.log"
        with serving.launched(built, log) as server:
            yield server

    return start


@pytest.fixture
def load() -> Callable[[str, int, int], None]:
    """`load(base_url, n, max_tokens)` sends n requests at once, waits for them, and fails unless all get 200."""
    return serving.load


@pytest.fixture
def deck(sglang_venv: Path, models: Path, tmp_path: Path) -> Iterator[product.Specdeck]:
    """specdeck in a state directory of its own; whatever it has started is ended afterwards."""
    with product.Specdeck(tmp_path / "state") as found:
        yield found
