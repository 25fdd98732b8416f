"""Will it fit? A forecast of a launch, in the same terms as the live bars. Pure: nothing here reads anything.

`tui.forecast.checkpointfacts.model_facts` makes the ModelFacts of a checkpoint.
"""

from tui.forecast.machine import NOTHING_LEARNED, Gpu, Learned, Machine
from tui.forecast.model import ModelFacts
from tui.forecast.predict import forecast
from tui.forecast.result import (
    FORECAST_SEGMENTS,
    Forecast,
    ForecastVerdict,
    FractionFacts,
    GpuForecast,
    Suggestion,
)

__all__ = [
    "FORECAST_SEGMENTS",
    "NOTHING_LEARNED",
    "Forecast",
    "ForecastVerdict",
    "FractionFacts",
    "Gpu",
    "GpuForecast",
    "Learned",
    "Machine",
    "ModelFacts",
    "Suggestion",
    "forecast",
]
