"""LIKE patterns: their one canonical text, matching, and which pattern's strings lie within another's.

A pattern is kept as its canonical LIKE text with backslash as the escape: `%%` is `%`, and in a run of wildcards the `_` come
first (`%_` and `_%` mean the same), so that equal texts are what equal patterns nearly always have.
Rule: `imply_together` and `have_no_match` are exact, except that both answer "no" past MOST_STATES.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import product as cartesian
from typing import Final, Self

MOST_STATES: Final = 4096
"""How far the inclusion test looks; patterns of a dozen wildcards stay far below."""


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
        return _matches(_parts(self.text), text)

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
def _parts(text: str) -> tuple[tuple[Token, ...], ...]:
    """The tokens between the % signs."""
    parts: list[list[Token]] = [[]]
    for token in _tokens(text):
        if token is Wildcard.RUN:
            parts.append([])
        else:
            parts[-1].append(token)
    return tuple(map(tuple, parts))


def _fits(part: tuple[Token, ...], text: str, at: int) -> bool:
    return all(token is Wildcard.ONE or token == text[at + i] for i, token in enumerate(part))


def _matches(parts: tuple[tuple[Token, ...], ...], text: str) -> bool:
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return len(text) == len(first) and _fits(first, text, 0)
    end = len(text) - len(last)
    if len(first) > end or not _fits(first, text, 0) or not _fits(last, text, end):
        return False
    # Each middle part at its leftmost place: if any placement works, this one does.
    at = len(first)
    for part in parts[1:-1]:
        while at + len(part) <= end and not _fits(part, text, at):
            at += 1
        if at + len(part) > end:
            return False
        at += len(part)
    return True


def _closure(tokens: tuple[Token, ...], state: int) -> list[int]:
    """The state and those after it that are reached by reading nothing."""
    states = [state]
    while state < len(tokens) and tokens[state] is Wildcard.RUN:
        state += 1
        states.append(state)
    return states


def _step(tokens: tuple[Token, ...], state: int, character: str) -> list[int]:
    if state == len(tokens):
        return []
    token = tokens[state]
    if token is Wildcard.RUN:
        return _closure(tokens, state)
    return _closure(tokens, state + 1) if token is Wildcard.ONE or token == character else []


def _alphabet(*patterns: tuple[Token, ...]) -> list[str]:
    """Every character that a pattern names, and one that none does (the empty string equals no token)."""
    return [*sorted({token for tokens in patterns for token in tokens if isinstance(token, str)}), ""]


@lru_cache(maxsize=65536)
def imply_together(narrows: tuple[Pattern, ...], wide: Pattern) -> bool:
    """Is every string that matches all the narrow ones a match of the wide one?

    Walks all at once: each combination of states of the narrow ones with all the states the wide one can be in.
    """
    tokens, wide_tokens = [each.tokens for each in narrows], wide.tokens
    ends = tuple(map(len, tokens))
    alphabet = _alphabet(*tokens, wide_tokens)
    start = frozenset(_closure(wide_tokens, 0))
    waiting = [(states, start) for states in cartesian(*(_closure(each, 0) for each in tokens))]
    seen = set(waiting)
    while waiting:
        states, others = waiting.pop()
        if states == ends and len(wide_tokens) not in others:
            return False
        for character in alphabet:
            reached: frozenset[int] | None = None
            for followers in _steps(tokens, states, character):
                if reached is None:
                    reached = frozenset(each for other in others for each in _step(wide_tokens, other, character))
                if (followers, reached) not in seen:
                    if len(seen) >= MOST_STATES:
                        return False
                    seen.add((followers, reached))
                    waiting.append((followers, reached))
    return True


@lru_cache(maxsize=65536)
def have_no_match(patterns: tuple[Pattern, ...]) -> bool:
    """Is there no string that matches them all?"""
    tokens = [each.tokens for each in patterns]
    ends = tuple(map(len, tokens))
    alphabet = _alphabet(*tokens)
    waiting = list(cartesian(*(_closure(each, 0) for each in tokens)))
    seen = set(waiting)
    while waiting:
        states = waiting.pop()
        if states == ends:
            return False
        for character in alphabet:
            for followers in _steps(tokens, states, character):
                if followers not in seen:
                    if len(seen) >= MOST_STATES:
                        return False
                    seen.add(followers)
                    waiting.append(followers)
    return True


def _steps(tokens: list[tuple[Token, ...]], states: tuple[int, ...], character: str) -> Iterator[tuple[int, ...]]:
    return cartesian(*(_step(each, state, character) for each, state in zip(tokens, states, strict=True)))
