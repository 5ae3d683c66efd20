"""String tests that are not equality: which of an attribute's text constraints a value satisfies.

Prefixes, suffixes and contained pieces are found by looking the value's own pieces up (`text_pieces`), not by trying each
constraint: a value of 20 characters costs some dozens of look-ups however many subscriptions there are. A general pattern is
filed under its longest literal piece and then tried. Constraints that hold for nearly every value (NOT LIKE, <>, NOT IN) are
kept the other way round: the value's pieces find those that FAIL. What was found for a value is remembered.

    number  constraint               filed as
    0       startswith(venue, 'da')  prefix 'da'         holds for what is found
    1       venue LIKE '%book_on%'   contains 'book'     holds for what is found, once tried
    2       venue <> 'dark'          exactly 'dark'      fails for what is found

Rule: a constraint is filed under something that every value which satisfies it (or, of the second sort, fails it) contains.
One that no subscription has any more stays until a new plan is made, but to its number no entry leads.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.matching.index.values.hash_tables import TextTable, grown
from contentcast.matching.index.values.list_filing import find_lists, list_filing
from contentcast.matching.index.values.text_answers import Answers
from contentcast.matching.index.values.text_pieces import CONTAINS, EXACT, LONGEST, PREFIX, SUFFIX, Pieces, joined
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.values.kinds import TOP, Kind, Value
from contentcast.model.values.patterns import Pattern, escaped
from contentcast.model.values.ranges import Ranges, prefix_of
from contentcast.model.values.value_test import ValueTest
from contentcast.uninterrupted import Uninterrupted

LOOKED_AT: Final = 16
"""Values whose pieces are looked up in the time of one that a constraint is tried on."""

Ints = npt.NDArray[np.int64]
_Answered = tuple[tuple[Ints, Ints], tuple[Ints, Ints]]
"""Places of values and numbers, in this order: those that hold, of what is filed by what holds, and those that fail, of the
others.
"""
FilingKey = tuple[str, Value]
"""How a constraint is filed: 'exact', 'prefix', 'suffix', 'contains' with the piece, or 'any' with nothing."""


class TextIndex:
    """The text constraints of one attribute, each known by a number."""

    def __init__(self, kind: Kind, answers: Answers, most_tried: int) -> None:
        self.kind = kind
        self._most_tried = most_tried
        self._answers = answers
        self._age = -1
        self._values = TextTable()
        self._rows = np.array([-1, -2])
        """Of each value asked for its row among the answers, after absent and unknown."""
        self._asked: list[Value] = []
        self._unanswered: dict[int, list[tuple[int, bytes]]] = {}
        """The constraints that came after the values were asked for, with the pieces that lead to them."""
        self.constraints: list[Constraint | None] = []
        self._numbers: dict[Constraint, int] = {}
        self._free: list[int] = []
        self._given_up: list[int] = []
        self._held = bytearray()
        """Of each number 1 if a constraint has it."""
        self._sure = bytearray()
        """Of each number 1 if what leads to it says all there is to it."""
        self._negative = bytearray()
        """Of each number 1 if it is filed by what fails it."""
        self._pieces = Pieces()
        self._ranged: dict[int, Constraint] = {}
        """Ranges that no piece leads to: they are tried on many values at once."""

    def __len__(self) -> int:
        return len(self.constraints)

    @property
    def constraint_count(self) -> int:
        """How many numbers have a constraint."""
        return sum(self._held)

    def tagged(self, constraint: Constraint) -> int:
        """The constraint's number with two flags below it: 2 if it is filed by what fails it, 1 if it accepts absent."""
        number = self.number(constraint)
        return number * 4 + self._negative[number] * 2 + constraint.absent

    def number(self, constraint: Constraint) -> int:
        number = self._numbers.get(constraint)
        if number is None:
            number = self._free.pop() if self._free else len(self.constraints)
            if number == len(self.constraints):
                for flags in (self._held, self._sure, self._negative):
                    flags.extend(bytes(number + 1 - len(flags)))  # some may have grown before a Ctrl-C
                self.constraints.append(None)  # the last one: from here on the number is there
            self._unanswered[number] = self._file(number, constraint)
            self._numbers[constraint] = number
        return number

    def restore(self, constraints: list[Constraint | None]) -> None:
        """Constraints under the numbers they had."""
        self.constraints = list(constraints)
        self._held, self._sure, self._negative = (bytearray(len(constraints)) for _ in range(3))
        for number, constraint in enumerate(constraints):
            if constraint is None:
                self._free.append(number)
            else:
                self._file(number, constraint)
                self._numbers[constraint] = number

    def _file(self, number: int, constraint: Constraint) -> list[tuple[int, bytes]]:
        """Returns the pieces that lead to it. If this breaks off, nobody knows the number, and it is given up some time."""
        self.constraints[number], self._held[number] = constraint, 1
        negative, filed, sure = filing(constraint)
        self._negative[number] = negative
        self._sure[number] = sure and all(len(piece) < LONGEST for _, piece in filed)
        if not filed and not negative:
            self._ranged[number] = constraint
        for how, piece in filed:
            self._pieces.link(how, piece, number)
        return filed

    def unused(self, used: npt.NDArray[np.bool_]) -> Ints:
        """The numbers of the constraints that are not used; `used[number]`, as far as it goes."""
        held = np.array(self._held, np.bool_)
        held[: len(used)] &= ~used[: len(held)]
        return np.flatnonzero(held)

    def give_up(self, numbers: list[int]) -> None:
        """Constraints that no entry holds any more; their numbers may be used again after `settle`."""
        for number in numbers:
            constraint = self.constraints[number]
            if constraint is None:
                continue
            for how, piece in filing(constraint)[1]:
                self._pieces.unlink(how, piece, number)
            self._ranged.pop(number, None)
            self._unanswered.pop(number, None)
            if self._numbers.get(constraint) == number:
                del self._numbers[constraint]
            self.constraints[number], self._held[number] = None, 0
            self._given_up.append(number)

    def settle(self) -> None:
        """Forget what was given up in the answers too."""
        if self._given_up and self._age == self._answers.age:
            gone = np.zeros(len(self.constraints), np.bool_)
            gone[self._given_up] = True
            self._answers.purge(self._rows[2 : 2 + len(self._asked)], gone)
        self._free += self._given_up
        self._given_up = []
        self._pieces.tidy()

    def _answer(self, values: list[Value], found: tuple[Ints, Ints], ranged: dict[int, Constraint]) -> _Answered:
        """What holds for which values, and what fails, given what their pieces lead to, and these ranges."""
        at, numbers = found
        sure, fail = (np.frombuffer(each, np.bool_)[numbers] for each in (self._sure, self._negative))
        holds, fails = ([at[those] << 32 | numbers[those]] for those in (sure & ~fail, sure & fail))
        tried: list[list[int]] = [[], []]
        for place, number in zip(at[~sure].tolist(), numbers[~sure].tolist(), strict=True):
            constraint = self.constraints[number]
            assert constraint is not None
            negative = self._negative[number]
            if constraint.accepts(values[place]) != negative:
                tried[negative].append(place << 32 | number)
        given = pa.array(values, self.kind.stored) if ranged else None
        for number, constraint in ranged.items():
            holds.append(np.flatnonzero(_in_ranges(given, constraint.ranges)) << 32 | number)
        holds.append(np.array(tried[0], np.int64))
        fails.append(np.array(tried[1], np.int64))
        keys = [np.sort(np.concatenate(each)) for each in (holds, fails)]
        holding, failing = ((each >> 32, each & 0xFFFFFFFF) for each in keys)
        return holding, failing

    def rows_of(self, column: pa.Array) -> Ints:
        """For each value of an event column its row among the answers, found now if it was not asked for before; -1: absent."""
        if self._age != self._answers.age:
            self._values, self._rows, self._asked = TextTable(), np.array([-1, -2]), []
            self._age, self._unanswered = self._answers.age, {}
        rows = self._known_rows(column)
        new = np.flatnonzero(rows == -2)
        if not len(new):
            return rows
        values = column.take(pa.array(new)).unique().to_pylist()
        self._learn(values)
        return self._known_rows(column)

    def _learn(self, values: list[Value]) -> None:
        """Answers for values that were not asked for before."""
        if self.kind.element is not None:
            found = find_lists(self._pieces, self.kind.element, *joined(values), len(self.constraints))
        else:
            raw = [value.encode() if isinstance(value, str) else value for value in values]
            found = self._pieces.find(raw, len(self.constraints))
        answered = self._answer(values, found, self._ranged)
        with Uninterrupted():  # a value has a row, an answer and a place among those asked for, or none of them
            rows = grown(self._rows, 2 + len(self._asked), self._answers.add(len(values), *answered))
            self._values.add(values)
            self._rows = rows
            self._asked += values

    def catch_up(self) -> None:
        """Answer the constraints that came since for the values that were asked for before, by what pieces of theirs these
        have; or forget all answers, if this would take long.
        """
        if not self._asked or self._age != self._answers.age:
            self._unanswered = {}
        if not self._unanswered:
            return
        new, pieces = sorted(self._unanswered), Pieces()
        ranged = {number: self._ranged[number] for number in new if number in self._ranged}
        for place, number in enumerate(new):
            for how, piece in self._unanswered[number]:
                pieces.link(how, piece, place)
        text, starts = self._values.text, self._values.starts[: len(self._asked) + 1]
        if self.kind.element is not None:
            at, those = find_lists(pieces, self.kind.element, text, starts, len(new))
        else:
            at, those = pieces.find_in(text, starts, len(new))
        numbers = np.array(new, np.int64)[those]
        tried = int(np.count_nonzero(np.frombuffer(self._sure, np.bool_)[numbers] == 0))
        if tried + len(self._asked) * (1 + len(ranged)) // LOOKED_AT > self._most_tried:
            self._answers.forget()
            return
        rows = self._rows[2 : 2 + len(self._asked)]
        answered = self._answer(self._asked, (at, numbers), ranged)
        with Uninterrupted():  # an answer that came twice would be a match that comes twice
            self._answers.amend(*((rows[place], number) for place, number in answered))
            self._unanswered = {}

    def row_of(self, value: Value) -> int:
        """The row of one value, as `rows_of` has them."""
        if self._age != self._answers.age:
            return int(self.rows_of(pa.array([value], self.kind.stored))[0])
        code = np.zeros(1, np.int64)
        self._values.look_up(pa.array([value], self.kind.stored), 2, code, 0)
        if code[0] == 1:
            self._learn([value])
            return int(self._answers.count - 1)
        return int(self._rows[code[0]])

    def _known_rows(self, column: pa.Array) -> Ints:
        codes = np.zeros(len(column), np.int64)
        self._values.look_up(column, 2, codes, 0)
        found: Ints = self._rows[codes]
        return found


