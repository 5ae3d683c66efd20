"""LIKE patterns: their one canonical text, matching, and which pattern's strings lie within another's.

A pattern is kept as its canonical LIKE text with backslash as the escape: `%%` is `%`, and in a run of wildcards the `_` come
first (`%_` and `_%` mean the same), so that equal texts are what equal patterns nearly always have.
Rule: `imply_together` and `have_no_match` are exact, except that both answer "no" past MOST_STATES or MOST_READS. What is
remembered of patterns is bounded in bytes (see `caches`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, Self

from contentcast.model.values.caches import weighed
from contentcast.model.values.effort import UNLIMITED, Effort
from contentcast.model.values.value_test import ValueTest

MOST_STATES: Final = 4096
"""How far the inclusion test looks; patterns of a dozen wildcards stay far below."""

MOST_READS: Final = 20_000
"""How many letters it reads in all the patterns together: some 10 ms. Two patterns come nowhere near, sixty at once do."""

LONGEST_WALKED: Final = 2_000
"""Longer patterns are not read at once at all."""

_MOST_KEPT: Final = 4_000_000
"""Bytes that each cache of patterns keeps, by an estimate of what a letter takes in it."""

LONGEST_COMPILED: Final = 200
"""A longer pattern is matched piece by piece: its regular expression takes many times its length, and `re` keeps it too."""


_READ_IN_TURN: Final = 2_000
"""Letters read to look for a piece with wildcards at one place after the other, before all the rest is looked at at once."""


class Wildcard(Enum):
    ONE = "_"
    RUN = "%"


Token = str | Wildcard


class PatternError(ValueError):
    """An escape that escapes nothing."""


def _letters(bytes_of_one: int) -> Callable[[str], int]:
    return lambda text: 500 + bytes_of_one * len(text)


def tokens_of(text: str, escape: str = "\\") -> list[Token]:
    """The pattern's tokens as Spark reads them: an escape may stand only before %, _ or itself."""
    tokens: list[Token] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise PatternError(f"the pattern ends in its escape character {escape!r}; write it twice to mean itself")
            if following not in ("%", "_", escape):
                raise PatternError(f"the escape character {escape!r} may stand before %, _ or itself, not {following!r}")
            tokens.append(following)
        elif character == "%":
            tokens.append(Wildcard.RUN)
        elif character == "_":
            tokens.append(Wildcard.ONE)
        else:
            tokens.append(character)
    return tokens


def escaped(text: str) -> str:
    """The text with what LIKE would take as special escaped."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


class Pattern(ValueTest):
    """`Pattern.of("N%SE")`; build with `of`, which makes the text canonical."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str, escape: str = "\\") -> Self:
        canonical: list[str] = []
        run = False
        for token in [*tokens_of(text, escape), ""]:
            if token is Wildcard.RUN:
                run = True
            elif token is Wildcard.ONE:
                canonical.append("_")
            else:
                if run:
                    canonical.append("%")
                    run = False
                canonical.append(escaped(token))
        return cls("".join(canonical))

    @property
    def tokens(self) -> tuple[Token, ...]:
        return _tokens(self.text)

    @property
    def literal(self) -> str | None:
        """The one string it matches, if it has no wildcard."""
        return "".join(map(str, self.tokens)) if all(isinstance(token, str) for token in self.tokens) else None

    @property
    def prefix(self) -> str:
        """What every match begins with."""
        found = []
        for token in self.tokens:
            if not isinstance(token, str):
                break
            found.append(token)
        return "".join(found)

    @property
    def is_prefix(self) -> bool:
        """Is it `text%`, so that an interval of strings says the same?"""
        return len(self.tokens) == len(self.prefix) + 1 and self.tokens[-1] is Wildcard.RUN

    def matches(self, text: str) -> bool:
        if len(self.text) > LONGEST_COMPILED:
            return matches_by_pieces(pieces_of(self.text), text)
        return _compiled(self.text).match(text) is not None

    @property
    def longest_gapped(self) -> int:
        """How many letters the longest piece between two % has that has a wildcard within: it may be read at each place."""
        gapped = (len(piece) for piece in pieces_of(self.text)[1:-1] if Wildcard.ONE in piece)
        return max(gapped, default=0)

    @property
    def anchor(self) -> str:
        """The longest run of plain characters."""
        longest = run = ""
        for token in self.tokens:
            run = run + token if isinstance(token, str) else ""
            longest = max(longest, run, key=len)
        return longest

    def implies(self, other: Pattern, effort: Effort = UNLIMITED) -> bool:
        """Is every match of this one a match of the other?"""
        return imply_together((self,), other, effort)

    def disjoint(self, other: Pattern) -> bool:
        """Does no string match both?"""
        return have_no_match((self, other))


@weighed(_MOST_KEPT, _letters(8))
def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(tokens_of(text))


