"""The soak uses the same terminal and the same misbehaving server as the fault tests."""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("faults_conftest", Path(__file__).parents[1] / "faults" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_faults = importlib.util.module_from_spec(_spec)
sys.modules["faults_conftest"] = _faults
_spec.loader.exec_module(_faults)

server, driver, screen, faults = _faults.server, _faults.driver, _faults.screen, _faults.faults
