"""RabbitMQ bindings of a headers exchange to our language.

    {"x-match": "any", "format": "pdf", "type": null}   ->   format = 'pdf' OR type IS NOT NULL

Source: RabbitMQ's guide to exchanges, "Headers exchange", and the rules of its implementation: a header of another type does
not match, one without a value (null) asks that the header be there. `all` (the default) and `any` leave out headers that
begin with `x-`; `all-with-x` and `any-with-x` do not. Without headers, `all` matches everything and `any` nothing.
Departs from it in one point: a message whose header is null lacks the attribute here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contentcast.model.space import Space
from contentcast.rules.attributes import OtherKind, WrongAttribute, find_attribute, fitting
from contentcast.rules.clauses import Clause, all_of, any_of, compare, is_present, quoted
from contentcast.rules.errors import RuleError
from contentcast.rules.json_text import described, read_object

MATCH: Final = "x-match"
MODES: Final = ("all", "any", "all-with-x", "any-with-x")


def headers_clause(space: Space, arguments: str | Mapping[str, Any], *, prefix: str = "") -> Clause:
    """`prefix` stands before a header's name where the space keeps them together: `headers.`."""
    given = read_object(arguments, "the arguments of a binding")
    mode = given.get(MATCH, "all")
    if mode not in MODES:
        raise RuleError.in_json(MATCH, f"{mode!r} is no way to match; there are {', '.join(MODES)}")
    parts = [
        _header(space, prefix + name, value, name)
        for name, value in given.items()
        if name != MATCH and (mode.endswith("-with-x") or not name.startswith("x-"))
    ]
    return all_of(parts) if mode.startswith("all") else any_of(parts)


def _header(space: Space, name: str, value: Any, path: str) -> Clause:
    if isinstance(value, Mapping | list | tuple):
        raise RuleError.in_json(path, f"a header that is {described(value)} cannot be compared; publish its parts as headers")
    try:
        kind = find_attribute(space, name)
        return is_present(quoted(name)) if value is None else compare(quoted(name), "=", fitting(name, kind, value))
    except (WrongAttribute, OtherKind) as reason:
        raise RuleError.in_json(path, str(reason)) from None
