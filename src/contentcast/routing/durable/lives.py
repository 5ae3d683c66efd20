"""Positions and versions of different lives of a broker never meet, whatever its folder knows of the lives before.

    life 7     7 << 22 + 1, + 2, + 3 ...
    life 8     8 << 22 + 1, ...                 also if its folder is a copy from life 5, or empty

What a broker says to others, they remember: the last position that they have of it, the last version of its interests. A folder
that was brought back from an older copy does not know how far it was then. If numbers went on from what the folder knows, they
would come twice, and who knows them from before would take what is new for what it has.
Rule: the number of a life is greater than that of every earlier one, also of those that the folder has forgotten.
"""

from __future__ import annotations

from typing import Final

LIFE_BITS: Final = 22
"""A live broker has at most four lives a second, and accepts fewer than four million batches meanwhile."""


def before_life(incarnation: int) -> int:
    """No life before this one has given a higher number; the first begins with 1."""
    return max(0, incarnation - 1) << LIFE_BITS
