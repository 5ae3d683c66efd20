"""What is fixed for the events of one publisher at one broker, and the ways that a batch takes from there.

Rule: the same for the search tree and for the index; they differ in how they find the links (`annotated`, `indexed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.routing.audience.pairs import Onward, rows_of_links
from contentcast.routing.link_matching.masks import VirtualLinks, Words

Ints = npt.NDArray[np.int64]
NONE: Final = np.empty(0, np.int64)


class Start(NamedTuple):
    """`neighbours[i]` gets what is wanted behind the links in `masks[i]`; `mask` has all links that lead away."""

    mask: Words
    neighbours: list[str]
    masks: Words
    single: list[tuple[str, list[int]]]
    """Neighbours and masks as plain ints, word by word: for one event they are faster than arrays."""

    @classmethod
    def of(cls, links: VirtualLinks, publisher: str, extra: int = 0) -> Start:
        by_neighbour = links.by_neighbour(publisher, extra)
        mask = links.mask(publisher, extra)
        masks = np.array([words for _, words in by_neighbour], np.uint64).reshape(len(by_neighbour), len(mask))
        single = [(neighbour, [int(word) for word in words]) for neighbour, words in by_neighbour]
        return cls(mask, [neighbour for neighbour, _ in by_neighbour], masks, single)

    def onward(self, yes: Words) -> Onward:
        """The events for each neighbour (None: all of them), by the links of each event."""
        if len(yes) == 1:
            words = yes[0].tolist()
            return [
                (neighbour, None)
                for neighbour, mask in self.single
                if any(word & bits for word, bits in zip(words, mask, strict=True))
            ]
        chosen = zip(self.neighbours, rows_of_links(yes, self.masks), strict=True)
        return [(neighbour, None if len(rows) == len(yes) else rows) for neighbour, rows in chosen if len(rows)]


@dataclass(slots=True)
class Ways:
    """Where a batch goes: the rows for each neighbour (all rows: None), and pairs (row, client) if clients are links."""

    onward: Onward
    rows: Ints
    who: Ints
    steps: Ints
