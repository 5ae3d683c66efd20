"""String tests that are not equality: which of an attribute's text constraints a value satisfies.

Prefixes, suffixes and contained pieces are found by looking the value's own pieces up, not by trying each constraint: a table
from piece to constraints per length, so a value of 20 characters costs some dozens of look-ups however many subscriptions there
are. A general pattern is filed under its longest literal piece and then tried. Constraints that hold for nearly every value
(NOT LIKE, <>, NOT IN) are kept the other way round: the value's pieces find those that FAIL.

    number  constraint               filed as
    0       startswith(venue, 'da')  prefix 'da'         holds for what is found
    1       venue LIKE '%book_on%'   contains 'book'     holds for what is found, once tried
    2       venue <> 'dark'          exactly 'dark'      fails for what is found

Rule: a constraint is filed under something that every value which satisfies it (or, of the second sort, fails it) contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index.value_tables import TextTable, grown
from contentcast.model.constraint import Constraint
from contentcast.model.kinds import Value
from contentcast.model.patterns import Pattern, Wildcard
from contentcast.model.ranges import Ranges, prefix_of

MOST_REMEMBERED: Final = 200_000
"""Values whose answers are kept between batches, of all attributes together."""

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Place = tuple[str, Value]
"""How a constraint is filed: 'exact', 'prefix', 'suffix', 'contains' with the piece, or 'any' with nothing."""


@dataclass(slots=True)
class Answers:
    """Which numbers hold and which fail for each value that was asked for: holds[holds_start[row] : holds_start[row + 1]].

    `age` counts how often all was forgotten: a row belongs to one age.
    """

    holds_start: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    holds: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))
    fails_start: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    fails: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))
    count: int = 0
    most: int = 0
    """Numbers that hold for one value, at most."""
    age: int = 0

    def forget(self) -> None:
        """All of it; the arrays stay as they are for whoever still reads them."""
        self.holds_start, self.holds = np.zeros(1, np.int64), np.zeros(0, np.int32)
        self.fails_start, self.fails = np.zeros(1, np.int64), np.zeros(0, np.int32)
        self.count = self.most = 0
        self.age += 1

    def add(self, holds: list[Numbers], fails: list[Numbers]) -> Ints:
        """Answers for so many values; returns their rows."""
        rows = np.arange(self.count, self.count + len(holds))
        if len(holds):
            self.holds_start, self.holds = self._joined(self.holds_start, self.holds, holds)
            self.fails_start, self.fails = self._joined(self.fails_start, self.fails, fails)
            self.most = max(self.most, *(len(each) for each in holds))
            self.count += len(holds)
        return rows

    def _joined(self, starts: Ints, numbers: Numbers, more: list[Numbers]) -> tuple[Ints, Numbers]:
        ends = starts[self.count] + np.cumsum([len(each) for each in more])
        return grown(starts, self.count + 1, ends), grown(numbers, int(starts[self.count]), np.concatenate(more))


class TextIndex:
    """The text constraints of one attribute, each known by a number."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._age = -1
        self._values = TextTable()
        self._rows = np.array([-1, -2])
        """Of each value asked for its row among the answers, after absent and unknown."""
        self.constraints: list[Constraint | None] = []
        self.uses: list[int] = []
        self._numbers: dict[Constraint, int] = {}
        self._free: list[int] = []
        self._sure: set[int] = set()
        self._filed: dict[str, dict[int, dict[Value, list[int]]]] = {}

    def __len__(self) -> int:
        return len(self.constraints)

    def tagged(self, constraint: Constraint) -> int:
        """The constraint's number with two flags below it: 2 if it is filed by what fails it, 1 if it accepts absent."""
        return self.number(constraint) * 4 + is_negative(constraint) * 2 + constraint.absent

    def number(self, constraint: Constraint) -> int:
        number = self._numbers.get(constraint)
        if number is None:
            number = self._free.pop() if self._free else len(self.constraints)
            if number == len(self.constraints):
                self.constraints.append(None)
                self.uses.append(0)
            self.constraints[number] = constraint
            self._file(number, constraint)
            self._answers.forget()
        return number

    def restore(self, constraints: list[Constraint | None], uses: list[int]) -> None:
        """Constraints under the numbers they had."""
        self.constraints, self.uses = list(constraints), list(uses)
        for number, constraint in enumerate(constraints):
            if constraint is None:
                self._free.append(number)
            else:
                self._file(number, constraint)

    def _file(self, number: int, constraint: Constraint) -> None:
        self._numbers[constraint] = number
        if is_its_place(constraint):
            self._sure.add(number)
        for how, piece in places(constraint):
            self._filed.setdefault(how, {}).setdefault(len(piece), {}).setdefault(piece, []).append(number)

    def use(self, number: int) -> None:
        """One more entry holds the number."""
        self.uses[number] += 1

    def release(self, number: int) -> None:
        """One entry less holds it; the last one frees it."""
        self.uses[number] -= 1
        constraint = self.constraints[number]
        if self.uses[number] or constraint is None:
            return
        for how, piece in places(constraint):
            by_length = self._filed[how]
            by_length[len(piece)][piece].remove(number)
            if not by_length[len(piece)][piece]:
                del by_length[len(piece)][piece]
                if not by_length[len(piece)]:
                    del by_length[len(piece)]
        del self._numbers[constraint]
        self._sure.discard(number)
        self.constraints[number] = None
        self._free.append(number)
        self._answers.forget()

    def answer(self, value: Value) -> tuple[Numbers, Numbers]:
        """The numbers that hold for the value, of those filed by what holds, and that fail, of those filed by what fails."""
        holds: list[int] = []
        fails: list[int] = []
        for number in set(self._candidates(value)):
            constraint = self.constraints[number]
            if number in self._sure:
                holds.append(number)
                continue
            assert constraint is not None
            accepted = constraint.accepts(value)
            if is_negative(constraint):
                if not accepted:
                    fails.append(number)
            elif accepted:
                holds.append(number)
        return np.array(sorted(holds), np.int32), np.array(sorted(fails), np.int32)

    def _candidates(self, value: Value) -> Iterator[int]:
        for how, by_length in self._filed.items():
            for length, pieces in by_length.items():
                if length > len(value):
                    continue
                for piece in _pieces(how, value, length):
                    yield from pieces.get(piece, ())

    def rows_of(self, column: pa.Array) -> Ints:
        """For each value of an event column its row among the answers, found now if it was not asked for before; -1: absent."""
        if self._age != self._answers.age:
            self._values, self._rows = TextTable(), np.array([-1, -2])
            self._age = self._answers.age
        rows = self._known_rows(column)
        new = np.flatnonzero(rows == -2)
        if not len(new):
            return rows
        values = column.take(pa.array(new)).unique().to_pylist()
        answers = [self.answer(value) for value in values]
        added = self._answers.add([each[0] for each in answers], [each[1] for each in answers])
        self._values.add(values)
        self._rows = np.concatenate([self._rows, added])
        return self._known_rows(column)

    def _known_rows(self, column: pa.Array) -> Ints:
        codes = np.zeros(len(column), np.int64)
        self._values.look_up(column, 2, codes, 0)
        found: Ints = self._rows[codes]
        return found


