"""What a translator builds: tests in our language, joined by AND, OR and NOT, and the text that they make together.

    any_of([test("price < 5"), all_of([test("halted"), test("volume > 3")])])   ->   price < 5 OR halted AND volume > 3

A test is a piece of text of our language, so whatever the language gains can be said here at once. The text is parsed like any
other, hence a translated rule means exactly what its text says.
Rule: the parts are simplified only where it cannot change for which events the whole is TRUE.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contentcast.language import PredicateError, parse_predicate
from contentcast.language.printer import print_value, quote_name
from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.space import Space
from contentcast.model.values.kinds import Value
from contentcast.model.values.patterns import escaped
from contentcast.rules.errors import RuleError


@dataclass(frozen=True, slots=True)
class Test:
    """One test; its text needs no parentheses beside AND, OR and NOT."""

    text: str


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class No:
    """NOT: of an unknown part it is unknown, as in SQL."""

    part: Clause


Clause = Test | Every | Some | No

TRUE: Final = Every(())
FALSE: Final = Some(())


def all_of(parts: Iterable[Clause]) -> Clause:
    flat: dict[Clause, None] = {}
    for part in parts:
        if part == FALSE:
            return FALSE
        flat.update(dict.fromkeys(part.parts if isinstance(part, Every) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else Every(tuple(flat))


def any_of(parts: Iterable[Clause]) -> Clause:
    flat: dict[Clause, None] = {}
    for part in parts:
        if part == TRUE:
            return TRUE
        flat.update(dict.fromkeys(part.parts if isinstance(part, Some) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else Some(tuple(flat))


def negated(part: Clause) -> Clause:
    match part:
        case No(inner):
            return inner
        case Every(()):
            return FALSE
        case Some(()):
            return TRUE
    return No(part)


# --- tests. A subject is an attribute's name as text has it (`quoted`), or a function of one.

quoted = quote_name


def compare(subject: str, op: str, value: Value) -> Clause:
    return Test(f"{subject} {op} {print_value(value)}")


def is_in(subject: str, values: Iterable[Value]) -> Clause:
    given = list(dict.fromkeys(values))
    if len(given) == 1:
        return compare(subject, "=", given[0])
    return Test(f"{subject} IN ({', '.join(map(print_value, given))})") if given else FALSE


def not_in(subject: str, values: Iterable[Value]) -> Clause:
    given = list(dict.fromkeys(values))
    if len(given) == 1:
        return compare(subject, "<>", given[0])
    return Test(f"{subject} NOT IN ({', '.join(map(print_value, given))})") if given else is_present(subject)


def is_present(subject: str) -> Clause:
    return Test(f"{subject} IS NOT NULL")


def is_absent(subject: str) -> Clause:
    return Test(f"{subject} IS NULL")


def starts(subject: str, text: str) -> Clause:
    return Test(f"startswith({subject}, {print_value(text)})")


def ends(subject: str, text: str) -> Clause:
    return Test(f"endswith({subject}, {print_value(text)})")


RUN: Final = "%"
ONE: Final = "_"


@dataclass(frozen=True, slots=True)
class Plain:
    """Characters of a pattern that mean themselves."""

    text: str


Pattern = tuple[Plain | str, ...]
"""Plain text, RUN for any number of characters, ONE for one."""


def like(subject: str, pattern: Pattern) -> Clause:
    """As the plainest test that says the same."""
    match pattern:
        case ():
            return compare(subject, "=", "")
        case (Plain(text),):
            return compare(subject, "=", text)
        case (Plain(text), "%"):
            return starts(subject, text)
        case ("%", Plain(text)):
            return ends(subject, text)
        case ("%", Plain(text), "%"):
            return Test(f"contains({subject}, {print_value(text)})")
    return like_test(subject, pattern)


def like_test(subject: str, pattern: Pattern) -> Clause:
    text = "".join(escaped(each.text) if isinstance(each, Plain) else each for each in pattern)
    return Test(f"{subject} LIKE {print_value(text)}")


def matches(subject: str, regular: str) -> Clause:
    """The whole value matches a regular expression in which `.` is any character."""
    return Test(f"{subject} RLIKE {print_value(whole(regular))}")


def whole(regular: str) -> str:
    """The expression tied to both ends."""
    folded = regular.startswith("(?i)")
    return ("(?is)" if folded else "(?s)") + f"^(?:{regular[4:] if folded else regular})" + r"\z"


def joined(parts: Iterable[Plain | str]) -> Pattern:
    """Neighbouring plain texts as one, empty ones left out, several RUNs as one."""
    found: list[Plain | str] = []
    for part in parts:
        if isinstance(part, Plain):
            if not part.text:
                continue
            if found and isinstance(found[-1], Plain):
                part = Plain(found.pop().text + part.text)  # type: ignore[union-attr]
        elif part == RUN and found and found[-1] == RUN:
            continue
        found.append(part)
    return tuple(found)


# --- text and predicate

_MOST_LONGER: Final = 4
"""A translated rule may be so many times as long as a rule: what may be absent is written out, and names are written again."""


def say(clause: Clause, around: int = 0) -> str:
    """The text; `around` is how tightly what stands around it holds: 0 nothing, 1 OR, 2 AND, 3 NOT."""
    match clause:
        case Test(text):
            return text
        case Every(()):
            return "TRUE"
        case Some(()):
            return "FALSE"
        case No(part):
            return f"NOT {say(part, 3)}"
        case Every(parts):
            text, own = " AND ".join(say(part, 2) for part in parts), 2
        case Some(parts):
            text, own = " OR ".join(say(part, 1) for part in parts), 1
    return f"({text})" if around >= own else text


@dataclass(frozen=True, slots=True)
class Translation:
    """A rule as ours: `text` can be stored and sent, `predicate` is what it parses to."""

    text: str
    predicate: Predicate


def translated(space: Space, clause: Clause, most_chars: int | None) -> Translation:
    """The text may be longer than `most_chars` by what a translation adds."""
    text = checked(say(clause), most_chars)
    try:
        return Translation(text, parse_predicate(space, text, most_chars=None))
    except PredicateError as error:
        raise unsayable(error, text) from None


def checked(text: str, most_chars: int | None) -> str:
    if most_chars is not None and len(text) > _MOST_LONGER * most_chars:
        reason = (
            f"as ours the rule has {len(text):,} characters, more than {_MOST_LONGER * most_chars:,}; split it, or allow more"
        )
        raise RuleError.in_json("", f"{reason} with most_chars")
    return text


def unsayable(error: ContentcastError, text: str) -> RuleError:
    reason = error.reason if isinstance(error, PredicateError) else str(error)
    return RuleError.in_json("", f"{reason}; as ours the rule is {text[:400]}")
