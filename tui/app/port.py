"""Moved to `tui.port`."""

from tui.port import Feed, FlagInfo, Forecast, LogView, ProfileChoice

__all__ = ["Feed", "FlagInfo", "Forecast", "LogView", "ProfileChoice"]
