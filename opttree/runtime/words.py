"""Numbers and values as texts and messages show them."""

from __future__ import annotations

MOST_PLAIN, MOST_WHOLE = 1e15, 1e18  # numbers from here on have an exponent, thresholds
EXACT, NOISE = 9, 1e-14  # digits of thresholds that are written exactly, and what rounding makes of their last ones


def number(value: float, digits: int = 4) -> str:
    """``value`` with ``digits`` significant digits, or all digits before the point: 0.2954, 2220, 22,200."""
    if 10.0**digits <= abs(value) < MOST_PLAIN:
        return f"{value:,.0f}" if abs(value) >= 10_000.0 else f"{value:.0f}"
    return f"{value:.{digits}g}"


def threshold(value: float, digits: int = 4) -> str:
    """A threshold, or a value that stands beside one: exactly where nine digits are enough, so that it lies between the
    same values of few decimals; else with two digits more than other numbers have.
    """
    if abs(value) >= MOST_PLAIN:
        return f"{value:.0f}" if abs(value) < MOST_WHOLE else repr(float(value))
    for k in range(digits, EXACT + 1):
        rounded = float(f"{value:.{k}g}")
        if abs(rounded - value) <= NOISE * abs(value):
            return f"{rounded:,}".removesuffix(".0") if abs(value) >= 10_000.0 else f"{rounded:.{k}g}"
    if abs(value) >= 10_000.0:
        return f"{value:,.1f}".removesuffix(".0")  # halves lie between whole numbers
    return number(value, digits + 2)


def short(name: str, most: int = 24) -> str:
    """A name in at most so many characters."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


def shown(value: object) -> str:
    """A value as messages quote it, in at most 60 characters."""
    item = getattr(value, "item", None) if getattr(value, "ndim", None) == 0 else None  # of a number of NumPy's
    words = repr(value if item is None else item())
    return words if len(words) <= 60 else f"{words[:57]}..."
