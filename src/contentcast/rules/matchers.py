"""Label matchers of Prometheus and Alertmanager to our language.

    {severity="critical", team!="ops", instance=~"db-.*"}
    ->   severity = 'critical' AND (team IS NULL OR team <> 'ops') AND startswith(instance, 'db-')

Source: "Querying basics" of Prometheus (time series selectors) and "Matcher" in the configuration of Alertmanager. A label
that is not there is the same as an empty one; an expression of `=~` and `!~` holds for the whole value. All must match.
Rule: what is absent is written out (`IS NULL OR`), so the text means here and in Spark what the matcher means there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from contentcast.language import PredicateError, parse_predicate
from contentcast.model.errors import TooManyConjunctions
from contentcast.model.space import Space
from contentcast.model.values.effort import MOST_STEPS, Effort
from contentcast.model.values.regular import Regex
from contentcast.rules.attributes import WrongAttribute, find_attribute
from contentcast.rules.clauses import (
    FALSE,
    RUN,
    TRUE,
    Clause,
    Pattern,
    Plain,
    all_of,
    any_of,
    compare,
    is_absent,
    is_in,
    like,
    matches,
    negated,
    not_in,
    quoted,
    say,
    whole,
)
from contentcast.rules.errors import RuleError
from contentcast.rules.json_text import read_json
from contentcast.rules.regular import alternatives

MOST_MATCHERS: Final = 1_000
METRIC: Final = "__name__"
"""The label that holds the name of a metric, `up` in `up{job="db"}`."""

_BLANK: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[^\s{}!=~,\\\"'`]+")
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`[^`]*`', re.DOTALL)
_OP: Final = re.compile(r"=~|!~|!=|=")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_NAMED: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}

Matchers = str | Sequence[str | Mapping[str, Any]] | Mapping[str, Any]


@dataclass(frozen=True)
class _Matcher:
    name: str
    op: str
    value: str
    text: str
    at: int


def matchers_clause(space: Space, matchers: Matchers, *, prefix: str = "") -> Clause:
    """A selector, a list of matchers, or matchers as Alertmanager's API gives them.

    `prefix` stands before a label's name where the space keeps labels together: `labels.`.
    """
    given = _read_all(matchers)
    if len(given) > MOST_MATCHERS:
        raise RuleError.in_json("", f"{len(given):,} matchers; a rule has at most {MOST_MATCHERS:,}")
    effort = Effort(MOST_STEPS)
    return all_of(_clause(space, each, prefix, effort) for each in given)


def _read_all(given: Matchers) -> list[_Matcher]:
    if isinstance(given, str) and given.lstrip().startswith("["):
        given = read_json(given)
    if isinstance(given, str):
        return _Reading(given).selector()
    if isinstance(given, Mapping):
        if "matchers" in given:  # a silence
            return _read_all(given["matchers"])
        return [_from_api(given, 0)]
    if not isinstance(given, Sequence):
        raise RuleError.in_json("", f"matchers are a text or a list of texts, not {type(given).__name__}")
    found: list[_Matcher] = []
    for at, each in enumerate(given):
        if isinstance(each, Mapping):
            found.append(_from_api(each, at))
        elif isinstance(each, str):
            found += _Reading(each).selector()
        else:
            raise RuleError.in_json(f"[{at}]", f"a matcher is a text, not {type(each).__name__}")
    return found


def _from_api(given: Mapping[str, Any], at: int) -> _Matcher:
    """`{"name": ..., "value": ..., "isRegex": false, "isEqual": true}`."""
    name, value = given.get("name"), given.get("value")
    if not isinstance(name, str) or not isinstance(value, str) or set(given) - {"name", "value", "isRegex", "isEqual"}:
        raise RuleError.in_json(f"[{at}]", "a matcher as an object has name, value, isRegex and isEqual")
    op = ("=" if given.get("isEqual", True) else "!") + ("~" if given.get("isRegex", False) else "")
    op = "!=" if op == "!" else op
    return _Matcher(name, op, value, f"{name}{op}{value}", 0)


class _Reading:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def selector(self) -> list[_Matcher]:
        found: list[_Matcher] = []
        self._blank()
        metric = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(?=\s*(?:\{|$))").match(self.text, self.at)
        if metric:
            found.append(_Matcher(METRIC, "=", metric[0], self.text, self.at))
            self.at = metric.end()
            self._blank()
        if self._take("{"):
            found += self._list("}")
            if not self._take("}"):
                self._refuse("expected , or }")
        elif not metric:
            found += self._list("")
        self._blank()
        if self.at < len(self.text):
            self._refuse(
                f"unexpected {self.text[self.at : self.at + 20]!r}; a selector ends here, without [5m], offset or functions"
            )
        if not found:
            raise RuleError.in_text(self.text, 0, 'no matcher; write severity="critical"')
        return found

    def _list(self, end: str) -> list[_Matcher]:
        found: list[_Matcher] = []
        while True:
            self._blank()
            if self.text[self.at : self.at + 1] == end:
                return found
            found.append(self._matcher())
            if not self._take(","):
                return found

    def _matcher(self) -> _Matcher:
        start = self.at
        name, was_quoted = self._word("a label")
        op = _OP.match(self.text, self._blank())
        if op is None:
            if was_quoted:  # {"my.metric", job="db"}
                return _Matcher(METRIC, "=", name, self.text, start)
            self._refuse(f"expected =, !=, =~ or !~ after {name!r}")
        self.at = op.end()
        self._blank()
        if self.text[self.at : self.at + 1] in ("", ",", "}"):
            return _Matcher(name, op[0], "", self.text, start)
        at = self.at
        value, _ = self._word("a value in quotes")
        return _Matcher(name, op[0], value, self.text, at if op[0] in ("=~", "!~") else start)

    def _word(self, what: str) -> tuple[str, bool]:
        found = _STRING.match(self.text, self.at)
        if found:
            self.at = found.end()
            return self._unquoted(found), True
        found = _WORD.match(self.text, self.at)
        if found is None:
            self._refuse(f"expected {what}")
        self.at = found.end()
        return found[0], False

    def _unquoted(self, found: re.Match[str]) -> str:
        raw = found[0]
        if raw[0] == "`":
            return raw[1:-1]

        def replaced(escape: re.Match[str]) -> str:
            two, four, eight, octal, other = escape.groups()
            if two or four or eight or octal:
                code = int(two or four or eight, 16) if not octal else int(octal, 8)
                if code > sys.maxunicode:
                    at = found.start() + 1 + escape.start()
                    raise RuleError.in_text(self.text, at, f"there is no character {escape[0]}; the last is \\U0010FFFF")
                return chr(code)
            if other in _NAMED:
                return _NAMED[other]
            if other in "\\\"'":
                return str(other)
            raise RuleError.in_text(
                self.text, found.start() + 1 + escape.start(), f"there is no escape \\{other}; write \\\\{other}"
            )

        return _ESCAPE.sub(replaced, raw[1:-1])

    def _blank(self) -> int:
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at

    def _take(self, sign: str) -> bool:
        if self.text[self._blank() : self.at + 1] != sign:
            return False
        self.at += 1
        return True

    def _refuse(self, reason: str) -> NoReturn:
        raise RuleError.in_text(self.text, self.at, reason)


# --- meaning


def _clause(space: Space, matcher: _Matcher, prefix: str, effort: Effort) -> Clause:
    name = prefix + matcher.name
    try:
        kind = find_attribute(space, name)
    except WrongAttribute as reason:
        raise RuleError.in_text(matcher.text, matcher.at, str(reason)) from None
    if kind.name != "string":
        raise RuleError.in_text(
            matcher.text, matcher.at, f"a label is text, and {name} is {kind.article}; declare it as a string"
        )
    subject = quoted(name)
    match matcher.op, matcher.value:
        case "=", "":
            return any_of([is_absent(subject), compare(subject, "=", "")])
        case "=", value:
            return compare(subject, "=", value)
        case "!=", "":
            return compare(subject, "<>", "")
        case "!=", value:
            return any_of([is_absent(subject), compare(subject, "<>", value)])
    return _regular(space, name, matcher, effort)


def _regular(space: Space, name: str, matcher: _Matcher, effort: Effort) -> Clause:
    subject = quoted(name)
    patterns = alternatives(matcher.value)
    if patterns is None:
        test = matches(subject, matcher.value)
        return _with_absent(subject, matcher.op, test, _matches_empty(space, name, test, matcher, effort))
    if (RUN,) in patterns:
        return TRUE if matcher.op == "=~" else FALSE
    plain = [_text(pattern) for pattern in patterns if _is_plain(pattern)]
    wild = [like(subject, pattern) for pattern in patterns if not _is_plain(pattern)]
    if matcher.op == "!~" and not wild:
        return not_in(subject, plain) if "" in plain else any_of([is_absent(subject), not_in(subject, plain)])
    return _with_absent(subject, matcher.op, any_of([*([is_in(subject, plain)] if plain else []), *wild]), "" in plain)


def _with_absent(subject: str, op: str, test: Clause, matches_empty: bool) -> Clause:
    """A label that is not there is empty: it matches if the empty text does."""
    wanted = test if op == "=~" else negated(test)
    return any_of([is_absent(subject), wanted]) if matches_empty == (op == "=~") else wanted


def _is_plain(pattern: Pattern) -> bool:
    return not any(isinstance(part, str) for part in pattern)


def _text(pattern: Pattern) -> str:
    return "".join(part.text for part in pattern if isinstance(part, Plain))


def _matches_empty(space: Space, name: str, test: Clause, matcher: _Matcher, effort: Effort) -> bool:
    """Also finds out whether the expression is one of those that the language takes."""
    try:
        found = parse_predicate(space, say(test)).accepts({name: ""})
        effort.spend(Regex.of(whole(matcher.value)).steps)
        return found
    except TooManyConjunctions:
        reason = "too many regular expressions; split the matchers into several rules"
        raise RuleError.in_text(matcher.text, matcher.at, reason) from None
    except PredicateError as error:
        reason = f"{matcher.value!r} cannot be said: {error.reason}"
        raise RuleError.in_text(matcher.text, matcher.at, reason) from None
