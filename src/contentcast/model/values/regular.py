r"""Regular expressions as automata that read a string once: matching, and which expression's strings lie within another's.

The tree (`regular_syntax`) becomes an automaton without unfolded alternatives (Thompson 1968: a place for each character
class), and sets of its places become the states of a deterministic one as strings bring them about. A state and a class of
characters lead to one state, so a string of n characters takes n steps whatever the expression. `^` leads on only at the
start; a place before `$` waits as one of the marks below, which pass when the string ends, or after the one line break that
ends it (Java's meaning).
Rule: at most MOST_STATES states are kept. Past them a string is still read in one pass, set by set.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.values.caches import weighed
from contentcast.model.values.patterns import Pattern, escaped
from contentcast.model.values.regular_syntax import Alt, Cat, Chars, Edge, RegexError, Regular, Repeat, Spans, read_regex
from contentcast.model.values.value_test import ValueTest

MOST_STATES: Final = 2_000
"""States that are kept of one expression; each takes some hundred bytes for every class of characters."""

LONGEST_TEXT: Final = 2_000
TAG: Final = "\\r"

# Marks: negative, so that they are no places. All of them pass where the string ends.
_END, _LAST, _LAST_IN_CRLF, _AFTER_CR = -1, -2, -3, -4
_LAST_CODE: Final = 0x10FFFF
_BREAKS: Final = "\n\r\x85\u2028\u2029"


class Regex(ValueTest):
    r"""`Regex.of("^a+b")`; its text is that of the expression with `\r` before it. A match may stand anywhere in the string."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> Regex:
        """Checked; raises `RegexError`."""
        if len(text) > LONGEST_TEXT:
            raise RegexError(0, f"an expression has at most {LONGEST_TEXT:,} characters")
        _automaton(text)
        return cls(TAG + text)

    @property
    def expression(self) -> str:
        return self.text[len(TAG) :]

    @property
    def said(self) -> str:
        return f"RLIKE '{self.expression}'"

    def as_pattern(self) -> Pattern | None:
        """The LIKE pattern that means the same, if the expression is plain text, perhaps with its edges."""
        tree = _automaton(self.expression).tree
        parts = list(tree.parts) if isinstance(tree, Cat) else [tree]
        begins = bool(parts) and parts[0] == Edge("start")
        ends = len(parts) > begins and parts[-1] == Edge("end")
        letters = [_letter(part) for part in parts[begins : len(parts) - ends]]
        if None in letters:
            return None
        text = escaped("".join(letter or "" for letter in letters))
        return Pattern.of(("" if begins else "%") + text + ("" if ends else "%"))

    @property
    def steps(self) -> int:
        """What building its automaton takes, as `effort` counts work."""
        return 60 + 8 * _automaton(self.expression).places

    def matches(self, value: str) -> bool:
        return _automaton(self.expression).matches(value)

    def matches_column(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """By RE2, all at once. Only a string that ends in a line break is read here, if the expression has a `$`."""
        facts = _facts(self.expression)
        try:
            found: npt.NDArray[np.bool_] = pc.match_substring_regex(values, facts.as_re2).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # more memory than RE2 gives itself
            return ValueTest.matches_column(self, values)
        if facts.has_last:
            found = found.copy()
            breaks = pc.match_substring_regex(values, r"[\n\r\x{85}\x{2028}\x{2029}]\z").to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(breaks).tolist():
                found[row] = self.matches(values[row].as_py())
        return found

    @property
    def anchor(self) -> str:
        return _facts(self.expression).anchor

    @property
    def prefix(self) -> str:
        return _facts(self.expression).prefix


def _letter(part: Regular) -> str | None:
    if isinstance(part, Chars) and len(part.spans) == 1 and part.spans[0][0] == part.spans[0][1]:
        return chr(part.spans[0][0])
    return None


class Automaton:
    """States are numbered as they are first reached, as those of `patterns.Reading` are; 0 is where a string begins."""

    def __init__(self, text: str) -> None:
        self.tree = read_regex(text)
        self._chars: list[tuple[Spans, int] | None] = []
        """Of each place the characters that lead on, and where to. A count shares one set of characters among its places."""
        self._leads: list[list[int]] = []
        """Of each place the places that it leads to without reading."""
        self._edge: dict[int, str] = {}
        self._accept = self._place()
        self._first = self._build(self.tree, self._accept)
        self.has_last = "last" in self._edge.values()
        self._check_edges()
        classes = {id(each[0]): each[0] for each in self._chars if each}
        ends = {end for spans in classes.values() for low, high in spans for end in (low, high + 1)}
        if self.has_last:
            ends |= {end for each in _BREAKS for end in (ord(each), ord(each) + 1)}
        self.cuts = sorted(ends - {0})
        self.matched: list[bool] = []
        self.alive: list[bool] = []
        self._sets: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self._next: dict[tuple[int, int], int] = {}
        self._ascii: list[int] = []
        self._later = self._closed([self._first], at_start=False, after_cr=False)
        self._number(self._closed([self._first], at_start=True, after_cr=False))

    # --- places

    def _place(self, chars: tuple[Spans, int] | None = None, leads: list[int] | None = None) -> int:
        self._chars.append(chars)
        self._leads.append(leads or [])
        return len(self._chars) - 1

    def _build(self, tree: Regular, after: int) -> int:
        """The place from which a match of the tree leads to `after`."""
        match tree:
            case Chars(spans):
                return self._place((spans, after))
            case Cat(parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case Alt(parts):
                return self._place(leads=[self._build(part, after) for part in parts])
            case Edge(which):
                place = self._place(leads=[after])
                self._edge[place] = which
                return place
            case Repeat(part, least, most):
                if most is None:
                    again = self._place()
                    self._leads[again] = [self._build(part, again), after]
                    after = again
                else:
                    end = after
                    for _ in range(most - least):
                        after = self._place(leads=[self._build(part, after), end])
                for _ in range(least):
                    after = self._build(part, after)
                return after

    def _check_edges(self) -> None:
        """After $ or \\z nothing is read any more, so that a mark says all."""
        for place, which in self._edge.items():
            if which != "start" and self._reached_from(place) != {self._accept}:
                raise RegexError(0, "$ and \\z stand where nothing follows; write \\$ to mean the sign")

    def _reached_from(self, place: int) -> set[int]:
        """The places that read, or accept, to which it leads; other edges are gone past."""
        todo, seen = list(self._leads[place]), set[int]()
        found = set()
        while todo:
            each = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            if self._chars[each] is not None or each == self._accept or self._edge.get(each) == "start":
                found.add(each)
            todo += self._leads[each]
        return found

    def _closed(self, places: list[int], *, at_start: bool, after_cr: bool) -> frozenset[int]:
        """With all to which they lead without reading. A match that is over takes everything else away."""
        todo, seen = list(places), set[int]()
        while todo:
            place = todo.pop()
            if place in seen:
                continue
            seen.add(place)
            if place < 0:
                continue
            match self._edge.get(place):
                case "end":
                    seen.add(_END)
                case "last":
                    seen.add(_LAST_IN_CRLF if after_cr else _LAST)
                case "start" if not at_start:
                    pass
                case _:
                    todo += self._leads[place]
        if self._accept in seen:
            return frozenset((self._accept,))
        return frozenset(each for each in seen if each < 0 or self._chars[each] is not None)

    # --- states

    def _number(self, places: frozenset[int]) -> int:
        found = self._numbers.get(places)
        if found is None:
            found = self._numbers[places] = len(self._sets)
            self._sets.append(places)
            self.matched.append(self._is_match(places))
            self.alive.append(bool(places))
        return found

    def _is_match(self, places: frozenset[int]) -> bool:
        return self._accept in places or any(each < 0 for each in places)

    def class_of(self, letter: str) -> int:
        """Characters of one class lead to the same places."""
        return bisect_right(self.cuts, ord(letter))

    def _ascii_classes(self) -> list[int]:
        """Made when the first string is read: most expressions of a text of thousands are never asked."""
        if not self._ascii:
            self._ascii = [self.class_of(chr(code)) for code in range(128)]
        return self._ascii

    def _step(self, places: frozenset[int], letter: str) -> frozenset[int]:
        if self._accept in places:
            return places
        code = ord(letter)
        reached: list[int] = []
        known: dict[int, bool] = {}  # 900 places of one class of 1,000 spans took 9 ms a letter when each looked by itself
        for each in places:
            if each < 0:
                reached += _after_mark(each, letter)
                continue
            chars = self._chars[each]
            if chars is None:
                continue
            takes = known.get(id(chars[0]))
            if takes is None:
                takes = known[id(chars[0])] = _is_in(chars[0], code)
            if takes:
                reached.append(chars[1])
        found = self._closed(reached, at_start=False, after_cr=letter == "\r")
        if self._accept in found or self._accept in self._later:
            return frozenset((self._accept,))
        again = self._later if letter != "\r" else self._closed([self._first], at_start=False, after_cr=True)
        return found | again

    def after(self, state: int, letter: str) -> int:
        key = (state, self._ascii_classes()[ord(letter)] if letter < "\x80" else self.class_of(letter))
        found = self._next.get(key)
        if found is None:
            found = self._next[key] = self._number(self._step(self._sets[state], letter))
        return found

    @property
    def places(self) -> int:
        """How large it is: what one step of many places at once costs grows with it."""
        return len(self._chars)

    @property
    def is_full(self) -> bool:
        return len(self._sets) >= MOST_STATES

    def matches(self, text: str) -> bool:
        state = 0
        for at, letter in enumerate(text):
            if self.is_full:
                return self._read_on(self._sets[state], text[at:])
            state = self.after(state, letter)
        return self.matched[state]

    def _read_on(self, places: frozenset[int], text: str) -> bool:
        for letter in text:
            places = self._step(places, letter)
        return self._is_match(places)


class Facts(NamedTuple):
    """What is asked of an expression beside matching."""

    as_re2: str
    has_last: bool
    prefix: str
    anchor: str


def _is_in(spans: Spans, code: int) -> bool:
    at = bisect_right(spans, (code, _LAST_CODE)) - 1
    return at >= 0 and code <= spans[at][1]


def _after_mark(mark: int, letter: str) -> tuple[int, ...]:
    if mark == _AFTER_CR:
        return (_END,) if letter == "\n" else ()
    if mark == _END or letter not in _BREAKS or (letter == "\n" and mark == _LAST_IN_CRLF):
        return ()
    return (_AFTER_CR,) if letter == "\r" else (_END,)


def _runs(parts: tuple[Regular, ...]) -> list[str]:
    """The plain texts that stand in every match, one for each run of parts that are one character."""
    runs = [""]
    for part in parts:
        letter = _letter(part)
        if letter is not None:
            runs[-1] += letter
        elif isinstance(part, Repeat) and part.least and (letter := _letter(part.part)) is not None:
            runs[-1] += letter * part.least
            runs.append("")
        elif not isinstance(part, Edge):
            runs.append("")
    return runs


def _re2(tree: Regular) -> str:
    """The same for RE2, in which `.` and `$` mean something else: every class written out, $ as the very end."""
    match tree:
        case Chars(spans):
            return "[" + "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in _without_surrogates(spans)) + "]"
        case Cat(parts):
            return "".join(f"(?:{_re2(part)})" if isinstance(part, Alt) else _re2(part) for part in parts)
        case Alt(parts):
            return "|".join(_re2(part) for part in parts)
        case Edge(which):
            return r"\A" if which == "start" else r"\z"
        case Repeat(part, least, most):
            return f"(?:{_re2(part)}){{{least},{'' if most is None else most}}}"


def _without_surrogates(spans: Spans) -> Spans:
    found = []
    for low, high in spans:
        if low < 0xD800:
            found.append((low, min(high, 0xD7FF)))
        if high > 0xDFFF:
            found.append((max(low, 0xE000), high))
    return tuple(found)


def _weight(text: str) -> int:
    return 20_000 + 500 * len(text)


@weighed(64_000_000, _weight)
def _automaton(text: str) -> Automaton:
    return Automaton(text)


@weighed(64_000_000, _weight)
def _facts(text: str) -> Facts:
    tree = read_regex(text)
    parts = tree.parts if isinstance(tree, Cat) else (tree,)
    prefix = _runs(parts[1:])[0] if parts and parts[0] == Edge("start") else ""
    return Facts(_re2(tree), r"\z" in _re2(tree), prefix, max(_runs(parts), key=len))


def automaton_of(test: Regex) -> Automaton:
    return _automaton(test.expression)
