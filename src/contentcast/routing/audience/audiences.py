"""The audiences of all spaces at one broker: changes are gathered, and an audience is brought up to date when it is asked for.

    note(a subscribes to trades)       waiting: trades [a]
    note(b starts again)               waiting: trades [a, b goes], logs [b goes]
    of(trades)                         the audience of trades after both; nothing waits for it any more

When a space gains attributes, its audience is made anew from all batches in the new version of the space.
Rule: changes of a space that nobody asks for are folded into the audience after a while, so that none wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from contentcast.model import Space, SubscriptionBatch
from contentcast.routing.audience.forest import Forest
from contentcast.routing.audience.members import Audience, Change
from contentcast.routing.parts.spaces import SpaceRegister

MOST_WAITING: Final = 256
"""Changes of one space that wait for somebody to ask; more are folded into the audience at once."""

Empty = Callable[[Space], Audience]
Grow = Callable[[Space, Audience, Sequence[Change]], Audience]
Batches = Callable[[], Iterable[tuple[str, SubscriptionBatch]]]


class Audiences:
    """`empty` makes the audience of a space with nobody in it, `grow` one from the one before and changes; `batches` gives all
    subscriptions there are.
    """

    def __init__(self, spaces: SpaceRegister, empty: Empty, grow: Grow, batches: Batches) -> None:
        self._spaces = spaces
        self._empty = empty
        self._grow = grow
        self._batches = batches
        self._waiting: dict[str, list[Change]] = {}
        self._made: dict[str, Audience] = {}

    @classmethod
    def of_one(cls, spaces: SpaceRegister, batches: Batches, *, count_steps: bool) -> Audiences:
        """Audiences that no other broker shares."""
        return cls(
            spaces,
            lambda space: Forest().empty(space, count_steps=count_steps),
            lambda space, before, changes: before.changed(changes),
            batches,
        )

    def note(self, change: Change) -> None:
        """Puts a change where the audience of each space it touches finds it. What goes may be of any space that is known."""
        mine = None
        if change.added is not None:
            space = change.added.space
            mine = space.name
            self._waiting.setdefault(mine, []).append(change)
            if mine not in self._made:
                self._made[mine] = self._empty(self._spaces.present(space))
        if change.removed is None or change.removed:
            for name in self._made:
                if name != mine:
                    self._waiting.setdefault(name, []).append(change._replace(added=None))
        for name, waiting in list(self._waiting.items()):
            if len(waiting) > MOST_WAITING:
                self.of(self._made[name].space)

    def of(self, space: Space) -> Audience:
        """Everybody who wants something of this space, as far as noted."""
        present = self._spaces.present(space)
        found = self._made.get(space.name)
        waiting = self._waiting.pop(space.name, None)
        if found is not None and waiting is None and (found.space is present or found.space == present):
            return found
        if found is None or found.space != present:
            everything = [
                Change(origin, (), batch.widened(present))
                for origin, batch in self._batches()
                if batch.space.name == space.name
            ]
            found = self._grow(present, self._empty(present), everything)
        else:
            found = self._grow(present, found, [_widened(change, present) for change in waiting or ()])
        self._made[space.name] = found
        return found

    def spaces(self) -> list[Space]:
        """Those that somebody wants something of, or wanted."""
        return [self._spaces.present(self._made[name].space) for name in sorted(self._made)]

    def sizes(self) -> dict[str, int]:
        """What all audiences take together, by name."""
        found = {"subscriptions": 0, "bytes": 0}
        for audience in map(self.of, self.spaces()):
            found["subscriptions"] += len(audience)
            for name, size in audience.sizes().items():
                found[name] = found.get(name, 0) + size
        return found

    @property
    def waiting(self) -> int:
        """Changes that no audience has taken yet."""
        return sum(map(len, self._waiting.values()))


def _widened(change: Change, space: Space) -> Change:
    return change if change.added is None else change._replace(added=change.added.widened(space))
