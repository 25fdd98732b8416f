"""A state directory for one demo: what is played leaves no trace among the operator's runs."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tui.runs.store import RunStore
from tui.server.stopping import kill


@contextmanager
def demo_store() -> Iterator[RunStore]:
    """A store of its own, gone with everything that still runs in it. SPECDECK_STATE_DIR keeps it instead."""
    if os.environ.get("SPECDECK_STATE_DIR"):
        yield RunStore()
        return
    root = Path(tempfile.mkdtemp(prefix="specdeck-demo-"))
    store = RunStore(root)
    try:
        yield store
    finally:
        for run in store.active():
            for _ in kill(run, "the demo ended"):
                pass
        shutil.rmtree(root, ignore_errors=True)
