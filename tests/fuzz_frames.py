"""`python -m tests.fuzz_frames --count 10000000`: mutated frames of every type of message, to the decoder of every broker.

A checksum is right and its payload is not, so that a decoder meets it. It is refused by a `WireError`, or read; what is read
can be told in a line and written again. Anything else is a finding, and so is a frame that takes more processor time or memory
than the limits here. A finding is named by its block and its number. `tests/live/test_attacker.py` sends some thousands to a
running broker.
Rule: a block of frames is made from the seed and its number alone.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from typing import Final

from contentcast.progress_lines import lines
from contentcast.wire import WireError, decode, describe, encode
from contentcast.wire.framing import Unframer
from tests.messages import KNOWN, mutated, samples

BLOCK: Final = 10_000
MOST_CPU_S: Final = 1.0
"""For one frame: a hundred times what the slowest takes."""
MOST_GROWTH_MB: Final = 300


def take(framed: bytes) -> bool:
    """Whether a frame was read; False if it was refused as it should be."""
    try:
        found = [decode(payload, KNOWN) for payload in Unframer().feed(framed)]
    except WireError:
        return False
    for message in found:
        describe(message)
        again = encode(message)
        if encode(decode(again, KNOWN)) != again:
            raise AssertionError(f"written and read again it is another message: {describe(message)}")
    return True


def attack(seed: int, block: int, good: list[bytes]) -> tuple[int, float]:
    """How many frames of a block were read, and the processor time of the slowest."""
    dice = random.Random(f"{seed} {block}")
    read, slowest = 0, 0.0
    for number in range(BLOCK):
        framed = mutated(dice, good)
        begun = time.thread_time()
        try:
            read += take(framed)
        except Exception as reason:
            raise SystemExit(f"seed {seed}, block {block}, frame {number}: {reason!r}\n{framed!r}") from reason
        slowest = max(slowest, time.thread_time() - begun)
        if slowest > MOST_CPU_S:
            raise SystemExit(f"seed {seed}, block {block}, frame {number}: {slowest:.1f} s of processor time\n{framed!r}")
    return read, slowest


def main() -> int:
    told = argparse.ArgumentParser(prog="python -m tests.fuzz_frames")
    told.add_argument("--count", type=int, default=10_000_000)
    told.add_argument("--seed", type=int, default=random.randrange(10**6))
    asked = told.parse_args()
    print(f"seed {asked.seed}", flush=True)
    good = [encode(each) for each in samples()]
    begun, before = time.monotonic(), _resident_mb()
    frames = read = 0
    slowest = 0.0
    with lines(lambda: f"fuzz_frames: {frames:,} frames"):
        for block in range(-(-asked.count // BLOCK)):
            some, took = attack(asked.seed, block, good)
            frames, read, slowest = frames + BLOCK, read + some, max(slowest, took)
            if _resident_mb() - before > MOST_GROWTH_MB:
                raise SystemExit(f"seed {asked.seed}, block {block}: memory has grown by {_resident_mb() - before} MB")
    print(f"{frames:,} mutated frames: {read:,} read, {frames - read:,} refused, {time.monotonic() - begun:.0f} s")
    print(f"slowest {slowest:.3f} s of processor time; memory has grown by {_resident_mb() - before} MB")
    return 0


def _resident_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main())
