"""How the property tests run: the same examples each time, so that a red run speaks of the change under test.

`pytest --hypothesis-profile=explore` looks for new examples instead; what it finds becomes an @example of its test.
"""

from hypothesis import HealthCheck, settings

# A deadline or a slow data generator says something about the machine, not about the code.
_EASY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("steady", derandomize=True, **_EASY)
settings.register_profile("explore", **_EASY)
settings.load_profile("steady")
