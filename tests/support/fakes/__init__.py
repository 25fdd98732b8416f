"""A feed that needs no machine, and what it shows: snapshots, logs, forecasts, runs and sweeps."""

from fakes.feed import FakeFeed, FakeHistory, FakePlayback
from fakes.forecasts import FakeForecast, fitting, many_forecast, refused
from fakes.logs import log_text, written
from fakes.runs import RUNS, comparison
from fakes.snapshots import (
    KNOBS,
    NOW,
    PHASES,
    VERDICT,
    cautioned,
    crashed,
    curve,
    empty,
    gpu,
    gpus,
    hostile,
    loading,
    many,
    measured,
    no_machine,
    replayed,
    serving,
)
from fakes.sweeps import SWEEP, FakeSweeps
from tui.port import RunRow, SeenServer, SweepRow, SweepView

__all__ = [
    "KNOBS",
    "NOW",
    "PHASES",
    "RUNS",
    "SWEEP",
    "VERDICT",
    "FakeFeed",
    "FakeForecast",
    "FakeHistory",
    "FakePlayback",
    "FakeSweeps",
    "RunRow",
    "SeenServer",
    "SweepRow",
    "SweepView",
    "cautioned",
    "comparison",
    "crashed",
    "curve",
    "empty",
    "fitting",
    "gpu",
    "gpus",
    "hostile",
    "loading",
    "log_text",
    "many",
    "many_forecast",
    "measured",
    "no_machine",
    "refused",
    "replayed",
    "serving",
    "written",
]
