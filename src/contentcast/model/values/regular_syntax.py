r"""Regular expressions: the syntax that Java (so Spark), RE2 (so DuckDB and Arrow) and this package mean alike, as a tree.

    ^er(or)?[0-9]{3}     Cat(Edge(start), Chars(e), Chars(r), Repeat(Cat(Chars(o), Chars(r)), 0, 1), Repeat(Chars(0-9), 3, 3))

Read are characters, `.`, classes, groups, `|`, `* + ? {n,m}` (lazy or not, which chooses the same strings), `^`, `$`, `\A`,
`\z`, `\d \w \s` and their complements, and the flags `(?i)` and `(?s)` at the start. A `.` is no line break and `$` may stand
before the last one, as in Java. Everything else is refused with its place and the reason: what needs more than one pass over
the string (back-references, look-around) and what the three read differently (`\b`, `\p{..}`, possessive `*+`,
`[[:alpha:]]`).
Rule: a tree that this file returns has at most MOST_PLACES places once its counts are unfolded, so its automaton is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

MOST_PLACES: Final = 1_000
"""How many characters and classes an expression has once `{n,m}` is written out."""

MOST_REPEATED: Final = 1_000
"""The greatest n of `{n}`, as in RE2."""

_DEEPEST: Final = 50
_LAST: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)
_LINE_BREAKS: Final = ((0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029))

Spans = tuple[tuple[int, int], ...]
"""Code points from the first to the last of each pair, ascending and apart."""


class RegexError(ValueError):
    """`at` is the place in the expression."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of these."""

    spans: Spans


