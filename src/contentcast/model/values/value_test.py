r"""A test of one value that ranges cannot say: LIKE patterns, patterns of the small letters, regular expressions, networks.

Constraints, the index, the search tree, summaries and the wire hold tests and know no sort of them. Each is its text: LIKE
patterns have theirs as it is, and the other sorts begin with a backslash and a letter, which no LIKE text does (see
`tests_of_values`).

    name LIKE '%x_'            %x_                  lower(name) LIKE '%x'      \i%x
    name RLIKE '^[a-f]+$'      \r^[a-f]+$           in_cidr(ip, '10.0.0.0/8')  \c10.0.0.0/8

Rule: two tests with one text are equal, and equal values pass equal tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

    from contentcast.model.values.kinds import Value


@total_ordering
@dataclass(frozen=True, slots=True)
class ValueTest:
    """The contract, and the answers of a test about which nothing is known."""

    text: str

    def __lt__(self, other: ValueTest) -> bool:
        return self.text < other.text

    def matches(self, value: Value) -> bool:
        raise NotImplementedError

    def matches_column(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """The same for a column without nulls."""
        return np.fromiter((self.matches(value) for value in values.to_pylist()), np.bool_, len(values))

    @property
    def said(self) -> str:
        """As a person would say it of a value that is not named."""
        return f"LIKE '{self.text}'"

    @property
    def tokens(self) -> tuple[Any, ...]:
        """Characters that each match has in this order, and wildcards between them, if it is a pattern."""
        return ()

    @property
    def literal(self) -> str | None:
        """The one string it matches, if there is but one."""
        return None

    @property
    def prefix(self) -> str:
        """What every match begins with."""
        return ""

    @property
    def is_prefix(self) -> bool:
        """Does its prefix say all, so that an interval of strings says the same?"""
        return False

    @property
    def anchor(self) -> str:
        """A text that every match contains, the longer the better."""
        return ""
