"""Numbers as every sentence, table and screen writes them."""


def count(value: float | None) -> str:
    """A whole number, thousands apart: 116 707; – when not known."""
    return "–" if value is None else f"{value:,.0f}".replace(",", " ")