_HOW: Final = {"exact": EXACT, "prefix": PREFIX, "suffix": SUFFIX, "contains": CONTAINS, "any": PREFIX}


def filing(constraint: Constraint) -> tuple[bool, list[tuple[int, bytes]], bool]:
    """Whether a constraint is filed by what fails it, the pieces that lead to it, and whether they say all there is to it."""
    if constraint.ranges.kind.element is not None:
        return list_filing(constraint)
    negative = is_negative(constraint)
    where = filing_keys(constraint, negative)
    return negative, _pieces_at(constraint, where), says_all(constraint, negative, where)


def _pieces_at(constraint: Constraint, where: list[FilingKey]) -> list[tuple[int, bytes]]:
    """The pieces that lead to a constraint: of a long contained one its beginning; nothing leads to mere ranges, and a piece
    of no bytes, which every value begins with, to patterns without a piece.
    """
    found = []
    for how, piece in where:
        if how == "any" and constraint.only_ranges:
            break
        raw = piece.encode() if isinstance(piece, str) else piece
        found.append((_HOW[how], raw[:LONGEST] if how == "contains" else raw))
    return found


def _in_ranges(values: pa.Array, ranges: Ranges) -> Any:
    """Which of the values lie in the ranges."""
    found = np.zeros(len(values), np.bool_)
    for low, high in ranges.pairs():
        inside = pc.greater_equal(values, low)
        if high is not TOP:
            inside = pc.and_(inside, pc.less(values, high))
        found |= inside.to_numpy(zero_copy_only=False)
    return found


