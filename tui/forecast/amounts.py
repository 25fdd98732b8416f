"""Amounts with intervals: an exact one is its own interval."""

from tui.snapshot import UNKNOWN, Amount, Source


def measured(gib: float, why: str) -> Amount:
    return Amount(gib=gib, source=Source.MEASURED, why=why)


def learned(gib: float, why: str = "an earlier run of the same model, tp, quantisation and version") -> Amount:
    return Amount(gib=gib, source=Source.LEARNED, why=why)


def computed(gib: float, why: str) -> Amount:
    return Amount(gib=gib, source=Source.COMPUTED, why=why)


def estimated(gib: float, low: float, high: float, why: str) -> Amount:
    return Amount(gib=gib, source=Source.ESTIMATED, why=why, low_gib=low, high_gib=high)


def unknown(why: str) -> Amount:
    return Amount(why=why)


def low(amount: Amount) -> float | None:
    """The least it may be, GiB."""
    return amount.gib if amount.low_gib is None else amount.low_gib


def high(amount: Amount) -> float | None:
    """The most it may be, GiB."""
    return amount.gib if amount.high_gib is None else amount.high_gib


def total(*amounts: Amount, why: str = "") -> Amount:
    """The sum with its interval and the weakest source; unknown when a part is."""
    if any(amount.gib is None for amount in amounts):
        return UNKNOWN
    order = list(Source)
    return Amount(
        gib=sum(amount.gib or 0.0 for amount in amounts),
        source=max((amount.source for amount in amounts), key=order.index, default=Source.COMPUTED),
        why=why or "; ".join(amount.why for amount in amounts if amount.why),
        low_gib=sum(low(amount) or 0.0 for amount in amounts),
        high_gib=sum(high(amount) or 0.0 for amount in amounts),
    )
