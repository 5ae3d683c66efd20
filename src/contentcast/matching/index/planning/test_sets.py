"""Which sets of tests share a group: fewer groups are fewer look-ups, but entries then carry tests that they do not need.

A signature is the set of tests that is left of an entry behind its gate. Behind one gate there may be hundreds of signatures.
Two of them share a group where one look-up saved is worth more than the tests that are made for nothing.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Final

from contentcast.matching.index.planning.gates import CANDIDATE_NS, PROBE_NS, TEST_NS, Test

MOST_COMMON: Final = 12
"""Signatures that are weighed one by one; the others share a group from the beginning."""


def merge_signatures(expected: Counter[frozenset[Test]]) -> dict[frozenset[Test], frozenset[Test]]:
    """Which signatures share one group, tests that an entry does not need being left open: fewer look-ups, more tests.

    `expected`: how many entries of each signature an event will look at.
    """
    groups: dict[frozenset[Test], float] = {}
    target: dict[frozenset[Test], frozenset[Test]] = {}
    common = [signature for signature, _ in expected.most_common(MOST_COMMON)]
    rest = [signature for signature in expected if signature not in common]
    if rest:
        mixed = widened(frozenset().union(*rest))
        groups[mixed] = sum(expected[each] for each in rest)
        target.update(dict.fromkeys(rest, mixed))
    for signature in common:
        groups[signature] = groups.get(signature, 0.0) + expected[signature]
        target.setdefault(signature, signature)
    gains: dict[tuple[frozenset[Test], frozenset[Test]], tuple[float, frozenset[Test]]] = {}

    def consider(one: frozenset[Test], other: frozenset[Test]) -> None:
        both = widened(one | other)
        before = _cost(one, groups[one]) + _cost(other, groups[other])
        gain = before - _cost(both, groups[one] + groups[other])
        if gain > 0.0:
            gains[one, other] = gain, both

    for one, other in combinations(groups, 2):
        consider(one, other)
    while gains:
        one, other = max(gains, key=lambda pair: gains[pair][0])
        _, both = gains[one, other]
        size = groups.pop(one) + groups.pop(other)
        gains = {pair: each for pair, each in gains.items() if not {one, other, both} & set(pair)}
        groups[both] = groups.get(both, 0.0) + size
        for third in groups:
            if third != both:
                consider(third, both)
        target = {each: both if into in (one, other) else into for each, into in target.items()}
    return target


def _cost(signature: frozenset[Test], entries: float) -> float:
    tests = sum({"word": 1.0, "low": 1.0, "high": 1.0, "range": 2.0, "set": 20.0, "text": 20.0}[kind] for kind, _ in signature)
    return PROBE_NS + (2.0 if signature else 0.0) + entries * (CANDIDATE_NS * 0.3 + TEST_NS * tests)


def widened(signature: frozenset[Test]) -> frozenset[Test]:
    """low and high, or range, of one attribute are one range."""
    names = {name for kind, name in signature if kind in ("low", "high", "range")}
    found = {test for test in signature if test[0] not in ("low", "high", "range")}
    for name in names:
        kinds = {kind for kind, each in signature if each == name and kind in ("low", "high", "range")}
        found.add((next(iter(kinds)) if len(kinds) == 1 else "range", name))
    return frozenset(found)
