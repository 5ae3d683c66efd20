"""At least one message of every type of the registry, and how strangers change their bytes.

`tests/unit/wire/test_samples.py` fails when a type has no sample here; `fuzz_frames` and `live/test_attacker.py` change them.
Rule: where a message has fields that may be left out, one sample has them all.
"""

from __future__ import annotations

import random
import struct
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from contentcast.language import advertisement, parse_many, subscription
from contentcast.matching.summaries import Precision, Summary
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.wire import (
    Advertisements,
    DeclaredSpaces,
    Frame,
    Header,
    Interest,
    Known,
    Mark,
    Message,
    Neighbours,
    Publish,
    SpaceVersions,
    chord,
    client,
    encode,
    frame,
    multicast,
)
from contentcast.wire.checkpoints import Checkpoint, Dropped, Owed, Stripped, Tables, Waiting
from contentcast.wire.covering import AskAgain, Everywhere, Forwarded
from contentcast.wire.durable import Custody, DurableInterest, Have, InForce, Kept, Taken, Wanted
from contentcast.wire.overlay import Acknowledged, ArcDigest, Between, Cast, Held, Mapping, Notices, Posted, Stored
from contentcast.wire.summaries import Arrived, Handed, Lacking, MergedBroker, Propagated

TRADES: Final = Space("trades", issue="string", price="float", volume="int")
EVERY: Final = Space(
    "every", s="string", i="int", f="float", b="bool", t="timestamp", y="bytes", words="list of string", counts="list of int"
)
LATER: Final = Space("trades", issue="string", price="float", volume="int", note="string")
"""A version of `trades` with one attribute more."""
KNOWN: Final = SpaceVersions([TRADES, LATER, EVERY])

_ROWS = [
    {"s": "Zürich", "i": -1, "f": 2.5, "b": True, "t": datetime(2026, 3, 1, 12, tzinfo=UTC), "y": b"\0\xff", "counts": [1, -2]},
    {"words": ["a", "ß"], "b": False},
    {},
]
_TEXTS = [
    "s LIKE '%X%' AND NOT s LIKE 'a_b' OR i IN (1, 2, 300)",
    "f BETWEEN 1 AND 2.5 OR t > TIMESTAMP '2026-01-01' OR y = X'1F' OR b",
    "array_contains(words, 'a') OR array_contains(counts, 7) OR size(counts) > 3",
    "s RLIKE '^a+b' OR s IS NULL",
]
_FEW = EventBatch.from_dicts(TRADES, [{"issue": "IBM", "price": 119.5, "volume": 5000}, {"price": 1.0}])
_MANY = EventBatch.from_dicts(EVERY, _ROWS * 40)
_SOME = EventBatch.from_dicts(EVERY, _ROWS)
_ASKED = SubscriptionBatch.of([subscription(TRADES, 1, "price < 120 AND issue = 'IBM' OR volume IN (1, 2)", subscriber="x")])
_MORE = SubscriptionBatch.of([subscription(EVERY, 2**40 + at, text, subscriber="y") for at, text in enumerate(_TEXTS)])
_OFFERED = (
    advertisement(TRADES, 1, {"price": ["price < 9", "price > 100"], "issue": "ANY"}, publisher="p"),
    advertisement(EVERY, 2, {"s": "s LIKE 'a%'", "i": "i IN (1, 2)"}),
)
_PUBLISH = Publish("b", 1, 1, _FEW)
_ROWS_OF, _IDS = np.array([0, 0, 1]), np.array([7, 2**40, 7])
_KEYS = np.array([2, 2**63 + 5], np.uint64)


def _summaries() -> tuple[Message, ...]:
    """A whole summary, and what has changed since."""
    made = []
    for space, texts, precision in ((TRADES, ["price < 5", "issue LIKE '%x' OR volume IN (1, 2)"], None), (EVERY, _TEXTS, 4)):
        summary = Summary(space, precision=Precision(rows=precision))
        summary.add("a", range(len(texts)), parse_many(space, texts))
        whole = summary.columns()
        summary.part("a")
        summary.add("a", [100], parse_many(space, texts[:1]))
        summary.remove("a", [0])
        made.append(Propagated((MergedBroker("a", 3, True), MergedBroker("b", 1, False)), (whole,), (summary.delta("a", 1),)))
    return tuple(made)


