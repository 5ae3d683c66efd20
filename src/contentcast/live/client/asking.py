"""What a client asks its broker: spaces, where a durable subscription stands, how the broker is.

Rule: a space that was asked for once is asked for again only when the program names attributes of it that are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contentcast.live.client.durable import Place
from contentcast.live.client.receiving import Receiving
from contentcast.model import Space, SpaceError
from contentcast.wire.client import Ask, Spaces


class Asking(Receiving):
    """The part of a client that knows spaces; `Client` has the verbs."""

    def __init__(self, *where: Any, **options: Any) -> None:
        super().__init__(*where, **options)
        self._spaces: dict[str, Space] = {}
        self._given: str | Space | None = None
        """The last space that a program named, and which one that is: events one by one are of the same space."""
        self._found: Space
        self._declared: dict[str, Space] = {}

    async def declare(self, space: Space) -> Space:
        """Makes the space known to the network, or adds attributes to it; the space as it is now."""
        answer = await self._request(lambda number: Spaces.of([space], number))
        self._declared[space.name] = space
        return self._learn(answer)[space.name]

    async def space(self, name: str) -> Space:
        """The space of this name, as it is declared now."""
        return self._learn(await self._request(lambda number: Ask(number, "spaces", {"names": [name]})))[name]

    async def spaces(self) -> dict[str, Space]:
        return self._learn(await self._request(lambda number: Ask(number, "spaces")))

    async def place(self, durable: str) -> Place:
        """Where the durable subscription of this name stands; nobody's place is taken."""
        return Place(**await self.ask("durable", name=durable))

    async def acknowledge(self, durable: str, upto: int) -> Place:
        """The durable subscription of this name is done with all numbers up to this one, whoever is there for it."""
        return Place(**await self.ask("durable", name=durable, acknowledge=upto))

    async def ask(self, what: str, **document: Any) -> dict[str, Any]:
        """What the broker says of itself: `state`, `why`."""
        return await self._request(lambda number: Ask(number, what, document))

    async def _space(self, space: str | Space) -> Space:
        found = self._spaces.get(_name(space))
        if space is self._given and found is self._found:
            return self._found
        if found is None or (isinstance(space, Space) and not found.extends(space)):
            found = await (self.space(space) if isinstance(space, str) else self.declare(space))
        self._given, self._found = space, found
        return found

    async def _space_name(self, space: str | Space) -> str:
        return space if isinstance(space, str) else (await self._space(space)).name

    def _learn(self, answer: Mapping[str, Any]) -> dict[str, Space]:
        found = {each.name: each for each in (Space.from_dict(each) for each in answer["spaces"])}
        for space in found.values():
            self._versions.declare(space)
        self._spaces.update(found)
        return found


def _name(space: str | Space) -> str:
    if isinstance(space, str):
        return space
    if isinstance(space, Space):
        return space.name
    raise SpaceError(f"a space is its name or a cc.Space, got {space!r}")
