"""Audiences by what they are made of: the brokers of one process grow each of them once.

Rule: audiences that have the same key and the same way to match are the same audience.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, Final

from contentcast.model import Space
from contentcast.routing.audience.by_index import IndexAudience
from contentcast.routing.audience.by_tree import TreeAudience
from contentcast.routing.audience.members import Audience, Change

KEPT_AUDIENCES: Final = 16
"""Brokers of one process are a few changes apart from each other, not more."""


class Forest:
    """`options`: those of the search trees that grow here."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self._kept: OrderedDict[Hashable, Audience] = OrderedDict()

    def empty(self, space: Space, *, count_steps: bool) -> Audience:
        """Nobody yet. `count_steps`: in a search tree; else in the index."""
        return TreeAudience.empty(space, self.options) if count_steps else IndexAudience.empty(space)

    def audience(self, key: Hashable, before: Audience, changes: Sequence[Change]) -> Audience:
        """The audience of this key; it is `before` after `changes`."""
        known = (key, type(before))
        found = self._kept.get(known)
        if found is None:
            found = before.changed(changes)
            self._kept[known] = found
            if len(self._kept) > KEPT_AUDIENCES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(known)
        return found
