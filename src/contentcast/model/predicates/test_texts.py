"""A test of a value from its text, for those who read what was written: index files and the wire."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.list_tests import ANY_SIZE, SIZE, SOME, Size, Some
from contentcast.model.values.folded import TAG as FOLDED
from contentcast.model.values.folded import Folded
from contentcast.model.values.kinds import SCALARS, TOP, Kind
from contentcast.model.values.networks import TAG as NETWORK
from contentcast.model.values.networks import InNetwork
from contentcast.model.values.patterns import Pattern, PatternError
from contentcast.model.values.ranges import Ranges
from contentcast.model.values.regular import TAG as REGEX
from contentcast.model.values.regular import Regex
from contentcast.model.values.value_test import ValueTest

_SORTS: Final[dict[str, type[ValueTest]]] = {FOLDED: Folded, REGEX: Regex, NETWORK: InNetwork, SOME: Some, SIZE: Size}


def known_test(text: str) -> ValueTest:
    """The test with this text, which this program wrote."""
    return _SORTS.get(text[:2], Pattern)(text)


def checked_test(kind: Kind, text: str) -> ValueTest:
    """The test of values of a kind, from a text of strangers; raises ValueError if it is none, or not the canonical text."""
    tag = text[:2]
    if (tag in (SOME, SIZE)) is (kind.element is None) or (kind.element is None and kind.name != "string"):
        raise PatternError(f"this is no test of {kind.article}")
    found = _checked(kind, tag, text)
    if found.text != text:
        raise PatternError(f"it is written {found.text!r}")
    return found


def _checked(kind: Kind, tag: str, text: str) -> ValueTest:
    if tag == FOLDED:
        return Folded.of(Pattern.of(text[2:]))
    if tag == REGEX:
        return Regex.of(text[2:])
    if tag == NETWORK:
        return InNetwork.of(text[2:])
    if tag in (SOME, SIZE):
        try:
            return _checked_some(kind, known_test(text)) if tag == SOME else _checked_size(known_test(text))
        except (TypeError, KeyError, AttributeError, RecursionError, OverflowError) as reason:
            raise PatternError(f"it is damaged: {reason}") from None
    return Pattern.of(text)


def _checked_some(kind: Kind, test: ValueTest) -> ValueTest:
    assert isinstance(test, Some)
    constraint = test.constraint
    element, ranges = constraint.ranges.kind, constraint.ranges
    if element is not kind.element:
        raise PatternError(f"it asks of elements that are {element.article}")
    _check_cuts(ranges)
    like, unlike = (tuple(checked_test(element, each.text) for each in tests) for tests in (constraint.like, constraint.unlike))
    return Some.of(Constraint(ranges, constraint.absent, like, unlike))


def _checked_size(test: ValueTest) -> ValueTest:
    assert isinstance(test, Size)
    _check_cuts(test.ranges)
    if not test.ranges <= ANY_SIZE:
        raise PatternError("a size is not negative")
    return Size.of(test.ranges)


def _check_cuts(ranges: Ranges) -> None:
    cuts = ranges.cuts
    checked = [cut if cut is TOP else SCALARS[ranges.kind.name].check(cut) for cut in cuts]
    if len(cuts) % 2 or any(not low < high for low, high in pairwise(checked)):
        raise PatternError("the cuts of a set of values come in pairs and ascend")
