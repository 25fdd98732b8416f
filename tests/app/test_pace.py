"""When new lines of the log are drawn."""

from tui.app.pace import Pace


def drawn(times: list[float]) -> list[float]:
    """Of looks with news at these times those that draw."""
    pace = Pace()
    found = []
    for now in times:
        pace.news(now)
        if pace.is_due(now):
            found.append(now)
    return found


def test_lines_that_come_alone_are_drawn_at_once() -> None:
    times = [i * 0.3 for i in range(40)]
    assert drawn(times) == times


def test_a_stream_is_drawn_about_twice_a_second() -> None:
    times = [i * 0.1 for i in range(100)]
    assert 15 <= len(drawn(times)) <= 22


def test_a_stream_with_holes_is_one() -> None:
    times = [i * 0.1 for i in range(100) if i % 4]
    assert len(drawn(times)) <= 22


def test_the_last_lines_of_a_stream_are_drawn_by_the_next_look() -> None:
    pace = Pace()
    for i in range(20):
        pace.news(i * 0.1)
        pace.is_due(i * 0.1)
    assert pace.is_due(2.4)
    assert not pace.streams(3.0)


def test_a_stream_is_drawn_with_the_rest_of_the_screen_where_that_is_drawn_soon() -> None:
    pace, together, alone = Pace(), 0, 0
    for i in range(1, 201):
        now = i * 0.1
        pace.news(now)
        second = i % 10 == 0
        drawn = pace.is_due(now, anyway=second)
        if now > 5:
            together, alone = together + (drawn and second), alone + (drawn and not second)
    assert (together, alone) == (15, 15)
