"""How long a sweep has taken and will take. Pure."""

from tui.runs.sweepstate import DONE, FAILED, PENDING, RUNNING, Sweep


def usual_s(sweep: Sweep) -> float | None:
    """Seconds of a case so far, on average over those that were launched."""
    lengths = [trial.seconds for trial in sweep.trials if trial.seconds > 0 and trial.status in (DONE, FAILED)]
    return sum(lengths) / len(lengths) if lengths else None


def left_s(sweep: Sweep, now: float | None = None) -> float | None:
    """Seconds that the rest will take, without what the plan will skip; None before the first case has ended.

    `now`: Unix time, by which the case that runs has taken some of its time already.
    """
    usual = usual_s(sweep)
    if usual is None:
        return None
    left = 0.0
    for trial in sweep.trials:
        if trial.status == PENDING and trial.fits is not False:
            left += usual
        elif trial.status == RUNNING:
            taken = 0.0 if now is None or trial.since is None else max(0.0, now - trial.since)
            left += max(0.0, usual - taken)
    return left


def elapsed_s(sweep: Sweep, now: float | None = None) -> float:
    """Seconds that it took so far, without those in which it lay still. `now`: Unix time, while it runs."""
    if now is None or sweep.at is None or sweep.finished:
        return sweep.spent_s
    return sweep.spent_s + max(0.0, now - sweep.at)


def duration(seconds: float) -> str:
    """3725 -> "1 h 02 min"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