def _pieces(how: str, value: Value, length: int) -> Iterable[Value]:
    match how:
        case "exact":
            return (value,) if len(value) == length else ()
        case "prefix":
            return (value[:length],)
        case "suffix":
            return (value[len(value) - length :],)
        case "contains":
            return {value[at : at + length] for at in range(len(value) - length + 1)}
    return (value[:0],)


def is_negative(constraint: Constraint) -> bool:
    """Does it hold for nearly every value, so that it is filed by what fails it?"""
    if constraint.like:
        return False
    outside = constraint.ranges.complement()
    return not outside or _points(outside) is not None


def places(constraint: Constraint) -> list[Place]:
    """Where to file a constraint: what a value that satisfies it (or fails it, for a negative one) must contain."""
    empty = constraint.ranges.kind.least
    if is_negative(constraint):
        excluded = _points(constraint.ranges.complement()) or ()
        return [("exact", each) for each in excluded] + [_place(each) for each in constraint.unlike]
    if constraint.like:
        return [max((_place(each) for each in constraint.like), key=lambda place: (place[0] != "any", len(place[1])))]
    found: list[Place] = []
    for low, high in constraint.ranges.pairs():
        prefix = prefix_of(low, high)
        if constraint.ranges.kind.successor(low) == high:
            found.append(("exact", low))
        elif prefix is not None:
            found.append(("prefix", prefix))
        else:
            return [("any", empty)]
    return found


def is_its_place(constraint: Constraint) -> bool:
    """Does where it is filed say all there is to it, so that what is found there need not be tried?"""
    if constraint.unlike or is_negative(constraint):
        return False
    if not constraint.like:
        return all(how != "any" for how, _ in places(constraint))
    (how, piece), tokens = places(constraint)[0], constraint.like[0].tokens
    wildcards = {"suffix": 1, "contains": 2}.get(how)
    return (
        len(constraint.like) == 1
        and constraint.ranges.is_everything
        and wildcards is not None
        and len(tokens) == len(piece) + wildcards
        and all(token in (*piece, Wildcard.RUN) for token in tokens)
    )


def _points(ranges: Ranges) -> tuple[Value, ...] | None:
    return ranges.values(most=max(1, len(ranges.cuts) // 2))


def _place(pattern: Pattern) -> Place:
    """The longest run of plain characters, anchored where the pattern anchors it."""
    tokens = pattern.tokens
    best: Place = ("any", "")
    start = 0
    while start < len(tokens):
        end = start
        while end < len(tokens) and isinstance(tokens[end], str):
            end += 1
        if end > start:
            piece = "".join(str(token) for token in tokens[start:end])
            how = "prefix" if start == 0 else "suffix" if end == len(tokens) else "contains"
            if start == 0 and end == len(tokens):
                how = "exact"
            if len(piece) > len(best[1]):
                best = (how, piece)
        start = end + 1
    return best
