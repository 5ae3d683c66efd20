"""What goes into a link and how many bytes it is: the message itself, or on request the bytes of its encoding.

Rule: a parcel is never changed, so the same one goes into all links over which a router sends the same message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from contentcast.wire import Message, SpaceVersions, decode, encode, events_of, frame, spaces_of
from contentcast.wire import message_bytes as wire_bytes

MessageBytes: TypeAlias = Callable[[Message], int]


class Parcel:
    """A message on its way, its bytes on the link, and how many events are in it."""

    __slots__ = ("_message", "events", "size")

    def __init__(self, message: Message | None, size: int, events: int) -> None:
        self._message = message
        self.size = size
        self.events = events

    def opened(self) -> Message:
        assert self._message is not None
        return self._message


class EncodedParcel(Parcel):
    """Decoded anew for every receiver, from nothing but its bytes and the spaces that all brokers have declared."""

    __slots__ = ("_data", "_spaces")

    def __init__(self, data: bytes, spaces: SpaceVersions, size: int, events: int) -> None:
        super().__init__(None, size, events)
        self._data = data
        self._spaces = spaces

    def opened(self) -> Message:
        return decode(self._data, self._spaces)


class Scales:
    """Makes parcels. `codec`: of encoded messages, framed as on a socket."""

    def __init__(self, message_bytes: MessageBytes | None = None, codec: bool = False) -> None:
        self.size: MessageBytes = wire_bytes if message_bytes is None else message_bytes
        self._codec = codec
        self._spaces = SpaceVersions()
        self._last: tuple[Message | None, Parcel] = (None, Parcel(None, 0, 0))

    def parcel(self, message: Message) -> Parcel:
        # A router sends one message to its neighbours one after the other.
        last, parcel = self._last
        if message is not last:
            parcel = self._packed(message)
            self._last = (message, parcel)
        return parcel

    def _packed(self, message: Message) -> Parcel:
        brought = events_of(message)
        events = 0 if brought is None else len(brought)
        if not self._codec:
            return Parcel(message, self.size(message), events)
        for space in spaces_of(message):
            self._spaces.declare(space)
        data = encode(message)
        return EncodedParcel(data, self._spaces, len(frame(data)), events)