def samples() -> list[Message]:
    hears = ((1, "a"), (2, "b"))
    return [
        # brokers: events, knowledge, sessions
        _PUBLISH,
        Publish("b", 1, 2, _MANY),
        Publish("b", 1, 3, _SOME, Header(pa.array([[1, 2], [], [3]]), pa.array([["b"], [], ["c", "d"]]), checked=("a", "b"))),
        Publish("b", 1, 4, _FEW, Header(keys=pa.array([[-5], [1, 2]]))),
        Interest("b", 1, 0, 1, (_ASKED, _MORE), (5, 2**60)),
        Neighbours("b", 1, 1, (("a", 0.01), ("Zürich", 0.0))),
        Known({"a": Mark(1, {"interests": 2, "links": 3}), "b": Mark(2**60, {})}),
        Frame(9, 1, 8, 3, _PUBLISH),
        Frame(9, 0, 8, 41),
        DeclaredSpaces("b", 1, 1, (TRADES, EVERY)),
        Advertisements("b", 1, 1, _OFFERED),
        # summaries, covering
        *_summaries(),
        Lacking(("a", "b")),
        Handed(7, _PUBLISH),
        Arrived(7),
        Forwarded(1, 0, 2, (("a", _ASKED), ("c", _MORE)), (("a", (1, 2**50)),)),
        AskAgain(),
        Everywhere(_PUBLISH),
        # the overlay
        chord.Ask(True, 3),
        chord.Answer("a", ("b", "c"), 3),
        chord.Locate(2**64 - 1, "a", 4),
        chord.Leaving("a", ("b", "c")),
        Posted(5, Cast(_KEYS, _KEYS, np.array([0, 1]), 3, True, False, True, _PUBLISH)),
        Acknowledged(5),
        Cast(_KEYS, _KEYS, np.array([0, 1]), message=Stored("a", 1, 60.0, _ASKED, np.array([2]), _IDS, _IDS)),
        Stored("a", 1, 60.0, _MORE, np.arange(4), _IDS, _IDS, True),
        Stored("a", 1, 60.0, None, _IDS[:0], _IDS, _IDS),
        ArcDigest(1, 2**64 - 1, 2**63, 60.0, True),
        Held(1, 2**64 - 1, True, ("a", "a", "b"), _ROWS_OF, _IDS, _ROWS_OF),
        Notices(("a", "b"), _KEYS, (_PUBLISH, Publish("b", 1, 2, _SOME))),
        Mapping(3, "a", '{"cuts": {"price": [1.5, 3.5]}}', True, True),
        Between("a/1", "b/2", chord.Ask(False)),
        # LAN multicast
        multicast.Wants(1, 0, 2, (_ASKED, _MORE), (5,), (1, "a"), hears, True),
        multicast.Wants(1, 2, 2, uses=(1, "a"), hears=hears, promises=True),
        multicast.Ask("b", (2, "a")),
        multicast.Proposal(2, "a", "239.0.0.1:1", ("239.0.0.9:1",), ("239.0.0.2:1", "239.0.0.3:1"), (True, False), _OFFERED),
        multicast.Sequenced(1, 5, _PUBLISH),
        multicast.Last(1, 5),
        multicast.Repair(1, "b", "239.0.0.2:1", ((1, 3), (7, 7))),
        multicast.Pass(1, "b", "239.0.0.2:1", ((1, 3), (7, 7)), 2),
        # durable delivery and its log
        DurableInterest("b", 1, 1, (_ASKED,)),
        InForce(1, 0, 5),
        Custody(0, 0, 1, 1, _ROWS_OF, _IDS, _PUBLISH, np.array([7, 9])),
        Have(0, 5, asks=True),
        Kept(5, "p", 9, (Wanted("a", 1, _ROWS_OF[:2], _IDS[:2]), Wanted("c", 2, _ROWS_OF[2:], _IDS[2:])), _PUBLISH),
        Taken("a", 5, _ROWS_OF, _IDS, _PUBLISH, np.array([7, 9])),
        Checkpoint((encode(Stripped("b", 5)), b"", b"three")),
        Tables(5, {"p": (3, 4)}, {"b": (0, 5)}, {"a": 9}, {7: (1, 20, 10)}, {"p": [(1, 2)]}),
        Owed("b", Custody(1, 2, 5, 3, _ROWS_OF, _IDS, _PUBLISH)),
        Waiting(7, 12, _PUBLISH),
        Stripped("b", 5),
        Dropped(7, 40),
        # live connections
        client.Hello("client", "m", 1, 1, 5, "overlay", ("contentcast://127.0.0.1:1",), "token", "key"),
        client.Welcome("a", 1, 5, "overlay", ("contentcast://127.0.0.1:1",), "m", 1000, 10**6, 10**6),
        client.Failed(1, "predicate", "expected a value", "price <", 7, post=True),
        client.Beat(1.0, 0.5),
        client.Direct(Publish("b", 1, 3, _FEW)),
        client.Addresses({"b": (1, ("contentcast://127.0.0.1:1",))}),
        client.Subscribe(1, "trades", (1, 2), ("price < 9", "TRUE"), "drop", "desk-7", 12),
        client.Withdraw(1, "subscriptions", (1,), ("desk-7",)),
        client.Advertise(1, "trades", 1, "price < 9"),
        client.Spaces.of([TRADES, EVERY], 1),
        client.Post(1, _FEW, "m", keep_ids=True),
        client.Post(2, _MANY, "m"),
        client.Done(1, {"ids": [1, 2], "deep": {"a": [None, True, 1.5, b"x"]}}, post=True),
        client.Delivery(_FEW, np.array([1, 3]), np.array([7, 8, 9]), 4),
        client.Delivery(_MANY, np.arange(1, 1 + len(_MANY)), np.arange(len(_MANY))),
        client.Ask(1, "state", {"router": True}),
        client.DurableDelivery(3, 12, _FEW, 2),
        client.DurableDelivery(3, 12, _MANY),
        client.Acknowledge((3, 4), (12, 40)),
    ]


