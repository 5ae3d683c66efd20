"""What several tests of one value say about each other.

LIKE patterns and regular expressions are compared as automata that read one string side by side; patterns of the small
letters among themselves, as patterns; networks by their bits. Tests of different sorts are taken to say nothing about each
other, except that an automaton reads both LIKE and regular expressions. Rule: a "yes" of `imply_together` and `have_no_match`
is right. A "no" may be wrong, where a test is not understood or too large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contentcast.model.values import patterns
from contentcast.model.values.caches import weighed
from contentcast.model.values.effort import UNLIMITED, Effort
from contentcast.model.values.folded import Folded
from contentcast.model.values.networks import InNetwork
from contentcast.model.values.patterns import MOST_READS, MOST_STATES, Pattern
from contentcast.model.values.regular import Automaton, Regex, automaton_of
from contentcast.model.values.value_test import ValueTest

Tests = tuple[ValueTest, ...]

_PLACES_IN_A_STEP: Final = 4
"""Of an automaton, as many places are moved in the time of one step."""


def implies(narrow: ValueTest, wide: ValueTest, effort: Effort = UNLIMITED) -> bool:
    return imply_together((narrow,), wide, effort)


def imply_together(narrows: Tests, wide: ValueTest, effort: Effort = UNLIMITED) -> bool:
    """Is every value that matches all the narrow ones a match of the wide one?"""
    if wide in narrows:
        return True
    if isinstance(wide, InNetwork):
        return any(isinstance(each, InNetwork) and each.within(wide) for each in narrows)
    if isinstance(wide, Folded):
        inner = tuple(each.pattern for each in narrows if isinstance(each, Folded))
        return bool(inner) and patterns.imply_together(inner, wide.pattern, effort)
    read = tuple(each for each in narrows if isinstance(each, (Pattern, Regex)))
    if not read:
        return False
    plain = tuple(each for each in read if isinstance(each, Pattern))
    if isinstance(wide, Pattern) and len(plain) == len(read):
        return patterns.imply_together(plain, wide, effort)
    found, steps = _implied((*read, wide))
    effort.spend(steps)
    return found


def have_no_match(tests: Tests, effort: Effort = UNLIMITED) -> bool:
    """Is there no value that matches them all?"""
    plain = tuple(each for each in tests if isinstance(each, Pattern))
    if len(plain) == len(tests):
        return patterns.have_no_match(plain, effort)
    networks = [each for each in tests if isinstance(each, InNetwork)]
    if any(one.disjoint(other) for at, one in enumerate(networks) for other in networks[at + 1 :]):
        return True
    folded = tuple(each.pattern for each in tests if isinstance(each, Folded))
    if len(folded) > 1 and patterns.have_no_match(folded, effort):
        return True
    read = tuple(each for each in tests if isinstance(each, (Pattern, Regex)))
    if len(read) == len(plain):
        return len(plain) > 1 and patterns.have_no_match(plain, effort)
    found, steps = _matchless(read)
    effort.spend(steps)
    return found


def _weight(tests: Tests) -> int:
    return 200 + 60 * len(tests) + 4 * sum(len(each.text) for each in tests)


@weighed(4_000_000, _weight)
def _implied(tests: Tests) -> tuple[bool, int]:
    reads = [4]
    found = all(met is not None and (met[-1] or not all(met[:-1])) for met in _walk(tests, len(tests) - 1, reads))
    return found, reads[0]


@weighed(4_000_000, _weight)
def _matchless(tests: Tests) -> tuple[bool, int]:
    reads = [4]
    return not any(met is None or all(met) for met in _walk(tests, len(tests), reads)), reads[0]


def _walk(tests: Tests, needed: int, reads: list[int]) -> Iterator[tuple[bool, ...] | None]:
    """As `patterns._walk`, for automata of both sorts: one letter for each class of characters that all of them treat alike."""
    if sum(len(each.text) for each in tests if isinstance(each, Pattern)) > patterns.LONGEST_WALKED:
        yield None  # the places at which a long pattern may stand are many: 16,000 letters took 2.4 s
        return
    readings: list[Automaton | patterns.Reading] = [
        automaton_of(each) if isinstance(each, Regex) else patterns.reading(each.text) for each in tests
    ]
    alphabet = _letters(readings)
    start = (0,) * len(readings)
    waiting, seen = [start], {start}
    # A letter moves all the places of an automaton at once.
    steps = len(alphabet) * sum(
        1 + (each.places // _PLACES_IN_A_STEP if isinstance(each, Automaton) else 0) for each in readings
    )
    most = min(MOST_STATES, MOST_READS // steps)
    while waiting:
        states = waiting.pop()
        reads[0] += steps
        yield tuple(each.matched[state] for each, state in zip(readings, states, strict=True))
        for letter in alphabet:
            following = tuple(each.after(state, letter) for each, state in zip(readings, states, strict=True))
            if following in seen or not all(each.alive[at] for each, at in zip(readings[:needed], following, strict=False)):
                continue
            if len(seen) >= most or any(isinstance(each, Automaton) and each.is_full for each in readings):
                yield None
                return
            seen.add(following)
            waiting.append(following)


def _letters(readings: list[Automaton | patterns.Reading]) -> list[str]:
    """One letter of each class. A surrogate is no character, so the class that begins there begins after them."""
    cuts = {0}
    for each in readings:
        if isinstance(each, Automaton):
            cuts |= set(each.cuts)
        else:
            cuts |= {end for letter in each.letters for end in (ord(letter), ord(letter) + 1)}
    found: dict[tuple[int | str, ...], str] = {}
    for cut in sorted(cuts):
        code = 0xE000 if 0xD800 <= cut <= 0xDFFF else cut
        if code > 0x10FFFF:
            continue
        letter = chr(code)
        alike = tuple(
            each.class_of(letter) if isinstance(each, Automaton) else letter if letter in each.letters else ""
            for each in readings
        )
        found.setdefault(alike, letter)
    return list(found.values())
