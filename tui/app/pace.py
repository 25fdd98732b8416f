"""When new lines of the log are drawn."""

from tui.sources.stream import Stream

REST_S = 0.55
EARLY_S = 0.25  # so much sooner where the rest of the screen is drawn anyway: one drawing costs less than two


class Pace:
    """A line that comes alone is drawn at once; a stream twice a second: each drawing would cost the same, show less.

    Times are seconds of one clock that never goes back.
    """

    def __init__(self) -> None:
        self._stream = Stream()
        self._drew_at = -1e9

    def news(self, now: float) -> None:
        """Something has come."""
        self._stream.news(now)

    def streams(self, now: float) -> bool:
        """Whether lines come so fast that each is not drawn by itself."""
        return self._stream.flows(now)

    def rests(self, now: float) -> bool:
        """Whether a stream was drawn a moment ago: nothing is due."""
        return self.left_s(now) > 0

    def left_s(self, now: float) -> float:
        """How long nothing is due yet."""
        return max(0.0, self._drew_at + REST_S - now) if self.streams(now) else 0.0

    def is_due(self, now: float, *, anyway: bool = False) -> bool:
        """Whether what has come is to be drawn now; then it counts as drawn. `anyway`: other things are drawn now."""
        if self.left_s(now) > (EARLY_S if anyway else 0.0):
            return False
        self._drew_at = now
        return True
