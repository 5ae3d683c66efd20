"""lists: rules that ask of lists, against rules of equality over the same words, and against the oracle that tries each rule.

Every round brings lists that the index has not seen: what it remembers of a list helps nobody here. The words of the equality
rules are known to it, as they are in the lists.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

import contentcast as cc
from benchmarks.columns import SEED
from benchmarks.report import Result, Table
from benchmarks.timing import Timed, in_turns
from contentcast.matching import Scan

EQUAL: Final = "tag = 'w'"
FORMS: Final = {
    EQUAL: "tag = '{}'",
    "array_contains(tags, 'w')": "array_contains(tags, '{}')",
    "arrays_overlap(tags, array('v', 'w'))": "arrays_overlap(tags, array('{}', '{}'))",
    "NOT array_contains(tags, 'w') AND tag = 'v'": "NOT array_contains(tags, '{}') AND tag = '{}'",
    "exists(tags, t -> t LIKE 'w%')": "exists(tags, t -> t LIKE '{}%')",
}
SPACE: Final = cc.Space("posts", {"tag": "string", "tags": "list of string"})
LENGTH: Final = 3
TARGET: Final = 0.25
ORACLE_EVENTS: Final = 5


def run(quick: bool = False) -> Result:
    rules, words, batch, rounds = (1_500, 1_000, 1_000, 3) if quick else (100_000, 50_000, 5_000, 11)
    random = np.random.default_rng(SEED)
    named = np.array([f"word-{each}" for each in range(words)], object)
    jobs: dict[str, Any] = {}
    for name, form in FORMS.items():
        index = cc.MatchIndex(SPACE)
        chosen = random.choice(named, (rules, 2))
        index.add_many(range(rules), [form.format(*each) for each in chosen])
        batches = [_events(random, named, batch) for _ in range(rounds + 2)]
        for each in batches[rounds:]:
            index.match_counts(each)  # the first call pays for compiling, the second finds every word known
        jobs[name] = (batch, _job(index, batches))
        if name != EQUAL and quick:
            _check(form, chosen[:200], batches[0])
    timed = in_turns(jobs, rounds=rounds)
    equal = timed[EQUAL]
    rows = [[name, f"{each.per_s:,.0f}", f"{each.per_s / equal.per_s:.2f}"] for name, each in timed.items()]
    return Result(
        "lists",
        "Lists: rules that ask for elements",
        [
            f"{rules:,} rules over {words:,} words, lists of {LENGTH} words not seen before, batches of {batch:,} events, "
            f"one thread. Medians of {rounds} rounds, all in turns in each round.",
        ],
        [Table("", ["the rules", "events/s", "of equality's speed"], rows, frozenset([EQUAL]))],
        [_note(timed)],
        {name: {"events_per_s": each.per_s, "of_equality": each.per_s / equal.per_s} for name, each in timed.items()},
        quick,
    )


def _events(random: np.random.Generator, words: Any, count: int) -> pa.Table:
    inside = pa.array(random.choice(words, LENGTH * count), pa.string())
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, LENGTH * count + 1, LENGTH), pa.int32()), inside)
    return pa.table({"tag": pa.array(random.choice(words, count), pa.string()), "tags": lists})


def _job(index: cc.MatchIndex, batches: list[pa.Table]) -> Any:
    return lambda number: index.match_batch(batches[number])


def _check(form: str, chosen: Any, events: pa.Table) -> None:
    """What is measured gives the oracle's answers."""
    index, scan = cc.MatchIndex(SPACE), Scan(SPACE)
    for number, each in enumerate(chosen):
        index.add(number, form.format(*each))
        scan.add(number, cc.parse_predicate(SPACE, form.format(*each)))
    for event in events.slice(0, ORACLE_EVENTS).to_pylist():
        if index.match(event) != scan.match(event):
            raise AssertionError(f"{form}: another answer than the oracle's for {event}")


def _note(timed: dict[str, Timed]) -> str:
    ratio = timed["array_contains(tags, 'w')"].per_s / timed[EQUAL].per_s
    verdict = "holds" if ratio >= TARGET else "DOES NOT HOLD"
    return f"Target: array_contains at no less than a quarter of the speed of equality. {verdict}: {ratio:.3f}."