def is_negative(constraint: Constraint) -> bool:
    """Does it hold for nearly every value, so that it is filed by what fails it?"""
    if constraint.like:
        return False
    outside = constraint.ranges.complement()
    return not outside or _points(outside) is not None


def filing_keys(constraint: Constraint, negative: bool) -> list[FilingKey]:
    """Where to file a constraint: what a value that satisfies it (or fails it, for a negative one) must contain."""
    empty = constraint.ranges.kind.least
    if negative:
        excluded = _points(constraint.ranges.complement()) or ()
        return [("exact", each) for each in excluded] + [_filing_key(each) for each in constraint.unlike]
    if constraint.like:
        return [max((_filing_key(each) for each in constraint.like), key=lambda place: (place[0] != "any", len(place[1])))]
    found: list[FilingKey] = []
    for low, high in constraint.ranges.pairs():
        prefix = prefix_of(low, high)
        if constraint.ranges.kind.successor(low) == high:
            found.append(("exact", low))
        elif prefix is not None:
            found.append(("prefix", prefix))
        else:
            return [("any", empty)]
    return found


def says_all(constraint: Constraint, negative: bool, where: list[FilingKey]) -> bool:
    """Does where it is filed say all there is to it, so that what is found there need not be tried?"""
    if negative:
        return all(_says_all(each, _filing_key(each)) for each in constraint.unlike)
    if constraint.unlike:
        return False
    if not constraint.like:
        return all(how != "any" for how, _ in where)
    return len(constraint.like) == 1 and constraint.ranges.is_everything and _says_all(constraint.like[0], where[0])


def _says_all(pattern: ValueTest, place: FilingKey) -> bool:
    how, piece = place
    around = {"prefix": ("", "%"), "suffix": ("%", ""), "contains": ("%", "%")}.get(how)
    return around is not None and pattern.text == escaped(piece).join(around)


def _points(ranges: Ranges) -> tuple[Value, ...] | None:
    return ranges.values(most=max(1, len(ranges.cuts) // 2))


def _filing_key(pattern: ValueTest) -> FilingKey:
    """The longest run of plain characters, anchored where the pattern anchors it."""
    best: FilingKey = ("any", "")
    if not isinstance(pattern, Pattern):
        if pattern.prefix:
            return ("prefix", pattern.prefix)
        return ("contains", pattern.anchor) if pattern.anchor else best
    if "_" not in pattern.text and "\\" not in pattern.text:  # as most
        runs = pattern.text.split("%")
        if len(runs) == 1:
            return ("exact", runs[0]) if runs[0] else best
        piece = max(runs, key=len)
        at = runs.index(piece)
        return ("prefix" if at == 0 else "suffix" if at == len(runs) - 1 else "contains", piece) if piece else best
    tokens = pattern.tokens
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
