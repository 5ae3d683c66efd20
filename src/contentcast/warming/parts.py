"""What there is to compile, in parts: each is one process, `python -m contentcast.every_kernel PART`.

Rule: two parts that run at the same time share few kernels, since each would compile them. A part that comes after others finds
nearly everything compiled; it is there so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

AFTER: Final = {
    "matching": (),
    "building": (),
    "search-tree": (),
    "summaries": (),
    "index": ("matching", "building"),
    "counted-routing": ("search-tree", "summaries"),
    "indexed-routing": ("index", "summaries"),
    "routing": ("counted-routing", "indexed-routing"),
}
"""Each part with those that must be done before it; the longest first."""
INDEX: Final = "index"
COUNTED: Final = "counted-routing"
"""Brokers that count the steps of matching: with search trees, without the index."""
INDEXED: Final = "indexed-routing"
"""Brokers that match with the index."""
EVERYTHING: Final = "routing"
"""The part that needs all others."""
WITH_TREES: Final = frozenset({"link-matching-paper", "hybrid", "multicast"})
"""Protocols that have search trees even where steps are not counted."""


def part_of(protocols: Iterable[str], *, count_steps: bool) -> str:
    """The part that brokers of these protocols use. One from outside of this package, `package.module:Class`, may use all."""
    names = {each.partition(",")[0] for each in protocols}
    if any(":" in each for each in names):
        return EVERYTHING
    if count_steps:
        return COUNTED
    return EVERYTHING if names & WITH_TREES else INDEXED


def uses_index(part: str) -> bool:
    """Do the kernels of the index belong to it?"""
    return INDEX in needed_for(part) or part in needed_for(INDEX)


def needed_for(part: str) -> list[str]:
    """The part and all that comes before it, in the order of the table."""
    wanted = {part}
    for each in reversed(AFTER):
        if each in wanted:
            wanted.update(AFTER[each])
    return [each for each in AFTER if each in wanted]
