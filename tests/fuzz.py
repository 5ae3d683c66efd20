"""`python -m tests.fuzz --minutes 10`: random spaces, subscriptions and events against the oracle, for as long as one likes.

Single events, batches, lists, counts, streams and files are mixed in any order with subscriptions that come and go, one by one
and many at once: what one call leaves behind must not mislead the next. A difference is printed with its seed, and `--seed N`
repeats it.
Rule: what is found here becomes a test or a case under tests/cases.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import contentcast as cc
from contentcast.matching import Scan
from contentcast.matching.index import Limits
from contentcast.matching.search_tree import SearchTree
from contentcast.model import ContentcastError, EventBatch, Predicate, Space
from tests.properties.generate import Generator


class Trio:
    """The oracle, the index and the search tree, told the same."""

    def __init__(self, space: Space, random: Random, limits: Limits) -> None:
        self.space, self.random = space, random
        self.generate = Generator(random)
        self.scan, self.index, self.tree = Scan(space), cc.MatchIndex(space, limits=limits), SearchTree(space)
        self.ids: list[int] = []
        self.gone: list[int] = []
        self.next = random.choice([0, 2**40])

    def predicate(self) -> Predicate:
        while True:
            try:
                return cc.parse_predicate(self.space, self.generate.text(self.space, depth=self.random.randint(1, 3)))
            except ContentcastError:
                continue

    def add(self, count: int) -> None:
        predicates = [self.predicate() for _ in range(count)]
        ids = list(range(self.next, self.next + count))
        self.next += count
        if self.random.random() < 0.3:
            ids[: len(self.gone)], self.gone = self.gone[: len(ids)], self.gone[len(ids) :]  # come again
        self.ids += ids
        if self.random.random() < 0.5:
            self.index.add_many(ids, predicates)
        else:
            for number, predicate in zip(ids, predicates, strict=True):
                self.index.add(number, predicate)
        for number, predicate in zip(ids, predicates, strict=True):
            self.scan.add(number, predicate)
            self.tree.add(number, predicate)

    def remove(self, count: int) -> None:
        gone = self.random.sample(self.ids, min(count, len(self.ids)))
        self.ids = [each for each in self.ids if each not in set(gone)]
        self.gone += gone
        if self.random.random() < 0.5:
            self.index.remove_many(gone)
        else:
            for each in gone:
                self.index.remove(each)
        for each in gone:
            self.scan.remove(each)
            self.tree.remove(each)

    def events(self, count: int) -> EventBatch:
        return EventBatch.from_dicts(self.space, [self.generate.event(self.space) for _ in range(count)])

    def look(self) -> None:
        """One kind of question, and whether all agree."""
        batch = self.events(self.random.choice([1, 1, 2, 7, 40]))
        expected = self.scan.match_batch(batch)
        kind = self.random.choice(["one", "batch", "lists", "counts", "stream", "threads", "tree", "file", "chunks"])
        found: Any
        match kind:
            case "one":
                found = [self.index.match(event) for event in batch.to_dicts()]
            case "batch" | "threads":
                found = _lists(self.index.match_batch(batch, threads=2 if kind == "threads" else 1), len(batch))
            case "lists":
                found = self.index.match_lists(batch).to_pylist()
            case "counts":
                found, expected = self.index.match_counts(batch).to_pylist(), [len(each) for each in expected]
            case "stream":
                pieces = list(self.index.match_stream(batch, most_pairs=self.random.choice([1, 3, 50])))
                found = _lists(pa.Table.from_batches(pieces) if pieces else None, len(batch))
            case "tree":
                matches = self.tree.match_batch(batch)
                found = [matches.of(event).tolist() for event in range(len(batch))]
            case "file":
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "index"
                    self.index.save(path)
                    loaded = cc.MatchIndex.load(path)
                    found = _lists(loaded.match_batch(batch), len(batch))
                    if self.random.random() < 0.3:
                        self.index = loaded  # goes on with what was mapped
            case _:
                half = len(batch) // 2
                table = pa.Table.from_batches([batch.records.slice(0, half), batch.records.slice(half)])
                found = _lists(self.index.match_batch(table), len(batch))
        if [sorted(each) if isinstance(each, list) else each for each in found] != expected:
            raise AssertionError(f"{kind}: {found} instead of {expected} for {batch.to_dicts()} in {self.space}")


def _lists(pairs: Any, count: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(count)]
    if pairs is not None:
        for event, subscription in zip(pairs["event"].to_pylist(), pairs["subscription"].to_pylist(), strict=True):
            found[event].append(subscription)
    return found


def restless(random: Random) -> Limits:
    """How soon the index moves to a new plan, and how fast, so that most of what happens here happens during a migration."""
    piece, filed_at_once = random.choice([(1, 1), (4, 4), (256, 512)])
    paid = random.choice([1, 5, 50])
    return Limits(
        replan_least=random.choice([1, 10, 2000]), piece=piece, filed_at_once=filed_at_once, paid_per_change=paid,
        paid_in_order=paid, least_sample=random.choice([2, 4096]), step_work=random.choice([0, 1, 20]),
    )  # fmt: skip


def play(seed: int) -> int:
    """One space; says how many questions were asked."""
    random = Random(seed)
    limits = restless(random)
    trio = Trio(Generator(random).space(domains=random.random() < 0.3), random, limits)
    trio.add(random.choice([0, 1, 5, 60, 300]))
    questions = random.randint(5, 40)
    for _ in range(questions):
        if random.random() < 0.4:
            trio.add(random.choice([1, 1, 2, 20]))
        if random.random() < 0.3:
            trio.remove(random.choice([1, 1, 2, 20]))
        trio.look()
    return questions


def main() -> int:
    told = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random spaces against the oracle.")
    told.add_argument("--minutes", type=float, default=10.0)
    told.add_argument("--first", type=int, default=0, help="the first seed")
    told.add_argument("--seed", type=int, help="this one only")
    asked = told.parse_args()
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, sys.maxsize)
    begun, questions, spaces = time.monotonic(), 0, 0
    for seed in seeds:
        try:
            questions += play(seed)
        except Exception:
            print(f"seed {seed} failed; again: python -m tests.fuzz --seed {seed}", file=sys.stderr)
            raise
        spaces += 1
        if time.monotonic() - begun > 60 * asked.minutes:
            break
    print(f"{spaces:,} spaces, {questions:,} questions, no difference in {(time.monotonic() - begun) / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
