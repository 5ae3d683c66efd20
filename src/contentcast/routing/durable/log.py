"""The broker's log: what must survive is appended, and what waits for it is done when it is on disk.

    write(Kept(...), then)    [Append(record)]            `then` waits for record 12
    synced(12)                what `then` returns         now it may be told to others

Records are messages of `wire.durable`. A message names its space and does not carry it, so the log has a `DeclaredSpaces`
before the first record of a space.
Rule: whatever another broker or a client may rely on is told in a `then`, never beside the `write`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from contentcast.model import Space
from contentcast.routing.contract import Append, Effect
from contentcast.wire import DeclaredSpaces, Message, SpaceVersions, decode, encode, spaces_of
from contentcast.wire.fields import WireError

Then: TypeAlias = Callable[[float], list[Effect]]


class Log:
    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.written = 0
        """Records over all lives; the last may not be on disk yet."""
        self._spaces: set[Space] = set()
        self._waiting: deque[tuple[int, Then]] = deque()

    def restore(self, records: tuple[bytes, ...]) -> Iterator[Message]:
        """The messages of earlier lives, oldest first."""
        known = SpaceVersions()
        for number, record in enumerate(records, 1):
            try:
                message = decode(record, known)
            except WireError as reason:
                raise WireError(
                    f"broker {self.broker}: record {number} of {len(records)} of its log is damaged: {reason}. "
                    "Nothing was changed; bring the log back from a copy"
                ) from None
            self.written = number
            if isinstance(message, DeclaredSpaces):
                for space in message.spaces:
                    known.declare(space)
                    self._spaces.add(space)
            yield message

    def declare(self, space: Space) -> list[Effect]:
        """A space that was declared here survives."""
        if space in self._spaces:
            return []
        self._spaces.add(space)
        self.written += 1
        return [Append(encode(DeclaredSpaces(self.broker, 0, 0, (space,))))]

    def write(self, message: Message, then: Then) -> list[Effect]:
        effects: list[Effect] = []
        for space in spaces_of(message):
            effects += self.declare(space)
        effects.append(Append(encode(message)))
        self.written += 1
        self._waiting.append((self.written, then))
        return effects

    def synced(self, upto: int, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting and self._waiting[0][0] <= upto:
            effects += self._waiting.popleft()[1](now)
        return effects

    @property
    def waiting(self) -> int:
        """Writes that are not on disk yet."""
        return len(self._waiting)
