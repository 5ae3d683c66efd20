"""Amazon EventBridge event patterns to our language.

    {"source": ["aws.ec2"], "detail": {"state": [{"prefix": "run"}]}}
    ->   source = 'aws.ec2' AND startswith(`detail.state`, 'run')

Source: "Comparison operators for use in event patterns", Amazon EventBridge user guide; what it leaves open is as in AWS Event
Ruler, the matcher behind it. Meaning: every field of the pattern must match (AND), one of the alternatives of a field is enough
(OR), `anything-but` needs the field to be there. A field that is an array matches when one of its elements does.
Departs from it where our events do: null and absent are one, and numbers are compared as numbers (300 is 300.0). Two fields of
objects in one array may match in different objects here, since the fields of objects in an array are lists of their own.
Rule: a pattern that EventBridge refuses is refused here; an alternative of another kind than the attribute's is left out
beside others, and refused alone, since it could never match.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from contentcast.language.printer import print_value
from contentcast.model.space import Space
from contentcast.model.values.kinds import Kind, Value
from contentcast.rules.attributes import NUMBERS, OtherKind, WrongAttribute, find_attribute, fitting
from contentcast.rules.clauses import (
    RUN,
    Clause,
    Pattern,
    Plain,
    Test,
    all_of,
    any_of,
    compare,
    ends,
    is_absent,
    is_in,
    is_present,
    joined,
    like,
    negated,
    not_in,
    quoted,
    say,
    starts,
)
from contentcast.rules.errors import RuleError
from contentcast.rules.json_text import check_names, described, read_object

DEEPEST: Final = 60
_OR: Final = "$or"
_LOWER_BOUNDS, _UPPER_BOUNDS = (">", ">="), ("<", "<=")

ELEMENT: Final = "t"
"""What the elements of a list are called in a test of one of them."""

OnValue = Callable[[str], Clause]
"""A test of one value, given the subject: an attribute, or an element of a list."""


def eventbridge_clause(space: Space, pattern: str | Mapping[str, Any]) -> Clause:
    given = read_object(pattern, "the fields of an event pattern")
    return _Pattern(space).fields(given, (), "")


class _Pattern:
    def __init__(self, space: Space) -> None:
        self.space = space

    def fields(self, given: Mapping[str, Any], above: tuple[str, ...], path: str) -> Clause:
        if len(above) > DEEPEST:
            raise RuleError.in_json(path, f"nested more than {DEEPEST} deep")
        if not given:
            raise RuleError.in_json(path, "an empty object matches nothing in EventBridge; leave it out, or name a field")
        check_names(given, path)
        parts = []
        for name, value in given.items():
            here = f"{path}.{name}" if path else str(name)
            if name == _OR:
                parts.append(self._either(value, above, here))
            elif isinstance(value, Mapping):
                parts.append(self.fields(value, (*above, name), here))
            elif _is_array(value):
                parts.append(self._field(".".join((*above, name)), value, here))
            else:
                raise RuleError.in_json(
                    here, f"a field holds an array or an object, not {described(value)}; write [{_shown(value)}]"
                )
        return all_of(parts)

    def _either(self, given: Any, above: tuple[str, ...], path: str) -> Clause:
        if not _is_array(given) or len(given) < 2 or not all(isinstance(each, Mapping) for each in given):
            raise RuleError.in_json(path, "$or takes an array of at least two objects")
        return any_of(self.fields(each, above, f"{path}[{at}]") for at, each in enumerate(given))

    def _field(self, name: str, alternatives: Sequence[Any], path: str) -> Clause:
        if not alternatives:
            raise RuleError.in_json(path, "an empty array matches nothing in EventBridge; give at least one value")
        try:
            kind = find_attribute(self.space, name)
        except WrongAttribute as reason:
            raise RuleError.in_json(path, str(reason)) from None
        field = _Field(name, kind)
        plain: list[Value] = []
        tests: list[Clause] = []
        misfits: list[RuleError] = []
        for at, each in enumerate(alternatives):
            try:
                if each is None:
                    tests.append(field.null)
                elif isinstance(each, Mapping):
                    tests.append(_Expression(field, f"{path}[{at}]").clause(each))
                elif _is_array(each):
                    raise RuleError.in_json(f"{path}[{at}]", "an array inside an array; a value or an object is wanted")
                else:
                    plain.append(fitting(name, field.element, each))
            except OtherKind as reason:
                misfits.append(RuleError.in_json(f"{path}[{at}]", str(reason)))
        if misfits and not plain and not tests:
            raise misfits[0]
        if plain:
            tests.insert(0, field.has_one_of(plain))
        return any_of(tests)


class _Field:
    """An attribute that a pattern asks of: the kind of its values, and how a test of one value becomes a test of it."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name, self.subject = name, quoted(name)
        self.is_list, self.element = kind.element is not None, kind.element or kind

    def has(self, on_value: OnValue) -> Clause:
        """Of a list one element is enough."""
        return (
            Test(f"exists({self.subject}, {ELEMENT} -> {say(on_value(ELEMENT))})") if self.is_list else on_value(self.subject)
        )

    def has_one_of(self, values: list[Value]) -> Clause:
        if not self.is_list:
            return is_in(self.subject, values)
        if len(values) == 1:
            return Test(f"array_contains({self.subject}, {print_value(values[0])})")
        return Test(f"arrays_overlap({self.subject}, array({', '.join(map(print_value, values))}))")

    @property
    def present(self) -> Clause:
        """EventBridge sees no field in an empty array."""
        return Test(f"size({self.subject}) > 0") if self.is_list else is_present(self.subject)

    @property
    def absent(self) -> Clause:
        return any_of([is_absent(self.subject), *([Test(f"size({self.subject}) = 0")] if self.is_list else [])])

    @property
    def null(self) -> Clause:
        """Null and absent are one; a list may also hold a null."""
        return any_of([is_absent(self.subject), *([self.has(is_absent)] if self.is_list else [])])


