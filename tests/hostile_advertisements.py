"""An advertisement of 300 bytes that multiplies out into 512 alternatives."""

from __future__ import annotations

from contentcast.language import advertisement
from contentcast.model import Advertisement, Space

PAIRS = Space("pairs", {f"a{at}": "string" for at in range(9)})


def of_pairs() -> Advertisement:
    """Nine attributes with two patterns each."""
    return advertisement(PAIRS, 1, {name: [f"{name} LIKE '%x0%'", f"{name} LIKE '%x1%'"] for name in PAIRS.names})
