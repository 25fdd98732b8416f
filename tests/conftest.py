"""How the property tests run: the same examples each time, so that a red run speaks of the change under test.

`pytest --hypothesis-profile=explore` looks for new examples instead; what it finds becomes an @example of its test.
"""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# What several folders share: `--import-mode=importlib` puts no folder of tests on the path.
sys.path.insert(0, str(Path(__file__).parent / "support"))
pytest.register_assert_rewrite("endpoint_answers", "nvml_driver")

# A deadline or a slow data generator says something about the machine, not about the code.
_EASY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("steady", derandomize=True, **_EASY)
settings.register_profile("explore", **_EASY)
settings.load_profile("steady")
