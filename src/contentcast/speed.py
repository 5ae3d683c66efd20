"""How fast work went, as a number and as people read it: 12,345 events/s, and 0.33 events/s when Spark had four events."""

from __future__ import annotations

from typing import Final

EXACT_BELOW: Final = 10.0


def per_second(count: int, seconds: float) -> float:
    """A whole number where the work was enough for one."""
    rate = count / seconds if seconds else 0.0
    return round(rate) if rate >= EXACT_BELOW else round(rate, 3)


def shown_speed(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= EXACT_BELOW else f"{rate:.2g}"
