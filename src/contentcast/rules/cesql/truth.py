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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contentcast.rules.clauses import FALSE, TRUE, Clause, Some, all_of, any_of, is_present, negated

MOST_TESTS: Final = 2_048
"""An expression that becomes more tests than a predicate may have is refused; a chain of forty attributes takes 820."""


class TooLarge(Exception):
    """XORs double what is said below them, and so do ANDs within ORs within ANDs."""


@dataclass(frozen=True, slots=True)
class Truth:
    """`names` are the subjects it looks at.

    `total`: with all of them present there is no error. `yes_needs_all` (`no_needs_all`): it is true (false) only with all of
    them present. `size` is about how many tests `yes` and `no` have.
    """

    yes: Clause
    no: Clause
    names: tuple[str, ...] = ()
    total: bool = True
    yes_needs_all: bool = True
    no_needs_all: bool = True
    size: int = 1


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
    return Truth(one.no, one.yes, one.names, one.total, one.no_needs_all, one.yes_needs_all, one.size)


def any_true(parts: Sequence[Truth]) -> Truth:
    """OR, from left to right until one is true."""
    return opposite(all_true([opposite(each) for each in parts]))


def all_true(parts: Sequence[Truth]) -> Truth:
    """AND, from left to right until one is false."""
    no: list[Clause] = []
    passed: dict[Clause, int] = {}  # what lets an event come as far as here, with how many tests each has
    size = 0
    for part in parts:
        implied = {is_present(name) for name in part.names} if part.no_needs_all else set()
        needed = [each for each in passed if each not in implied]
        alternatives = part.no.parts if isinstance(part.no, Some) else (part.no,)
        size += part.size + len(alternatives) * sum(passed[each] for each in needed)
        if size > MOST_TESTS:
            raise TooLarge
        no += [all_of([*needed, each]) for each in alternatives]
        # It was true; or else it was false without an error, and then the event is among `no` already.
        ready = [is_present(name) for name in part.names] if part.total and part.yes_needs_all else [part.yes]
        passed.update(dict.fromkeys(ready, 1 if ready != [part.yes] else part.size))
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    return Truth(
        yes=all_of(part.yes for part in parts),
        no=any_of(no),
        names=names,
        total=all(part.total for part in parts),
        yes_needs_all=all(part.yes_needs_all for part in parts),
        no_needs_all=all(part.no_needs_all for part in parts) and set(names) == set(parts[0].names),
        size=size,
    )


def differ(left: Truth, right: Truth) -> Truth:
    """XOR, which looks at both."""
    size = 2 * (left.size + right.size)
    if size > MOST_TESTS:
        raise TooLarge
    needs_all = left.yes_needs_all and left.no_needs_all and right.yes_needs_all and right.no_needs_all
    return Truth(
        yes=any_of([all_of([left.yes, right.no]), all_of([left.no, right.yes])]),
        no=any_of([all_of([left.yes, right.yes]), all_of([left.no, right.no])]),
        names=tuple(dict.fromkeys((*left.names, *right.names))),
        total=left.total and right.total,
        yes_needs_all=needs_all,
        no_needs_all=needs_all,
        size=size,
    )
