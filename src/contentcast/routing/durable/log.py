"""The broker's log: what must survive is appended, and what waits for it is done when it is on disk.

    write(Kept(...), then)    [Append(record)]            `then` waits for record 12
    synced(12)                what `then` returns         now it may be told to others

    checkpoint(messages)      [Append(record)]            `Trim` when it is on disk

Records are messages of `wire.durable` and `wire.checkpoints`. A message names its space and does not carry it, so the log has a
`DeclaredSpaces` before the first record of a space.
Rule: whatever another broker or a client may rely on is told in a `then`, never beside the `write`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from contentcast.model import Space
from contentcast.routing.contract import Append, Effect, Trim
from contentcast.wire import DeclaredSpaces, Message, SpaceVersions, decode, encode, spaces_of
from contentcast.wire.checkpoints import CHECKPOINT, Checkpoint
from contentcast.wire.fields import WireError

_CHECKPOINT: Final = bytes([CHECKPOINT])

Then: TypeAlias = Callable[[float], list[Effect]]


class Log:
    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.written = 0
        """Records over all lives; the last may not be on disk yet."""
        self.bytes = 0
        """Written since the last checkpoint, and of it."""
        self._spaces: dict[Space, None] = {}
        self._waiting: deque[tuple[int, Then]] = deque()

    def restore(self, records: tuple[bytes, ...], trimmed: int) -> Iterator[Message]:
        """The messages of earlier lives from the last checkpoint on, oldest first."""
        known = SpaceVersions()
        self.written = trimmed + len(records)
        begin = max((at for at, record in enumerate(records) if record[:1] == _CHECKPOINT), default=-1)
        if begin < 0 and trimmed:
            raise self._damaged(f"it begins with record {trimmed + 1}, and no checkpoint says what stood before")
        for number, record in enumerate(records[max(0, begin) :], trimmed + max(0, begin) + 1):
            self.bytes += len(record)
            message = self._read(record, number, known)
            if isinstance(message, Checkpoint):
                yield from (self._read(each, number, known) for each in message.records)
            else:
                yield message

    def _read(self, record: bytes, number: int, known: SpaceVersions) -> Message:
        try:
            message = decode(record, known)
        except WireError as reason:
            raise self._damaged(f"record {number} cannot be read: {reason}") from None
        if isinstance(message, DeclaredSpaces):
            for space in message.spaces:
                known.declare(space)
                self._spaces[space] = None
        return message

    def _damaged(self, why: str) -> WireError:
        return WireError(
            f"broker {self.broker}: its log is damaged: {why}. Nothing was changed; bring the log back from a copy"
        )

    def declare(self, space: Space) -> list[Effect]:
        """A space that was declared here survives."""
        if space in self._spaces:
            return []
        self._spaces[space] = None
        return [self._append(DeclaredSpaces(self.broker, 0, 0, (space,)))]

    def _append(self, message: Message) -> Append:
        record = encode(message)
        self.written += 1
        self.bytes += len(record)
        return Append(record)

    def write(self, message: Message, then: Then) -> list[Effect]:
        effects: list[Effect] = []
        for space in spaces_of(message):
            effects += self.declare(space)
        effects.append(self._append(message))
        self._waiting.append((self.written, then))
        return effects

    def checkpoint(self, messages: Iterable[Message]) -> list[Effect]:
        """These tell the whole state, with all that was written: when it is on disk, what stands before it can go."""
        spaces = DeclaredSpaces(self.broker, 0, 0, tuple(self._spaces))
        self.bytes = 0
        append = self._append(Checkpoint(tuple(encode(each) for each in (spaces, *messages))))
        number = self.written
        self._waiting.append((number, lambda now: [Trim(number)]))
        return [append]

    def synced(self, upto: int, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting and self._waiting[0][0] <= upto:
            effects += self._waiting.popleft()[1](now)
        return effects

    @property
    def waiting(self) -> int:
        """Writes that are not on disk yet."""
        return len(self._waiting)
