"""Whether news comes so fast that it is not taken one by one: each taking costs the same, however little it finds."""

from collections import deque

NEWS, WITHIN_S = 5, 0.9  # so many within this time are a stream: more than about four a second


class Stream:
    """Times are seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=NEWS)

    def news(self, now: float) -> None:
        """Something has come."""
        self._at.append(now)

    def flows(self, now: float) -> bool:
        """Whether it is a stream now."""
        return len(self._at) == NEWS and now - self._at[0] < WITHIN_S
