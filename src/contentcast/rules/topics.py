"""MQTT topic filters to our language: of an attribute that holds the topic, or of one attribute for each level.

    house/+/temperature    attribute="topic"                      topic LIKE 'house/%/temperature' AND NOT topic LIKE '%/%/%/%'
    house/+/heat           levels=("site", "floor", "sensor")     site = 'house' AND floor IS NOT NULL AND sensor = 'heat'

Source: MQTT 5.0 (OASIS 2019), sections 4.7 (filters) and 4.8.2 (shared subscriptions). `+` is one level, which may be empty;
`#` is the level above it and all below; neither stands for a first level that begins with `$`. `$share/group/filter` asks for
what the filter asks; that each event goes to one member of the group is no matter of matching.
Rule: a topic of n levels has n - 1 slashes. LIKE with n - 1 slashes and NOT LIKE with n of them leave no `%` that holds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contentcast.model.space import Space
from contentcast.rules.attributes import WrongAttribute, find_attribute
from contentcast.rules.clauses import (
    RUN,
    Clause,
    Plain,
    all_of,
    any_of,
    compare,
    is_absent,
    is_present,
    joined,
    like,
    matches,
    negated,
    quoted,
    starts,
)
from contentcast.rules.errors import RuleError
from contentcast.rules.regular import escape_regular

TOPIC: Final = "topic"
"""The attribute that holds the topic, unless told otherwise."""

MOST_BYTES: Final = 65_535
MOST_LEVELS: Final = 1_000
"""Ours, not MQTT's: a pattern is as long as the levels are many, and two of them are compared."""
_SHARE: Final = "$share/"


def topic_clause(space: Space, filter: str, *, attribute: str = TOPIC, levels: Sequence[str] | None = None) -> Clause:
    asked = _levels_of(filter)
    for name in [attribute] if levels is None else levels:
        try:
            kind = find_attribute(space, name)
        except WrongAttribute as reason:
            raise RuleError.in_text(
                filter, 0, f"{reason}; say which attribute holds the topic (attribute, or levels)"
            ) from None
        if kind.name != "string":
            raise RuleError.in_text(filter, 0, f"a topic is text, and {name} is {kind.article}; declare it as a string")
    return _of_one(quoted(attribute), asked) if levels is None else _of_levels(filter, [quoted(each) for each in levels], asked)


def _levels_of(filter: str) -> list[str]:
    """The levels of a filter that MQTT allows, without the group that shares it."""
    if not isinstance(filter, str):
        raise RuleError.in_json("", f"a topic filter is a text, not {type(filter).__name__}")
    if not filter:
        raise RuleError.in_text(filter, 0, "a topic filter has at least one character; # asks for every topic")
    if "\0" in filter:
        raise RuleError.in_text(filter, filter.index("\0"), "MQTT forbids the character U+0000")
    if len(filter.encode("utf-8", "replace")) > MOST_BYTES:
        raise RuleError.in_text(filter, 0, f"a topic filter has at most {MOST_BYTES:,} bytes")
    start = 0
    if filter.startswith(_SHARE):
        group, slash, _ = filter[len(_SHARE) :].partition("/")
        start = len(_SHARE) + len(group) + 1
        if not group or "+" in group or "#" in group:
            raise RuleError.in_text(
                filter, len(_SHARE), "a shared subscription has a group without + and #: $share/group/filter"
            )
        if not slash or start == len(filter):
            raise RuleError.in_text(filter, len(filter), "a filter is wanted after the group: $share/group/filter")
    levels = filter[start:].split("/")
    if len(levels) > MOST_LEVELS:
        raise RuleError.in_text(filter[:200], 0, f"a topic filter has at most {MOST_LEVELS:,} levels here")
    for number, level in enumerate(levels):
        if "#" in level and (level != "#" or number != len(levels) - 1):
            where = start + level.index("#")
            raise RuleError.in_text(filter, where, "# stands alone in the last level; use + for a level in between")
        if "+" in level and level != "+":
            raise RuleError.in_text(filter, start + level.index("+"), "+ stands for a whole level; MQTT has no part of a level")
        start += len(level) + 1
    return levels


def _of_one(subject: str, levels: list[str]) -> Clause:
    hidden = [negated(starts(subject, "$"))] if levels[0] in ("+", "#") else []
    if levels[-1] != "#":
        return all_of([*_exactly(subject, levels), *hidden])
    above = levels[:-1]
    if not above:
        return all_of(hidden)
    if "+" not in above:
        return any_of([compare(subject, "=", "/".join(above)), starts(subject, "/".join(above) + "/")])
    plain = above.index("+")
    if all(each == "+" for each in above[plain:]):
        # So many levels at least, after a beginning of plain ones.
        pattern = joined([*(Plain(each + "/") for each in above[:plain]), RUN, *_slashes(len(above) - plain - 1)])
        return all_of([*([] if pattern == (RUN,) else [like(subject, pattern)]), *hidden])
    # `+/b/#`: the + must hold no slash, and no number of slashes in the whole says that.
    regular = "/".join("[^/]*" if each == "+" else escape_regular(each) for each in above)
    return all_of([matches(subject, f"{regular}(/.*)?"), *hidden])


def _exactly(subject: str, levels: list[str]) -> list[Clause]:
    if "+" not in levels:
        return [compare(subject, "=", "/".join(levels))]
    parts: list[Plain | str] = []
    for number, level in enumerate(levels):
        parts += [Plain("/" if number else ""), RUN if level == "+" else Plain(level)]
    has = [] if (pattern := joined(parts)) == (RUN,) else [like(subject, pattern)]
    return [*has, negated(like(subject, joined([RUN, *_slashes(len(levels))])))]


def _slashes(count: int) -> list[Plain | str]:
    return [part for _ in range(count) for part in (Plain("/"), RUN)]


def _of_levels(filter: str, names: list[str], asked: list[str]) -> Clause:
    """A topic's levels stand in these attributes, from the left; a topic with fewer levels lacks the last ones."""
    more = asked[-1] == "#"
    given = asked[:-1] if more else asked
    if len(given) > len(names):
        raise RuleError.in_text(filter, 0, f"the filter has {len(given)} levels, and attributes are named for {len(names)}")
    parts = [is_present(name) if level == "+" else compare(name, "=", level) for name, level in zip(names, given, strict=False)]
    if not more:
        parts += [is_absent(name) for name in names[len(given) :]]
    if asked[0] in ("+", "#"):
        parts.append(
            all_of([is_present(names[0]), negated(starts(names[0], "$"))])
            if asked[0] == "#"
            else negated(starts(names[0], "$"))
        )
    return all_of(parts)
