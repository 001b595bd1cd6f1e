"""Numbers and values as texts and messages show them."""

from __future__ import annotations

MOST_PLAIN = 1e15  # numbers from here on have an exponent


def number(value: float, digits: int = 4) -> str:
    """``value`` with ``digits`` significant digits, or all digits before the point: 0.2954, 2220, 22,200."""
    if 10.0**digits <= abs(value) < MOST_PLAIN:
        return f"{value:,.0f}" if abs(value) >= 10_000.0 else f"{value:.0f}"
    return f"{value:.{digits}g}"


def short(name: str) -> str:
    """A name in at most 24 characters."""
    return name if len(name) <= 24 else f"{name[:21]}..."


def shown(value: object) -> str:
    """A value as messages quote it, in at most 60 characters."""
    words = repr(value)
    return words if len(words) <= 60 else f"{words[:57]}..."
