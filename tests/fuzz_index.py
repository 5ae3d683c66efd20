"""What strangers do to the index and the wire: damaged index files, damaged frames, and threads that read, change and parse.

Each kind takes dice and raises what it finds (see `fuzz_inputs`, which runs them within time and memory):

* an index file that was damaged is refused by a `ContentcastError`, or answers as the one that was saved;
* a frame that was damaged is refused by a `WireError`, or is a message that can be written again;
* while one thread changes the index and others parse, a reader sees the subscriptions that stay, and no id from elsewhere.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Final

import contentcast as cc
from contentcast.matching.index import Limits
from contentcast.model import ContentcastError, EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.wire import Frame, Interest, Known, Mark, Neighbours, Publish, Unframer, decode, encode, frame

TRADES: Final = Space("trades", issue="string", price="float", volume="int", note="string")
EVENTS: Final = [{"issue": f"i{at % 5}", "price": 7.5 * at, "volume": at % 4, "note": "abcdefgh"[at % 4 :]} for at in range(12)]
STAYING: Final = 40


def damaged(random: Random, raw: bytes) -> bytes:
    found = bytearray(raw)
    for _ in range(random.choice([1, 1, 3, 20])):
        at = random.randrange(len(found) + 1)
        match random.randrange(4):
            case 0:
                found[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del found[at : at + random.choice([1, 8, 300])]
            case 2:
                found[at:at] = random.choice([b'"', b"\xff\xfe", b"\0", b"\n", b",", b"\xff" * 8, b"{"])
            case _:
                del found[at:]
    return bytes(found)


def text(number: int) -> str:
    kinds = (
        f"issue = 'i{number % 5}' AND price < {number % 90}", f"price BETWEEN {number % 60} AND {number % 60 + 20}",
        f"note LIKE '%{'abcdefgh'[number % 8]}%'", f"volume IN ({number % 3}, {number % 5}) OR price IS NULL",
    )  # fmt: skip
    return kinds[number % 4]


# --- index files


@cache
def saved() -> tuple[bytes, list[list[int]]]:
    """An index as bytes, and what it answers."""
    index = cc.MatchIndex(TRADES)
    index.add_many(range(200), [text(number) for number in range(200)])
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "index")
        return (Path(folder) / "index").read_bytes(), [index.match(event) for event in EVENTS]


def index_file(random: Random) -> None:
    raw, expected = saved()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        path.write_bytes(damaged(random, raw))
        index = cc.MatchIndex.load(path, check=random.choice(["load", "first use"]))
        found = [index.match(event) for event in EVENTS]
        if found != expected:
            raise AssertionError("a damaged index file was loaded and answers wrongly")


# --- frames


@cache
def messages() -> list[bytes]:
    one = EventBatch.from_dicts(TRADES, EVENTS[:1])
    wanted = SubscriptionBatch.of([Subscription(at, cc.parse_predicate(TRADES, text(at)), "desk") for at in range(8)])
    made = [
        Publish("a", 1, 2, one), Publish("a", 1, 2, EventBatch.from_dicts(TRADES, EVENTS * 9)),
        Interest("a", 1, 0, 1, (wanted,)), Neighbours("a", 1, 2, (("b", 1.5), ("c", 2.0))), Known({"a": Mark(1, {"links": 2})}),
    ]  # fmt: skip
    return [encode(each) for each in [*made, Frame(4, 1, 5, 3, made[0])]]


def a_frame(random: Random) -> None:
    raw = damaged(random, random.choice(messages()))
    if random.random() < 0.5:
        encode(decode(raw, {"trades": TRADES}))
        return
    stream = damaged(random, b"".join(frame(each) for each in random.choices(messages(), k=3)))
    unframer = Unframer()
    at = 0
    while at < len(stream):
        piece = stream[at : at + random.choice([1, 7, 500])]
        at += len(piece)
        for each in unframer.feed(piece):
            decode(each, {"trades": TRADES})


# --- threads


def threads(random: Random) -> None:
    """Two parse nested predicates, one reads, and this one adds and removes."""
    index = cc.MatchIndex(TRADES, limits=Limits(replan_least=20, least_sample=8, piece=4, filed_at_once=4))
    index.add_many(range(STAYING), [text(number) for number in range(STAYING)])
    steady = [index.match(event) for event in EVENTS]
    batch = EventBatch.from_dicts(TRADES, EVENTS)
    done, found = Event(), list[BaseException]()
    deep = "(" * 95 + "price > 1" + ")" * 95

    def until_done(work: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                work()
        except ContentcastError as error:
            if "was changed" not in str(error):
                found.append(error)
        except BaseException as error:
            found.append(error)

    def read() -> None:
        for ids, expected in zip(index.match_lists(batch).to_pylist(), steady, strict=True):
            if sorted(each for each in ids if each < STAYING) != expected or any(each >= 1_000 for each in ids):
                raise AssertionError("a reader saw a state that never was")

    working = [Thread(target=until_done, args=(each,)) for each in (read, lambda: _parse(deep), lambda: _parse(deep))]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # more turns to meet in; at the usual 5 ms this thread waits most of the time
    for each in working:
        each.start()
    there: list[int] = []
    for turn in range(random.choice([20, 60])):
        if there and random.random() < 0.4:
            index.remove(there.pop(random.randrange(len(there))))
        else:
            there.append(STAYING + turn)
            index.add(there[-1], text(random.randrange(400)))
    done.set()
    for each in working:
        each.join()
    sys.setswitchinterval(usual)
    if found:
        raise found[0]


def _parse(text: str) -> None:
    cc.parse_predicate(TRADES, text)


KINDS: Final[list[Callable[[Random], None]]] = [index_file, a_frame, a_frame, threads]
