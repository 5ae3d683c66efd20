"""Text to predicate: SQL boolean expressions in Spark's dialect, checked against the space.

`grammar` reads nearly every text. A short text that it does not read goes to sqlglot, which knows the odd corners of Spark's
SQL and what is wrong with a text that is none (see `sqlglot_reader`). The same text means the same in Spark SQL;
docs/reference/language.md is the specification, docs/internals/decisions/0002-parser.md says why sqlglot.
Rule: whatever text comes in, a `PredicateError` or a predicate comes out, in time that grows with the text and with no change
to anything that threads share.
"""

from __future__ import annotations

import re
from typing import Final

from contentcast.language.errors import WHAT_IS_POSSIBLE, PredicateError
from contentcast.language.grammar import MOST_TESTS, read_tree
from contentcast.language.operands import NotRead, Wrong
from contentcast.language.sqlglot_reader import Reader
from contentcast.model.errors import TooManyConjunctions
from contentcast.model.predicates.normalise import normalise
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.tree import Tree
from contentcast.model.space import Space

_BRACKETS: Final = re.compile(r"[(\[{)\]}]")

_ONLY_GRAMMAR: Final = re.compile(
    r"\b(?:ilike|rlike|regexp)\b|\b(?:lower|lcase|coalesce|ifnull|nvl|regexp_like|in_cidr|array_contains|arrays_overlap|exists|forall|size|cardinality|array_size)\s*\(",
    re.IGNORECASE,
)
"""Forms that the grammar alone reads: where a text has one, its word about the text is the last."""

MOST_CHARS: Final = 65_536
"""Longer texts are refused, unless the caller allows them. Up to here a text is answered or refused in about 0.1 s."""

_MOST_EXPLAINED: Final = 2_000
_DEEPEST_EXPLAINED: Final = 12
"""How long and how deeply nested a text sqlglot is asked about. It recurses, some 30 frames for a level, so here it takes about
a third of the stack that Python gives by default."""


def parse_predicate(space: Space, text: str, *, most_chars: int | None = MOST_CHARS) -> Predicate:
    """The canonical predicate of a text; `predicate.tree` keeps its syntax. `most_chars=None` takes a text of any length.

    Whoever allows longer texts than MOST_CHARS also allows any number of tests in them.
    """
    tree = parse_tree(space, text, most_chars=most_chars)
    try:
        return normalise(space, tree)
    except TooManyConjunctions as reason:
        raise PredicateError(text, 0, str(reason)) from None


def parse_tree(space: Space, text: str, *, most_chars: int | None = MOST_CHARS) -> Tree:
    if not isinstance(text, str):
        raise PredicateError("", 0, f"a predicate is a text, not {_shortened(repr(text))}")
    check_length(text, "predicate", most_chars)
    try:
        return read_tree(space, text, most_tests=MOST_TESTS if most_chars is not None and most_chars <= MOST_CHARS else None)
    except Wrong as reason:
        raise PredicateError(text, reason.offset, reason.reason) from None
    except NotRead as reason:
        if len(text) > _MOST_EXPLAINED or too_deep(text, _DEEPEST_EXPLAINED) is not None:
            raise PredicateError(text, reason.offset, f"{reason.reason}; {WHAT_IS_POSSIBLE}") from None
        unread = reason
    reader = Reader(space, text)
    for sign, word in (("||", "OR"), ("&&", "AND")):
        if (at := reader.unquoted().find(sign)) >= 0:
            raise PredicateError(text, at, f"write {word} for {sign}")
    if _ONLY_GRAMMAR.search(reader.unquoted()):
        raise PredicateError(text, unread.offset, unread.reason)
    try:
        return reader.tree(reader.expression())
    except RecursionError:
        raise PredicateError(text, unread.offset, f"{unread.reason}; {WHAT_IS_POSSIBLE}") from None


def check_length(text: str, what: str, most_chars: int | None) -> None:
    if most_chars is not None and len(text) > most_chars:
        reason = f"the {what} has {len(text):,} characters, more than {most_chars:,}; split it, or allow more with most_chars"
        raise PredicateError(text[:200], 0, reason)


def too_deep(text: str, most: int) -> int | None:
    """Where brackets of any kind stand in more than `most` others, those in quotes counted too."""
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        depth += 1 if bracket[0] in "([{" else -1
        if depth > most:
            return bracket.start()
    return None


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
