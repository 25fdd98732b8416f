"""The screen as plain text."""

from typing import Any

from textual.app import App


def screen_text(app: App[Any]) -> str:
    """What is on the screen, a line for each row, without colours; what a dialog leaves in sight is part of it."""
    update: Any = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens, simplify=True)
    app.screen.refresh()  # the compositor takes all for drawn now
    return "\n".join("".join(strip.text for strip in strips).rstrip() for strips in update.strips)
