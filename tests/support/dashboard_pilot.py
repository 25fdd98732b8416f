"""What the tests of the dashboard do with a pilot."""

from tui.app.main import SpecdeckApp
from tui.app.widgets.knobs import Knobs

HOME = (120, 40)
SMALL = (80, 24)


def text(app: SpecdeckApp, widget: type) -> str:
    return app.dashboard.query_one(widget).text()


async def to_knob(pilot, name: str) -> None:
    """Put the cursor on a knob, as the operator would by arrows."""
    knobs = pilot.app.dashboard.query_one(Knobs)
    knobs.focus()
    knobs.select(name)
    await pilot.pause()
