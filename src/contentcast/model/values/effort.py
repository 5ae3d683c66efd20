"""How much work one predicate may cause: strangers write texts of a line that take minutes to bring to their normal form.

Work is counted in steps of less than a microsecond, as if nothing had been remembered from earlier predicates: whether a
predicate is accepted must not depend on what came before it.
Rule: whoever compares patterns, or conjunctions with each other, spends its steps first.
"""

from __future__ import annotations

from typing import Final

from contentcast.model.errors import TooManyConjunctions

MOST_STEPS: Final = 100_000
"""For one predicate."""


class Effort:
    """What is left of the steps; without a limit unless one is given."""

    __slots__ = ("left", "most")

    def __init__(self, most: int | None = None) -> None:
        self.most, self.left = most, 0 if most is None else most

    def spend(self, steps: int) -> None:
        if self.most is None:
            return
        self.left -= steps
        if self.left < 0:
            raise TooManyConjunctions(
                f"the predicate takes too long to bring to its normal form: more than {self.most:,} steps, since it has many "
                "alternatives or patterns to compare with each other; split it into several subscriptions"
            )


UNLIMITED: Final = Effort()