@weighed(_MOST_KEPT, _letters(60))
def _compiled(text: str) -> re.Pattern[str]:
    """As a regular expression that does not go back: between two % each part is taken at its leftmost place, since if any
    placement works, this one does. Only the last part is looked for from the end.
    """
    parts = [""]
    for token in _tokens(text):
        if token is Wildcard.RUN:
            parts.append("")
        else:
            parts[-1] += "." if token is Wildcard.ONE else re.escape(token)
    first, *others = parts
    if not others:
        return re.compile(rf"{first}\Z", re.DOTALL)
    *middle, last = others
    steps = "".join(f"(?>.*?{part})" for part in middle)
    return re.compile(first + steps + (rf".*{last}\Z" if last else ""), re.DOTALL)


def matches_by_pieces(pieces: list[list[Token]], text: str) -> bool:
    """As `_compiled` matches, without a regular expression: the pieces between two % one after the other, each leftmost."""
    first, *others = pieces
    if not _stands(first, text, 0):
        return False
    at = len(first)
    if not others:
        return at == len(text)
    *middle, last = others
    for piece in middle:
        at = _find(piece, text, at)
        if at < 0:
            return False
        at += len(piece)
    end = len(text) - len(last)
    return end >= at and _stands(last, text, end)


@weighed(2 * _MOST_KEPT, _letters(8))
def pieces_of(text: str) -> list[list[Token]]:
    """What stands between the % of a pattern. Kept for long patterns too: cut anew for each of 667 values they took 0.8 s."""
    pieces: list[list[Token]] = [[]]
    for token in tokens_of(text):
        if token is Wildcard.RUN:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _stands(piece: list[Token], text: str, at: int) -> bool:
    if at + len(piece) > len(text):
        return False
    return all(token is Wildcard.ONE or token == text[at + place] for place, token in enumerate(piece))


