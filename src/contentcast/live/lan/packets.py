"""A message as datagrams and back: cut where it is too long, numbered, put together again, and signed if there is a key.

    'CL' | version u8 | flags u8 | sender u64 | number u32 | part u16 | parts u16 | [group] [time] | piece | [tag 16]

`number` counts the datagrams of a sender to a group from 1, so a gap says how many were lost. The datagrams of one message
are consecutive: `part` of `parts`. With flag 1 (signed) a time in milliseconds comes before the piece and a tag after it.
With flag 2 (fan-out) the group comes as text, since the datagram was sent to one computer and not to the group. A probe (see
`reach`) names no group; its piece is the u64s of senders.
Rule: whatever the bytes are, `take` gives a message that its sender cut, or nothing; what it gave up is counted. What is kept
has a bound, also for senders that somebody has made up.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from contentcast.live.datagrams import MOST_DATAGRAM_BYTES
from contentcast.live.lan.keys import TAG_BYTES, GroupKey, Window
from contentcast.wire import WireError

MAGIC: Final = b"CL"
VERSION: Final = 1
SIGNED, FAN_OUT = 1, 2
HEADER: Final = struct.Struct("<2sBBQIHH")
TIME: Final = struct.Struct("<Q")
MOST_PARTS: Final = 0xFFFF
MOST_UNFINISHED: Final = 64
"""Messages of one sender to one group that wait for their other parts."""
MOST_UNFINISHED_BYTES: Final = 64 * 2**20
"""Of all senders to one group together."""
MOST_SENDERS: Final = 1024
"""Without a key anybody can make up senders. The one that was silent for longest is forgotten; if it is real, numbering begins
anew. With a key all are real, and forgetting one would let its datagrams be sent again.
"""
NUMBERS: Final = 1 << 32
PROBE: Final = ""
"""What stands in the place of a probe's group."""


class Whole(NamedTuple):
    """A message that came: who sent it, to which group (by its text in a fan-out, else empty), and its bytes."""

    sender: int
    group: str
    payload: bytes


def probe_bytes(senders: Iterable[int]) -> bytes:
    return np.array(sorted(senders), "<u8").tobytes()


