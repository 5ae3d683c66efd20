"""What there is to compile, in parts: each is one process, `python -m contentcast.every_kernel PART`.

Rule: two parts that run at the same time share few kernels, since each would compile them. The parts `index` and `routing` come
after all that they need and find nearly everything compiled; they are there so that nothing is left out.
"""

from __future__ import annotations

from typing import Final

AFTER: Final = {
    "matching": (),
    "building": (),
    "search-tree": (),
    "summaries": (),
    "index": ("matching", "building"),
    "routing": ("index", "search-tree", "summaries"),
}
"""Each part with those that must be done before it; the longest first."""
INDEX: Final = "index"
EVERYTHING: Final = "routing"
"""The part that needs all others."""


def needed_for(part: str) -> list[str]:
    """The part and all that comes before it, in the order of the table."""
    wanted = {part}
    for each in reversed(AFTER):
        if each in wanted:
            wanted.update(AFTER[each])
    return [each for each in AFTER if each in wanted]
