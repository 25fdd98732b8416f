"""The screen as plain text."""

from typing import Any

from textual.app import App


def screen_text(app: App[Any]) -> str:
    """What is on the screen, a line for each row, without colours."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)
