"""`python -m tests.fuzz_frames --count 10000000`: frames of clients and brokers, mutated, to the decoder that every broker has.

A checksum is right and its payload is not, so that a decoder meets it. It is read, or refused by a `WireError`; anything
else is a finding, named by its block and its number. `tests/live/test_attacker.py` sends some thousands to a running broker.
Rule: a block of frames is made from the seed and its number alone.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import numpy as np

from contentcast.language import subscription
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.progress_lines import lines
from contentcast.wire import (
    DeclaredSpaces,
    Interest,
    Known,
    Mark,
    Neighbours,
    Publish,
    SpaceVersions,
    WireError,
    decode,
    encode,
)
from contentcast.wire.client import (
    Acknowledge,
    Addresses,
    Advertise,
    Ask,
    Beat,
    Direct,
    Done,
    Failed,
    Hello,
    Post,
    Spaces,
    Subscribe,
    Welcome,
    Withdraw,
)
from contentcast.wire.durable import Custody, DurableInterest, Have, InForce
from contentcast.wire.framing import Unframer
from tests.live.stories import TRADE, TRADES
from tests.live.test_attacker import _mutated

BLOCK = 10_000


def samples() -> list[bytes]:
    few, many = (EventBatch.from_dicts(TRADES, [TRADE, {"price": 1.0}] * count) for count in (1, 200))
    asked = SubscriptionBatch.of([subscription(TRADES, 1, "price < 120 AND issue = 'IBM' OR volume IN (1, 2)", subscriber="x")])
    rows = np.array([0, 1])
    messages = [
        Hello("client", "m", token="t"),
        Welcome("a", addresses=("contentcast://127.0.0.1:1",)),
        Subscribe(1, "trades", (1,), ("price < 9",)),
        Withdraw(1, "subscriptions", (1,)),
        Advertise(1, 1, "trades", "price < 9"),
        Spaces.of([TRADES], 1),
        Post(1, few, "m"),
        Post(2, many, "m"),
        Done(1, {"ids": [1, 2]}),
        Failed(1, "predicate", "x", "price <", 7),
        Acknowledge((1,), (2,)),
        Ask(1, "state", {"router": True}),
        Beat(1.0),
        Addresses({"b": (1, ("contentcast://127.0.0.1:1",))}),
        Publish("b", 1, 1, few),
        Publish("b", 1, 2, many),
        Interest("b", 1, 0, 1, (asked,)),
        Known({"b": Mark(1, {"interests": 3})}),
        Neighbours("b", 1, 1, (("a", 0.01),)),
        DeclaredSpaces("b", 1, 1, (TRADES,)),
        Direct(Publish("b", 1, 3, few)),
        DurableInterest("b", 1, 1, (asked,)),
        Custody(0, 0, 1, 1, rows, rows, Publish("b", 1, 1, few)),
        Have(0, 5, asks=True),
        InForce(1, 0, 5),
    ]
    return [encode(each) for each in messages]


def attack(seed: int, block: int, good: list[bytes], known: SpaceVersions) -> tuple[int, int]:
    """How many frames of a block were read, and how many were refused."""
    dice = random.Random(f"{seed} {block}")
    read = refused = 0
    for number in range(BLOCK):
        framed = _mutated(dice, good)
        try:
            for payload in Unframer().feed(framed):
                decode(payload, known)
            read += 1
        except WireError:
            refused += 1
        except Exception as reason:
            raise SystemExit(f"seed {seed}, block {block}, frame {number}: {reason!r}\n{framed!r}") from reason
    return read, refused


def main() -> int:
    told = argparse.ArgumentParser(prog="python -m tests.fuzz_frames")
    told.add_argument("--count", type=int, default=10_000_000)
    told.add_argument("--seed", type=int, default=random.randrange(10**6))
    asked = told.parse_args()
    print(f"seed {asked.seed}", flush=True)
    good, known = samples(), SpaceVersions()
    known.declare(TRADES)
    begun = time.monotonic()
    read = refused = 0
    with lines(lambda: f"fuzz_frames: {read + refused:,} frames"):
        for block in range(-(-asked.count // BLOCK)):
            some, others = attack(asked.seed, block, good, known)
            read, refused = read + some, refused + others
    print(f"{read + refused:,} mutated frames: {read:,} read, {refused:,} refused, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