class _Expression:
    """One `{"operator": argument}` at its place."""

    def __init__(self, field: _Field, path: str) -> None:
        self.field, self.path = field, path

    def clause(self, given: Mapping[str, Any]) -> Clause:
        operator, argument = self._only(given, self.path, _OPERATORS)
        self.path = f"{self.path}.{operator}"
        return _OPERATORS[operator](self, argument)

    def _only(self, given: Mapping[str, Any], path: str, known: Iterable[str]) -> tuple[str, Any]:
        if len(given) != 1:
            raise RuleError.in_json(
                path, "one operator in an object; to have one of several, write several objects in the array"
            )
        operator, argument = next(iter(given.items()))
        if operator not in known:
            raise RuleError.in_json(f"{path}.{operator}", f"no operator here; there are {', '.join(known)}")
        return operator, argument

    # --- operators

    def prefix(self, argument: Any) -> Clause:
        text, folded = self._maybe_folded(argument)
        return self._of_strings(lambda subject: starts(_lower(subject), text.lower()) if folded else starts(subject, text))

    def suffix(self, argument: Any) -> Clause:
        text, folded = self._maybe_folded(argument)
        return self._of_strings(lambda subject: ends(_lower(subject), text.lower()) if folded else ends(subject, text))

    def equals_ignore_case(self, argument: Any) -> Clause:
        text = self._string(argument)
        return self._of_strings(lambda subject: compare(_lower(subject), "=", text.lower()))

    def wildcard(self, argument: Any) -> Clause:
        pattern = self._wildcard(argument, self.path)
        return self._of_strings(lambda subject: like(subject, pattern))

    def exists(self, argument: Any) -> Clause:
        if not isinstance(argument, bool):
            raise RuleError.in_json(self.path, f"exists takes true or false, not {described(argument)}")
        return self.field.present if argument else self.field.absent

    def cidr(self, argument: Any) -> Clause:
        text = self._string(argument)
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise RuleError.in_json(self.path, f"{text!r} is no block of addresses; write it as 10.0.0.0/24") from None
        if "/" not in text:
            raise RuleError.in_json(self.path, f"{text!r} has no mask; write {network}")
        return self._of_strings(lambda subject: Test(f"in_cidr({subject}, '{network}')"))

    def numeric(self, argument: Any) -> Clause:
        bounds = self._bounds(argument)
        if self.field.element.name not in NUMBERS:
            raise OtherKind(f"{self.field.name} is {self.field.element.article} in this space, and numeric asks of a number")
        values = [(op, fitting(self.field.name, self.field.element, value)) for op, value in bounds]
        return self.field.has(lambda subject: all_of(compare(subject, op, value) for op, value in values))

    def _bounds(self, argument: Any) -> list[tuple[str, Any]]:
        """As EventBridge reads them: one comparison, or a lower bound and then an upper one."""
        if not _is_array(argument) or len(argument) not in (2, 4):
            raise RuleError.in_json(self.path, 'numeric takes one comparison or two: ["<", 10] or [">", 0, "<=", 5]')
        bounds = list(zip(argument[::2], argument[1::2], strict=True))
        for at, (op, value) in enumerate(bounds):
            if op not in ("=", *_LOWER_BOUNDS, *_UPPER_BOUNDS):
                raise RuleError.in_json(
                    f"{self.path}[{2 * at}]", f"{_shown(op)} is no comparison; there are =, <, <=, > and >="
                )
            if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
                raise RuleError.in_json(f"{self.path}[{2 * at + 1}]", f"a number is wanted, not {described(value)}")
        if len(bounds) == 2:
            (first, low), (second, high) = bounds
            if first not in _LOWER_BOUNDS or second not in _UPPER_BOUNDS:
                raise RuleError.in_json(self.path, 'two comparisons are a lower bound and then an upper one: [">", 0, "<=", 5]')
            if low >= high:
                raise RuleError.in_json(self.path, f"the range is empty: {low} is not below {high}")
        return bounds

    def anything_but(self, argument: Any) -> Clause:
        if isinstance(argument, Mapping):
            operator, inner = self._only(argument, self.path, _AFTER_ANYTHING_BUT)
            self.path = f"{self.path}.{operator}"
            texts = self._strings(inner)
            return self._of_strings(lambda subject: _AFTER_ANYTHING_BUT[operator](self, subject, texts))
        given = list(argument) if _is_array(argument) else [argument]
        strings = [each for each in given if isinstance(each, str)]
        numbers = [each for each in given if isinstance(each, int | float | Decimal) and not isinstance(each, bool)]
        if not given or len(strings) + len(numbers) != len(given) or (strings and numbers):
            raise RuleError.in_json(
                self.path, "anything-but takes a string, a number, or an array of only strings or only numbers"
            )
        values = [fitting(self.field.name, self.field.element, each) for each in given]
        return self.field.has(lambda subject: not_in(subject, values))

    def but_prefix(self, subject: str, texts: list[str]) -> Clause:
        return all_of(negated(starts(subject, each)) for each in self._not_empty(texts))

    def but_suffix(self, subject: str, texts: list[str]) -> Clause:
        return all_of(negated(ends(subject, each)) for each in self._not_empty(texts))

    def but_ignoring_case(self, subject: str, texts: list[str]) -> Clause:
        return not_in(_lower(subject), [each.lower() for each in texts])

    def but_wildcard(self, subject: str, texts: list[str]) -> Clause:
        return all_of(negated(like(subject, self._wildcard(each, self.path))) for each in texts)

    # --- arguments

    def _of_strings(self, on_value: OnValue) -> Clause:
        if self.field.element.name != "string":
            raise OtherKind(
                f"{self.field.name} is {self.field.element.article} in this space, and the operator asks of a string"
            )
        return self.field.has(on_value)

    def _string(self, argument: Any) -> str:
        if not isinstance(argument, str):
            raise RuleError.in_json(self.path, f"a string is wanted, not {described(argument)}")
        return argument

    def _strings(self, argument: Any) -> list[str]:
        given = list(argument) if _is_array(argument) else [argument]
        if not given:
            raise RuleError.in_json(self.path, "an empty array; give at least one string")
        return [self._string(each) for each in given]

    def _not_empty(self, texts: list[str]) -> list[str]:
        if "" in texts:
            raise RuleError.in_json(self.path, "the empty string begins and ends every value, so nothing would match")
        return texts

    def _maybe_folded(self, argument: Any) -> tuple[str, bool]:
        if not isinstance(argument, Mapping):
            return self._string(argument), False
        operator, text = self._only(argument, self.path, ("equals-ignore-case",))
        self.path = f"{self.path}.{operator}"
        return self._string(text), True

    def _wildcard(self, argument: Any, path: str) -> Pattern:
        """`*` is any run of characters; a backslash stands before a `*` or a backslash that means itself."""
        text, parts, at = self._string(argument), list[Plain | str](), 0
        while at < len(text):
            letter = text[at]
            if letter == "\\":
                if text[at + 1 : at + 2] not in ("*", "\\"):
                    raise RuleError.in_json(
                        path, f"in {text!r} a backslash stands before * or \\ only; write \\\\ to mean itself"
                    )
                at += 1
                letter = text[at]
            elif letter == "*":
                if text[at + 1 : at + 2] == "*":
                    raise RuleError.in_json(path, f"{text!r} has two * side by side; one says the same")
                parts.append(RUN)
                at += 1
                continue
            parts.append(Plain(letter))
            at += 1
        return joined(parts)


_OPERATORS: Final[dict[str, Callable[[_Expression, Any], Clause]]] = {
    "prefix": _Expression.prefix,
    "suffix": _Expression.suffix,
    "equals-ignore-case": _Expression.equals_ignore_case,
    "wildcard": _Expression.wildcard,
    "anything-but": _Expression.anything_but,
    "numeric": _Expression.numeric,
    "exists": _Expression.exists,
    "cidr": _Expression.cidr,
}
_AFTER_ANYTHING_BUT: Final[dict[str, Callable[[_Expression, str, list[str]], Clause]]] = {
    "prefix": _Expression.but_prefix,
    "suffix": _Expression.but_suffix,
    "equals-ignore-case": _Expression.but_ignoring_case,
    "wildcard": _Expression.but_wildcard,
}


def _lower(subject: str) -> str:
    return f"lower({subject})"


def _is_array(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _shown(value: Any) -> str:
    return f'"{value[:40]}"' if isinstance(value, str) else str(value).lower()[:40]