@dataclass(frozen=True, slots=True)
class Cat:
    parts: tuple[Regular, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    parts: tuple[Regular, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` is None for any number."""

    part: Regular
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Edge:
    r"""`start` (^, \A), `end` (\z), or `last` ($: the end, or before a line break that ends the string)."""

    which: str


Regular = Chars | Cat | Alt | Repeat | Edge


def united(spans: list[tuple[int, int]]) -> Spans:
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def complement(spans: Spans) -> Spans:
    found, low = [], 0
    for first, last in spans:
        if low < first:
            found.append((low, first - 1))
        low = last + 1
    if low <= _LAST:
        found.append((low, _LAST))
    return tuple(found)


_DIGITS: Final = ((0x30, 0x39),)
_WORD: Final = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_BLANK: Final = ((0x09, 0x0D), (0x20, 0x20))
_CLASSES: Final[dict[str, Spans]] = {
    "d": _DIGITS,
    "D": complement(_DIGITS),
    "w": _WORD,
    "W": complement(_WORD),
    "s": _BLANK,
    "S": complement(_BLANK),
}
_CONTROLS: Final = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C}
_NOT_OURS: Final = {
    "b": "\\b is a word's edge for Java and RE2 in different alphabets; write (^|[^0-9A-Za-z_]) and ([^0-9A-Za-z_]|$)",
    "B": "\\B is a word's edge for Java and RE2 in different alphabets; write the classes of both sides",
    "Z": "\\Z is not known to RE2; write $ or \\z",
    "p": "\\p{..} depends on the Unicode version of each engine; write the characters as a class",
    "P": "\\P{..} depends on the Unicode version of each engine; write the characters as a class",
    "Q": "\\Q..\\E is not read; put a backslash before each special character",
    "k": "a back-reference cannot be matched in linear time; test the parts one by one",
}


def read_regex(text: str) -> Regular:
    """The tree of an expression, or `RegexError`."""
    reader = _Reader(text)
    tree = reader.either(0)
    if reader.at < len(text):
        reader.refuse(reader.at, "a ) that nothing opens; write \\) to mean itself")
    if reader.places > MOST_PLACES:
        reader.refuse(
            0, f"the expression has {reader.places:,} places once its counts are written out, more than {MOST_PLACES:,}"
        )
    return tree


class _Reader:
    """One expression and how far it was read. `places` counts what the automaton will have."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.places = text, 0, 0
        self.fold = self.dot_all = False
        if text.startswith("(?") and text[2:3] in ("i", "s"):
            end = text.find(")")
            flags = text[2:end] if end > 0 else ""
            if not flags or set(flags) - {"i", "s"}:
                self.refuse(2, "of the flags (?i) and (?s) are read, at the start of the expression")
            self.fold, self.dot_all, self.at = "i" in flags, "s" in flags, end + 1

    def refuse(self, at: int, reason: str) -> NoReturn:
        raise RegexError(at, reason)

    def sign(self) -> str:
        return self.text[self.at : self.at + 1]

    def either(self, depth: int) -> Regular:
        if depth > _DEEPEST:
            self.refuse(self.at, f"groups go {_DEEPEST} deep")
        parts = [self.sequence(depth)]
        while self.sign() == "|":
            self.at += 1
            parts.append(self.sequence(depth))
        return parts[0] if len(parts) == 1 else Alt(tuple(parts))

    def sequence(self, depth: int) -> Regular:
        parts: list[Regular] = []
        while self.sign() not in ("", "|", ")"):
            before = self.places
            part = self.one(depth)
            part = self.repeated(part, self.places - before)
            parts += part.parts if isinstance(part, Cat) else (part,)
        return parts[0] if len(parts) == 1 else Cat(tuple(parts))

    def one(self, depth: int) -> Regular:
        start, sign = self.at, self.sign()
        self.at += 1
        match sign:
            case "(":
                return self.group(start, depth)
            case "[":
                return self.chars(self.char_class(start))
            case ".":
                return self.chars(((0, _LAST),) if self.dot_all else complement(_LINE_BREAKS), folded=False)
            case "^":
                return Edge("start")
            case "$":
                return Edge("last")
            case "*" | "+" | "?":
                self.refuse(start, f"nothing stands before {sign}; write \\{sign} to mean itself")
            case "{":
                self.refuse(start, "nothing to repeat stands before {; write \\{ to mean itself")
            case "\\":
                return self.escaped(start)
        return self.chars(((ord(sign), ord(sign)),))

    def chars(self, spans: Spans, *, folded: bool = True) -> Chars:
        self.places += 1
        return Chars(_both_cases(spans) if self.fold and folded else spans)

    def group(self, start: int, depth: int) -> Regular:
        if self.sign() == "?":
            if self.text[self.at : self.at + 2] != "?:":
                self.refuse(start, _why_no_group(self.text[self.at : self.at + 3]))
            self.at += 2
        inside = self.either(depth + 1)
        if self.sign() != ")":
            self.refuse(start, "this ( is never closed; write \\( to mean itself")
        self.at += 1
        return inside

    def escaped(self, start: int) -> Regular:
        sign = self.sign()
        if sign in _CLASSES:
            self.at += 1
            return self.chars(_CLASSES[sign], folded=False)
        if sign in ("A", "z"):
            self.at += 1
            return Edge("start" if sign == "A" else "end")
        code = self.code(start)
        return self.chars(((code, code),))

    def code(self, start: int) -> int:
        """The character after a backslash."""
        sign = self.sign()
        self.at += 1
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "x":
            return self.hex_code(start)
        if sign in _NOT_OURS:
            self.refuse(start, _NOT_OURS[sign])
        if sign.isdigit():
            self.refuse(start, "a back-reference cannot be matched in linear time; test the parts one by one")
        if not sign or not sign.isascii() or sign.isalnum() or sign.isspace():
            self.refuse(
                start, f"there is no escape \\{sign}; a backslash stands before a sign, or before d w s D W S t n r f x A z"
            )
        return ord(sign)

    def hex_code(self, start: int) -> int:
        if self.sign() == "{":
            end = self.text.find("}", self.at)
            digits, after = self.text[self.at + 1 : end], end + 1
        else:
            digits, after = self.text[self.at : self.at + 2], self.at + 2
            end = 0 if len(digits) == 2 else -1
        if end < 0 or not digits or len(digits) > 6 or set(digits) - set("0123456789abcdefABCDEF"):
            self.refuse(start, "a code is written \\x41 or \\x{1F600}")
        code = int(digits, 16)
        if code > _LAST or _SURROGATES[0] <= code <= _SURROGATES[1]:
            self.refuse(start, f"{digits} is no character")
        self.at = after
        return code

    def char_class(self, start: int) -> Spans:
        negated = self.sign() == "^"
        self.at += negated
        spans: list[tuple[int, int]] = []
        first = True
        while first or self.sign() != "]":
            place = self.at
            found = self.class_part(start, first)
            first = False
            if isinstance(found, tuple):
                spans += found
                if self.sign() == "-" and self.text[self.at + 1 : self.at + 2] != "]":
                    self.refuse(self.at, "a class such as \\d begins no range; write \\- to mean itself")
                continue
            last = found
            if self.sign() == "-" and self.text[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                end = self.class_part(start, False)
                if isinstance(end, tuple) or end < found:
                    self.refuse(place, "a range goes from a character up to a later one; write \\- to mean itself")
                last = end
                if found <= _SURROGATES[1] and _SURROGATES[0] <= last < _LAST:
                    self.refuse(place, "Java and RE2 differ in a range that ends above U+D7FF; let it end at \\x{10FFFF}")
            spans.append((found, last))
        self.at += 1
        united_spans = united(spans)
        if self.fold:
            united_spans = _both_cases(united_spans)
        return complement(united_spans) if negated else united_spans

    def class_part(self, start: int, first: bool) -> int | Spans:
        place, sign = self.at, self.sign()
        self.at += 1
        if sign == "":
            self.refuse(start, "this [ is never closed; write \\[ to mean itself")
        if sign == "[" or (sign == "]" and first) or (sign == "&" and self.sign() == "&"):
            self.refuse(place, f"Java and RE2 read {sign} inside a class differently; write \\{sign} to mean itself")
        if sign == "\\":
            if self.sign() in _CLASSES:
                self.at += 1
                return _CLASSES[self.text[self.at - 1]]
            return self.code(place)
        return ord(sign)

    def repeated(self, part: Regular, places: int) -> Regular:
        start, sign = self.at, self.sign()
        if sign not in ("*", "+", "?", "{") or not sign:
            return part
        if isinstance(part, Edge):
            self.refuse(start, "an edge of the string cannot be repeated")
        least, most = self.counts(start, sign)
        following = self.sign()
        if following == "+":
            self.refuse(self.at, f"a possessive {sign}+ cannot be matched in linear time by every engine; leave the + out")
        if following == "?":
            self.at += 1
            following = self.sign()
        if following in ("*", "+", "?", "{") and following:
            self.refuse(self.at, "one repetition follows another; put the first in a group")
        self.places += places * (max(least, 1 if most is None else most) - 1)
        if self.places > MOST_PLACES:
            self.refuse(start, f"written out, the counts make more than {MOST_PLACES:,} places; count less, or split the test")
        return Repeat(part, least, most)

    def counts(self, start: int, sign: str) -> tuple[int, int | None]:
        self.at += 1
        if sign != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        end = self.text.find("}", self.at)
        low, comma, high = (self.text[self.at : end] if end > 0 else "").partition(",")
        if not low.isascii() or not low.isdigit() or (high and not (high.isascii() and high.isdigit())):
            self.refuse(start, "a count is written {3}, {3,} or {3,5}; write \\{ to mean itself")
        if len(low) > 4 or len(high) > 4 or int(low) > MOST_REPEATED or (high and int(high) > MOST_REPEATED):
            self.refuse(start, f"a count goes up to {MOST_REPEATED:,}")
        least = int(low)
        most = int(high) if high else None if comma else least
        if most is not None and most < least:
            self.refuse(start, f"{{{least},{most}}} counts downwards")
        self.at = end + 1
        return least, most


def _why_no_group(sign: str) -> str:
    if sign[1:2] in ("=", "!") or sign[1:3] in ("<=", "<!"):
        return "look-around cannot be matched in linear time; write the tests one by one and join them with AND"
    if sign[1:2] in ("P", "<"):
        return "groups need no names here; write (...)"
    if sign[1:2] == ">":
        return "an atomic group is not known to RE2; write (...)"
    return "of the flags (?i) and (?s) are read, at the start of the expression"


def _both_cases(spans: Spans) -> Spans:
    """With the other case of each ASCII letter, as Java's (?i) has it."""
    found = list(spans)
    for first, last in spans:
        for low, high, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            if first <= high and last >= low:
                found.append((max(first, low) + shift, min(last, high) + shift))
    return united(found)