def probe_ids(payload: bytes) -> set[int]:
    whole = payload[: len(payload) // 8 * 8]
    return set(np.frombuffer(whole, "<u8").tolist())


class Cutter:
    """Makes the datagrams of one sender."""

    def __init__(self, sender: int, key: GroupKey | None = None) -> None:
        self.sender = sender
        self._key = key
        self._numbers: dict[str, int] = {}

    def room(self, group: str, fan_out: bool = False) -> int:
        """Bytes of a message that fit into one datagram."""
        return MOST_DATAGRAM_BYTES - HEADER.size - (TIME.size + TAG_BYTES if self._key else 0) - (1 + len(group)) * fan_out

    def cut(self, payload: bytes, group: str, fan_out: bool = False) -> Iterator[bytes]:
        room = self.room(group, fan_out)
        parts = max(1, -(-len(payload) // room))
        if parts > MOST_PARTS:
            raise WireError(
                f"a message of {len(payload):,} bytes; at most {room * MOST_PARTS:,} go over a group, so send fewer events"
            )
        counted = f"{group} alone" if fan_out else group
        first = self._numbers.get(counted, 0) + 1
        self._numbers[counted] = (first + parts - 1) % NUMBERS
        flags = (SIGNED if self._key else 0) | (FAN_OUT if fan_out else 0)
        named = bytes([len(group)]) + group.encode() if fan_out else b""
        for part in range(parts):
            head = HEADER.pack(MAGIC, VERSION, flags, self.sender, (first + part) % NUMBERS, part, parts)
            piece = payload[part * room : (part + 1) * room] if parts > 1 else payload
            if self._key is None:
                yield head + named + piece
            else:
                signed = head + named + TIME.pack(self._key.now_ms()) + piece
                yield signed + self._key.tag(signed, group)


class _Unfinished(NamedTuple):
    """A message that waits for its other parts."""

    parts: int
    pieces: dict[int, bytes]


@dataclass(slots=True)
class _Stream:
    """What came from one sender to one group."""

    last: int = 0
    window: Window = field(default_factory=Window)
    unfinished: OrderedDict[int, _Unfinished] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class Losses:
    """Datagrams by what became of them."""

    received: int = 0
    missing: int = 0
    """Numbers that were passed over and have not come later."""
    unfinished: int = 0
    """Messages given up because a part never came."""
    foreign: int = 0
    """Datagrams that are not ours, of another version, or that disagree with other parts of their message."""
    unsigned: int = 0
    """Without the tag that the group's key demands, or with a wrong one."""
    replayed: int = 0
    own: int = 0
    """What this server sent itself and heard again: the group works on this computer."""


class Assembler:
    """Puts the messages of all senders to one group together. `own`: the sender whose datagrams are passed over."""

    def __init__(self, group: str, own: int, key: GroupKey | None = None) -> None:
        self.group = group
        self.losses = Losses()
        self._own = own
        self._key = key
        self._streams: OrderedDict[tuple[int, str], _Stream] = OrderedDict()
        """The one that was heard last is the last."""
        self._held = 0
        """Bytes of all unfinished messages."""

    def take(self, data: memoryview) -> Whole | None:
        """The message that this datagram completes."""
        losses = self.losses
        if len(data) < HEADER.size:
            losses.foreign += 1
            return None
        magic, version, flags, sender, number, part, parts = HEADER.unpack_from(data)
        if magic != MAGIC or version != VERSION or part >= parts or flags & ~(SIGNED | FAN_OUT):
            losses.foreign += 1
            return None
        if sender == self._own:
            losses.own += 1
            return None
        at, group = HEADER.size, ""
        if flags & FAN_OUT:
            end = at + 1 + (data[at] if len(data) > at else 0)
            try:
                group = bytes(data[at + 1 : end]).decode()
            except UnicodeDecodeError:
                losses.foreign += 1
                return None
            at = end
        stream = self._streams.get((sender, group))
        if self._key is not None:
            genuine = flags & SIGNED and self._key.opens(data, at, group or self.group, is_new=stream is None)
            if not genuine:
                losses.unsigned += 1
                return None
            at, data = at + TIME.size, data[:-TAG_BYTES]
        elif flags & SIGNED:
            losses.unsigned += 1
            return None
        if stream is None:
            stream = self._streams[sender, group] = _Stream()
            if self._key is None and len(self._streams) > MOST_SENDERS:
                self._drop(next(iter(self._streams)))
        else:
            self._streams.move_to_end((sender, group))
        if not stream.window.take(number):
            losses.replayed += 1
            return None
        losses.received += 1
        self._count(stream, number)
        if parts == 1:
            return Whole(sender, group, bytes(data[at:]))
        return self._join(stream, sender, group, (number - part) % NUMBERS, part, parts, bytes(data[at:]))

    def _count(self, stream: _Stream, number: int) -> None:
        if stream.last == 0:
            stream.last = number
            return
        ahead = (number - stream.last) % NUMBERS
        if ahead < NUMBERS // 2:
            self.losses.missing += ahead - 1
            stream.last = number
        else:
            self.losses.missing -= 1  # it was late, not lost

    def _join(self, stream: _Stream, sender: int, group: str, first: int, part: int, parts: int, piece: bytes) -> Whole | None:
        known = stream.unfinished.get(first)
        if known is None:
            known = stream.unfinished[first] = _Unfinished(parts, {})
        elif known.parts != parts:
            self.losses.foreign += 1
            return None
        pieces = known.pieces
        if part not in pieces:
            pieces[part] = piece
            self._held += len(piece)
        if len(pieces) == parts:
            del stream.unfinished[first]
            payload = b"".join(pieces[each] for each in range(parts))
            self._held -= len(payload)
            return Whole(sender, group, payload)
        if len(stream.unfinished) > MOST_UNFINISHED:
            self._give_up(stream)
        while self._held > MOST_UNFINISHED_BYTES:
            self._give_up(next(each for each in self._streams.values() if each.unfinished))
        return None

    def _give_up(self, stream: _Stream) -> None:
        """The oldest message that waits for its parts."""
        _, given_up = stream.unfinished.popitem(last=False)
        self._held -= sum(map(len, given_up.pieces.values()))
        self.losses.unfinished += 1

    def _drop(self, key: tuple[int, str]) -> None:
        stream = self._streams.pop(key)
        while stream.unfinished:
            self._give_up(stream)

    def forget(self, sender: int) -> None:
        for each in [key for key in self._streams if key[0] == sender]:
            self._drop(each)