def _find(piece: list[Token], text: str, at: int) -> int:
    """Where the piece first stands from `at` on. Its first letters in a row are looked for at once."""
    before = next((place for place, token in enumerate(piece) if isinstance(token, str)), len(piece))
    after = next((place for place in range(before, len(piece)) if not isinstance(piece[place], str)), len(piece))
    letters = "".join(token for token in piece[before:after] if isinstance(token, str))
    last = len(text) - len(piece)
    for _ in range(1 + _READ_IN_TURN // max(1, len(piece))):
        if at > last:
            return -1
        at = text.find(letters, at + before) - before
        if at < 0 or at > last:
            return -1
        if after == len(piece) or _stands(piece, text, at):
            return at
        at += 1
    return _find_at_once(piece, text, at)


def _find_at_once(piece: list[Token], text: str, at: int) -> int:
    """As `_find`, for all places of a stretch of text at once, one bit for each.

    Place by place takes the product of both lengths: `%a_a_...a_b%` of 16,000 letters against as many a's took 24 s.
    """
    offsets: dict[str, list[int]] = {}
    for offset, token in enumerate(piece):
        if isinstance(token, str):
            offsets.setdefault(token, []).append(offset)
    places = 4 * len(piece) + 256
    while at + len(piece) <= len(text):
        places = min(places, len(text) - len(piece) + 1 - at)
        stretch = text[at : at + places + len(piece) - 1]
        found = (1 << places) - 1
        for letter, expected in offsets.items():
            here = _places_of(letter, stretch)
            for offset in expected:
                found &= here >> offset
            if not found:
                break
        else:
            return at + (found & -found).bit_length() - 1
        at += places
        places *= 2
    return -1


def _places_of(letter: str, text: str) -> int:
    """A number with a bit for each place at which the letter stands."""
    bits = bytearray(len(text) // 8 + 1)
    at = text.find(letter)
    while at >= 0:
        bits[at >> 3] |= 1 << (at & 7)
        at = text.find(letter, at + 1)
    return int.from_bytes(bits, "little")


def _weight(patterns: tuple[Pattern, ...]) -> int:
    return 200 + 60 * len(patterns) + 4 * sum(len(each.text) for each in patterns)


class Reading:
    """A pattern as an automaton that reads a string, its states numbered as they are first reached.

    A state is the set of tokens before which the reading may stand. Those before a % are dropped: from the % on more can match.
    """

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = tokens
        self.letters = frozenset(token for token in tokens if isinstance(token, str))
        self.matched: list[bool] = []
        self.alive: list[bool] = []
        self._places: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self._next: dict[tuple[int, str], int] = {}
        self._state({0})

    def _state(self, places: set[int]) -> int:
        last_run = -1
        for place in range(min(places, default=0), len(self.tokens)):
            if place in places and self.tokens[place] is Wildcard.RUN:  # which may stand for nothing
                places.add(place + 1)
                last_run = place
        kept = frozenset(place for place in places if place >= last_run)
        if kept not in self._numbers:
            self._numbers[kept] = len(self._places)
            self._places.append(kept)
            self.matched.append(len(self.tokens) in kept)
            self.alive.append(bool(kept))
        return self._numbers[kept]

    def after(self, state: int, letter: str) -> int:
        """The state after one more letter; those that the pattern does not name are all alike."""
        key = (state, letter if letter in self.letters else "")
        found = self._next.get(key)
        if found is None:
            wanted = (Wildcard.ONE, letter)
            stands = [(place, self.tokens[place]) for place in self._places[state] if place < len(self.tokens)]
            reached = {place for place, token in stands if token is Wildcard.RUN}
            found = self._next[key] = self._state(reached | {place + 1 for place, token in stands if token in wanted})
        return found


@weighed(_MOST_KEPT, _letters(1_000))
def reading(text: str) -> Reading:
    return Reading(_tokens(text))


def _walk(patterns: tuple[Pattern, ...], needed: int, reads: list[int]) -> Iterator[tuple[bool, ...] | None]:
    """Which of the patterns match, for every combination that some string brings about; None when there are too many to see.

    All are read at once, letter by letter, as long as each of the first `needed` can still match. `reads` counts the letters.
    """
    if sum(len(each.text) for each in patterns) > LONGEST_WALKED:
        yield None
        return
    readings = [reading(each.text) for each in patterns]
    alphabet = [*sorted({letter for each in readings for letter in each.letters}), ""]  # and one that no pattern names
    start = (0,) * len(readings)
    waiting, seen = [start], {start}
    most = min(MOST_STATES, MOST_READS // (len(alphabet) * max(1, len(readings))))
    while waiting:
        states = waiting.pop()
        reads[0] += len(alphabet) * len(readings)
        yield tuple(each.matched[state] for each, state in zip(readings, states, strict=True))
        for letter in alphabet:
            following = tuple(each.after(state, letter) for each, state in zip(readings, states, strict=True))
            if following in seen or not all(each.alive[at] for each, at in zip(readings[:needed], following, strict=False)):
                continue
            if len(seen) >= most:
                yield None
                return
            seen.add(following)
            waiting.append(following)


@weighed(_MOST_KEPT, _weight)
def _example(patterns: tuple[Pattern, ...]) -> tuple[str | None]:
    """A string that matches them all, if one is easily put together: one pattern after the other, a letter that none of them
    names wherever any may stand. Reading many patterns at once, letter by letter, takes seconds.
    """
    named = {letter for each in patterns for letter in each.text}
    other = next((letter for letter in map(chr, range(0xE000, 0xF8FF)) if letter not in named), "")

    def anchored(pattern: Pattern) -> int:
        first, last = pattern.tokens[0] is Wildcard.RUN, pattern.tokens[-1] is Wildcard.RUN
        return (2 if not last else 1) if first else 0

    filled = [
        "".join(other if isinstance(token, Wildcard) else token for token in each.tokens)
        for each in sorted((each for each in patterns if each.tokens), key=anchored)
    ]
    text = other.join(filled)
    return (text if all(matches_by_pieces(pieces_of(each.text), text) for each in patterns) else None,)


def imply_together(narrows: tuple[Pattern, ...], wide: Pattern, effort: Effort = UNLIMITED) -> bool:
    """Is every string that matches all the narrow ones a match of the wide one?"""
    if wide in narrows:
        return True
    found, steps = _implied((*narrows, wide))
    effort.spend(steps)
    return found


def have_no_match(patterns: tuple[Pattern, ...], effort: Effort = UNLIMITED) -> bool:
    """Is there no string that matches them all?"""
    found, steps = _matchless(patterns)
    effort.spend(steps)
    return found


def _first_look(patterns: tuple[Pattern, ...]) -> int:
    return 4 + 2 * len(patterns) + sum(len(each.text) for each in patterns) // 10


@weighed(_MOST_KEPT, _weight)
def _implied(patterns: tuple[Pattern, ...]) -> tuple[bool, int]:
    """The answer, and the steps that it took: for the last pattern, whether all the others together imply it."""
    *narrows, wide = patterns
    steps = _first_look(patterns)
    (example,) = _example(tuple(narrows))
    if example is not None and not matches_by_pieces(pieces_of(wide.text), example):
        return False, steps
    if len(narrows) > 1:  # one of them alone may do, and reading two at once takes little
        for narrow in narrows:
            alone, more = _implied((narrow, wide))
            steps += more
            if alone:
                return True, steps
    reads = [0]
    found = all(met is not None and (met[-1] or not all(met[:-1])) for met in _walk(patterns, len(narrows), reads))
    return found, steps + reads[0]


@weighed(_MOST_KEPT, _weight)
def _matchless(patterns: tuple[Pattern, ...]) -> tuple[bool, int]:
    (example,) = _example(patterns)
    reads = [0]
    found = example is None and not any(met is None or all(met) for met in _walk(patterns, len(patterns), reads))
    return found, _first_look(patterns) + reads[0]


def forget() -> None:
    """Empty the caches."""
    for cache in (_tokens, _compiled, pieces_of, reading, _example, _implied, _matchless):
        cache.forget()
