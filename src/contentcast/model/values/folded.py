r"""Tests that ignore case: LIKE patterns that the small letters of a value must match.

`lower` is Unicode's full mapping to small letters, which Python's `str.lower` and Java (so Spark's `lower`)
follow alike: a capital sigma at the end of a word becomes ς, and İ becomes i and a dot above. DuckDB maps character by
character, so it differs in these two.
Rule: the inner pattern is one that small letters can match; `lower(x) = 'ABC'` never becomes one of these.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.values.patterns import Pattern
from contentcast.model.values.value_test import ValueTest

TAG: Final = "\\i"


class Folded(ValueTest):
    r"""`Folded.of(Pattern.of("a%"))`; its text is the pattern's with `\i` before it."""

    __slots__ = ()

    @classmethod
    def of(cls, pattern: Pattern) -> Folded:
        return cls(TAG + pattern.text)

    @property
    def pattern(self) -> Pattern:
        """What the small letters must match."""
        return Pattern(self.text[len(TAG) :])

    @property
    def said(self) -> str:
        return f"LIKE '{self.pattern.text}' in small letters"

    def matches(self, value: str) -> bool:
        return self.pattern.matches(value.lower())

    def matches_column(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        pattern = self.pattern
        return np.fromiter((pattern.matches(value.lower()) for value in values.to_pylist()), np.bool_, len(values))


def is_small(text: str) -> bool:
    """Is the text its own small letters, so that it can be part of what `lower` makes?"""
    return all(each.lower() == each for each in text)


def lower_column(values: pa.Array) -> pa.Array:
    """The small letters of a column; nulls stay. Arrow maps character by character, so only ASCII is left to it."""
    if pc.all(pc.string_is_ascii(values), skip_nulls=True).as_py() is not False:
        return pc.ascii_lower(values)
    return pa.array([None if each is None else each.lower() for each in values.to_pylist()], values.type)