_NUMBERS: Final = [0, 1, 127, 2**31 - 1, 2**31, 2**32 - 1]
_LONG: Final = [0, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
_ODD: Final = [b"\xff\xfe", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf", b"e\xcc\x81", b"\x7f\xc0", b"\x00\x00\xf0\x7f"]
"""No UTF-8, half of a pair, NUL, a mark of byte order, a letter in two parts, parts of infinity and NaN."""


def mutated(dice: random.Random, good: list[bytes]) -> bytes:
    """A frame whose checksum is right and whose payload is not: that is where a decoder meets it."""
    payload = bytearray(dice.choice(good))
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(payload))
        match dice.randrange(8):
            case 0:
                payload[at] = dice.randrange(256)
            case 1:
                del payload[at : at + dice.randint(1, 8)]
            case 2:
                payload[at:at] = dice.randbytes(dice.randint(1, 8))
            case 3:
                payload[at : at + 4] = struct.pack("<I", dice.choice(_NUMBERS))
            case 4:
                payload[at : at + 8] = struct.pack("<Q", dice.choice(_LONG))
            case 5:
                payload[at : at + 2] = dice.choice(_ODD)
            case 6:  # a piece of another message
                other = dice.choice(good)
                cut = dice.randrange(len(other))
                payload[at:at] = other[cut : cut + dice.choice([1, 8, 40])]
            case 7:  # a piece once more
                payload[at:at] = payload[at : at + dice.choice([1, 8, 40])]
        if not payload:
            return frame(b"\0")
    return frame(bytes(payload))
