"""LIKE patterns: their one canonical text, matching, and which pattern's strings lie within another's.

A pattern is kept as its canonical LIKE text with backslash as the escape: `%%` is `%`, and in a run of wildcards the `_` come
first (`%_` and `_%` mean the same), so that equal texts are what equal patterns nearly always have.
Rule: `imply_together` and `have_no_match` are exact, except that both answer "no" past MOST_STATES or MOST_READS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, Self

MOST_STATES: Final = 4096
"""How far the inclusion test looks; patterns of a dozen wildcards stay far below."""

MOST_READS: Final = 200_000
"""How many letters it reads in all the patterns together: some 50 ms. A few patterns come nowhere near, sixty at once do."""


class Wildcard(Enum):
    ONE = "_"
    RUN = "%"


Token = str | Wildcard


class PatternError(ValueError):
    """An escape that escapes nothing."""


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


@dataclass(frozen=True, slots=True, order=True)
class Pattern:
    """`Pattern.of("N%SE")`; build with `of`, which makes the text canonical."""

    text: str

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
        return _compiled(self.text).match(text) is not None

    def implies(self, other: Pattern) -> bool:
        """Is every match of this one a match of the other?"""
        return imply_together((self,), other)

    def disjoint(self, other: Pattern) -> bool:
        """Does no string match both?"""
        return have_no_match((self, other))


@lru_cache(maxsize=65536)
def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(tokens_of(text))


@lru_cache(maxsize=65536)
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


@lru_cache(maxsize=4096)
def _reading(text: str) -> Reading:
    return Reading(_tokens(text))


def _walk(patterns: tuple[Pattern, ...], needed: int) -> Iterator[tuple[bool, ...] | None]:
    """Which of the patterns match, for every combination that some string brings about; None when there are too many to see.

    All are read at once, letter by letter, as long as each of the first `needed` can still match.
    """
    readings = [_reading(each.text) for each in patterns]
    alphabet = [*sorted({letter for each in readings for letter in each.letters}), ""]  # and one that no pattern names
    start = (0,) * len(readings)
    waiting, seen = [start], {start}
    most = min(MOST_STATES, MOST_READS // (len(alphabet) * max(1, len(readings))))
    while waiting:
        states = waiting.pop()
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


@lru_cache(maxsize=4096)
def _example(patterns: tuple[Pattern, ...]) -> str | None:
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
    return text if all(each.matches(text) for each in patterns) else None


@lru_cache(maxsize=65536)
def imply_together(narrows: tuple[Pattern, ...], wide: Pattern) -> bool:
    """Is every string that matches all the narrow ones a match of the wide one?"""
    example = _example(narrows)
    if example is not None and not wide.matches(example):
        return False
    return all(met is not None and (met[-1] or not all(met[:-1])) for met in _walk((*narrows, wide), needed=len(narrows)))


@lru_cache(maxsize=65536)
def have_no_match(patterns: tuple[Pattern, ...]) -> bool:
    """Is there no string that matches them all?"""
    if _example(patterns) is not None:
        return False
    return not any(met is None or all(met) for met in _walk(patterns, needed=len(patterns)))
