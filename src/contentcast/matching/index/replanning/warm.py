"""The kernels that change an index, loaded before somebody waits for them.

Numba loads a kernel from its cache when it is first called, which takes some 10 ms. Matching needs its kernels at once, but the
first change of an index may come much later, in the midst of the matching: without this it would be the longest pause of all.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from contentcast.matching.index.cells.bitmaps import Bitmaps
from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.limits import DEFAULT
from contentcast.matching.index.machine.sorting import sorted_by_digit
from contentcast.matching.index.planning.bitmap_plan import sorting_keys
from contentcast.matching.index.replanning.migration import Migration
from contentcast.matching.index.values.dictionaries import Dictionary
from contentcast.matching.index.values.entries import Attributes, entries_of
from contentcast.matching.index.values.text_answers import Answers
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Conjunction, Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.model.values.kinds import kind_of
from contentcast.model.values.ranges import Ranges


@cache
def warm_change_kernels() -> None:
    """Change a tiny index in every way; once in a process."""
    space = Space("tiny", name="string", number="float")

    def table(*numbers: float) -> PredicateTable:
        return PredicateTable.of(space, [_predicate(space, number) for number in numbers])

    filing = Filing(Attributes(space), Store())
    count = DEFAULT.filed_at_once + 2  # not all are filed at the end
    entries = entries_of(table(*range(1, count)), filing.attributes)
    filing.insert(np.arange(count - 1), entries, filing.make_plan(entries))
    for coding in filing.order_codes.values():
        coding.marks(None)
        coding.heads()
    filing.insert(np.arange(count, count + 2), entries_of(table(5.5, 6.5), filing.attributes))
    filing.store.remove(np.arange(2))
    move = Migration(filing, DEFAULT)
    while not (move.advance(1 << 20) or move.failed):  # a step that takes long ends what a change does
        pass
    _load_bitmaps()
    one, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    sorted_by_digit(one, one, 0)
    answers = Answers()
    answers.add(1, (one, one), (none, none))
    answers.amend((one, one + 1), (none, none))
    answers.purge(one, np.zeros(2, np.bool_))


def _load_bitmaps() -> None:
    dictionaries = {"small": Dictionary.of(kind_of("int"), [0, 1], 0, 2, 0)}
    small, words = Bitmaps(), np.full((1, 2), 2, np.int64)
    small.lay_out(dictionaries)
    for _ in small.make_room(2):
        pass
    sorting_keys(words, words + 1, dictionaries)
    small.add(words, words + 1, np.zeros(2, np.int32), dictionaries)
    small.expect_to_remove(1)
    small.remove(np.zeros(1, np.int64))


def _predicate(space: Space, number: float) -> Predicate:
    name, kind = Constraint(Ranges.points(space.kinds["name"], [str(number)])), space.kinds["number"]
    ranges = Constraint(Ranges(kind, (-number, number)))
    return Predicate.of(space, [Conjunction.of(space, {"name": name}), Conjunction.of(space, {"number": ranges})])
