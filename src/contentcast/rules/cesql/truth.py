"""When an expression of CloudEvents SQL is true, when it is false, and that an error in between lets no event pass.

Source: CloudEvents SQL 1.0, sections 1.2 (a filter passes no event for which an error came up), 3.2 (a missing attribute is an
error) and 3.6 (AND and OR stop at the first operand that decides).

An OR is therefore not SQL's: in `a = 1 OR b = 2` an event without `a` does not pass, whatever its `b`. It does in SQL. In
`b = 2 OR a = 1` it passes with b = 2, since `a` is never looked at. So for each expression two clauses are built, one that is
TRUE when the expression is true without an error, and one for false:

    true(A OR B)  = true(A)  OR  false(A) AND true(B)          false(A OR B) = false(A) AND false(B)

For `false(A)` it is mostly enough that the attributes of A are there, which reads better: `a = 1 OR a IS NOT NULL AND b = 2`.
Rule: `yes` and `no` are never TRUE together, and both are not TRUE exactly when an error came up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contentcast.rules.clauses import FALSE, TRUE, Clause, Some, all_of, any_of, is_present, negated


@dataclass(frozen=True, slots=True)
class Truth:
    """`names` are the subjects it looks at.

    `total`: with all of them present there is no error. `yes_needs_all` (`no_needs_all`): it is true (false) only with all of
    them present.
    """

    yes: Clause
    no: Clause
    names: tuple[str, ...] = ()
    total: bool = True
    yes_needs_all: bool = True
    no_needs_all: bool = True


ALWAYS: Final = Truth(TRUE, FALSE)
NEVER: Final = Truth(FALSE, TRUE)
ERROR: Final = Truth(FALSE, FALSE, total=False)


def test(subject: str, clause: Clause) -> Truth:
    """A test of one attribute that fails in no other way than by its absence."""
    return Truth(clause, negated(clause), (subject,))


def known(subject: str, truth: bool) -> Truth:
    """The same for every value, as soon as there is one."""
    return Truth(is_present(subject), FALSE, (subject,)) if truth else Truth(FALSE, is_present(subject), (subject,))


def partial(subject: str, yes: Clause, no: Clause) -> Truth:
    """A test that has an error for some values."""
    return Truth(yes, no, (subject,), total=False)


def opposite(one: Truth) -> Truth:
    return Truth(one.no, one.yes, one.names, one.total, one.no_needs_all, one.yes_needs_all)


def either(left: Truth, right: Truth) -> Truth:
    return opposite(both(opposite(left), opposite(right)))


def both(left: Truth, right: Truth) -> Truth:
    return Truth(
        yes=all_of([left.yes, right.yes]),
        no=any_of([left.no, *_after(left, right)]),
        names=_union(left, right),
        total=left.total and right.total,
        yes_needs_all=left.yes_needs_all and right.yes_needs_all,
        no_needs_all=left.no_needs_all and right.no_needs_all and set(right.names) <= set(left.names),
    )


def _after(left: Truth, right: Truth) -> list[Clause]:
    """The right one is false, and the left one let it be looked at: it was true, or not false for a lack of something."""
    alternatives = right.no.parts if isinstance(right.no, Some) else (right.no,)
    if not (left.total and left.yes_needs_all):
        return [all_of([left.yes, each]) for each in alternatives]
    implied = right.names if right.no_needs_all else ()
    needed = [is_present(name) for name in left.names if name not in implied]
    return [all_of([*needed, each]) for each in alternatives]


def differ(left: Truth, right: Truth) -> Truth:
    """XOR, which looks at both."""
    needs_all = left.yes_needs_all and left.no_needs_all and right.yes_needs_all and right.no_needs_all
    return Truth(
        yes=any_of([all_of([left.yes, right.no]), all_of([left.no, right.yes])]),
        no=any_of([all_of([left.yes, right.yes]), all_of([left.no, right.no])]),
        names=_union(left, right),
        total=left.total and right.total,
        yes_needs_all=needs_all,
        no_needs_all=needs_all,
    )


def _union(left: Truth, right: Truth) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*left.names, *right.names)))
