"""Predicate to text: what comes out parses back to an equal predicate, in contentcast and in Spark SQL alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Final

from contentcast.model.predicates import tree as nodes
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.spelling import spell
from contentcast.model.values.kinds import Value

# Words that would not be read as a name; a name that is not plain, or is one of these, goes in back-ticks.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS: Final = frozenset(
    [
        "all",
        "alter",
        "and",
        "anti",
        "any",
        "array",
        "as",
        "between",
        "both",
        "by",
        "case",
        "cast",
        "check",
        "collate",
        "column",
        "connect_by_root",
        "contains",
        "create",
        "cross",
        "cube",
        "current_date",
        "current_time",
        "current_timestamp",
        "current_user",
        "date",
        "datetime",
        "decimal",
        "default",
        "delete",
        "desc",
        "describe",
        "distinct",
        "div",
        "drop",
        "else",
        "end",
        "endswith",
        "escape",
        "except",
        "exists",
        "explain",
        "extract",
        "false",
        "fetch",
        "filter",
        "first",
        "float",
        "for",
        "foreign",
        "from",
        "full",
        "glob",
        "grant",
        "group",
        "grouping",
        "having",
        "if",
        "ilike",
        "in",
        "index",
        "inner",
        "insert",
        "int",
        "intersect",
        "interval",
        "into",
        "is",
        "join",
        "json",
        "key",
        "last",
        "lateral",
        "leading",
        "left",
        "like",
        "limit",
        "list",
        "map",
        "match",
        "merge",
        "minus",
        "mod",
        "natural",
        "no",
        "not",
        "notnull",
        "null",
        "nullable",
        "object",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "outer",
        "over",
        "partition",
        "partitioned_by",
        "percent",
        "position",
        "primary",
        "qualify",
        "range",
        "references",
        "regexp",
        "replace",
        "returning",
        "revoke",
        "right",
        "rlike",
        "rollback",
        "rollup",
        "row",
        "rows",
        "select",
        "semi",
        "serdeproperties",
        "session_user",
        "set",
        "similar",
        "some",
        "startswith",
        "struct",
        "substring",
        "table",
        "tablesample",
        "then",
        "time",
        "timestamp",
        "to",
        "trailing",
        "true",
        "try_cast",
        "uncache",
        "union",
        "unique",
        "unknown",
        "update",
        "user",
        "using",
        "values",
        "view",
        "when",
        "where",
        "while",
        "window",
        "with",
        "xor",
    ]
)


def print_predicate(predicate: Predicate) -> str:
    """The predicate's canonical text."""
    return print_tree(spell(predicate))


def print_tree(tree: nodes.Tree) -> str:
    """Trees go as deep as their texts have parentheses, so what is still to be printed stands on a stack of its own.

    A tree stands there with how tightly what is around it holds: 0 nothing, 1 OR, 2 AND, 3 NOT.
    """
    printed: list[str] = []
    todo: list[str | tuple[nodes.Tree, int]] = [(tree, 0)]
    while todo:
        match todo.pop():
            case str(text):
                printed.append(text)
            case (nodes.Or(parts) | nodes.And(parts) as whole, int(binding)):
                own, word = (1, " OR ") if isinstance(whole, nodes.Or) else (2, " AND ")
                inside: list[str | tuple[nodes.Tree, int]] = [each for part in parts for each in (word, (part, own))][1:]
                todo += reversed(["(", *inside, ")"] if binding >= own and len(parts) > 1 else inside)
            case (nodes.Not(nodes.IsNull() | nodes.In() | nodes.Like() | nodes.Between()) as test, _):
                printed.append(_print_test(test))
            case (nodes.Not(part), _):
                printed.append("NOT ")
                todo.append((part, 3))
            case (test, _):
                printed.append(_print_test(test))
    return "".join(printed)


def _print_test(tree: nodes.Tree) -> str:
    match tree:
        case nodes.Not(nodes.IsNull(name)):
            return f"{quote_name(name)} IS NOT NULL"
        case nodes.Not(nodes.In() | nodes.Like() | nodes.Between() as test):
            head, word, rest = _in_three(test)
            return f"{head} NOT {word} {rest}"
        case nodes.In() | nodes.Like() | nodes.Between():
            return " ".join(_in_three(tree))
        case nodes.Constant(truth):
            return "NULL" if truth is None else str(truth).upper()
        case nodes.Compare(name, "=", True):
            return quote_name(name)
        case nodes.Compare(name, op, value):
            return f"{quote_name(name)} {op} {print_value(value)}"
        case nodes.IsNull(name):
            return f"{quote_name(name)} IS NULL"
        case nodes.IsTruth(name, truth):
            return f"{quote_name(name)} IS {str(truth).upper()}"
        case nodes.TextTest(name, how, text):
            return f"{how}({quote_name(name)}, {print_value(text)})"
        case nodes.Rlike(name, expression):
            return f"{quote_name(name)} RLIKE {print_value(expression)}"
        case nodes.InCidr(name, network):
            return f"in_cidr({quote_name(name)}, {print_value(network)})"
        case nodes.Lowered(test):
            return _print_shown(test, f"lower({quote_name(test.attribute)})")
        case nodes.Sized(test):
            return _print_shown(test, f"size({quote_name(test.attribute)})")
        case nodes.Exists(name, element, nodes.Compare(named, "=", value)) if named == element and value is not None:
            return f"array_contains({quote_name(name)}, {print_value(value)})"
        case nodes.Exists(name, element, nodes.In(named, values)) if named == element:
            return f"arrays_overlap({quote_name(name)}, array({', '.join(map(_print_typed, values))}))"
        case nodes.Exists(name, element, predicate):
            return f"exists({quote_name(name)}, {quote_name(element)} -> {print_tree(predicate)})"
        case nodes.ForAll(name, element, predicate):
            return f"forall({quote_name(name)}, {quote_name(element)} -> {print_tree(predicate)})"
    raise TypeError(f"not a tree: {tree!r}")


def _print_typed(value: Value | None) -> str:
    """With the letter that makes Spark take it for a bigint or a double: both lists of arrays_overlap must be of one type."""
    suffix = "L" if type(value) is int else "D" if type(value) is float else ""
    return print_value(value) + suffix


def _print_shown(test: nodes.Compare | nodes.Between | nodes.In | nodes.Like | nodes.TextTest, shown: str) -> str:
    """With a function of the attribute in its place."""
    match test:
        case nodes.TextTest(_, how, text):
            return f"{how}({shown}, {print_value(text)})"
        case nodes.Compare(_, op, value):
            return f"{shown} {op} {print_value(value)}"
        case nodes.Like() | nodes.Between() | nodes.In():
            return f"{shown} {' '.join(_in_three(test)[1:])}"


def _in_three(test: nodes.In | nodes.Like | nodes.Between) -> tuple[str, str, str]:
    name = quote_name(test.attribute)
    match test:
        case nodes.In(_, values):
            return name, "IN", f"({', '.join(print_value(value) for value in values)})"
        case nodes.Between(_, low, high):
            return name, "BETWEEN", f"{print_value(low)} AND {print_value(high)}"
        case nodes.Like(_, pattern, escape):
            suffix = "" if escape == "\\" else f" ESCAPE {print_value(escape)}"
            return name, "LIKE", print_value(pattern) + suffix


def quote_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) and name.lower() not in _WORDS else f"`{name}`"


def print_value(value: Value | None) -> str:
    if value is None:
        return "NULL"
    return _PRINTED[type(value)](value)


def _print_string(text: str) -> str:
    return "'" + "".join(_ESCAPED.get(each, each) for each in text) + "'"


# LIKE reads a second layer of backslashes, so each one in the value is written as two.
_ESCAPED: Final = {"'": "''", "\\": "\\\\", "\0": "\\u0000", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1a": "\\Z"}

_PRINTED: Final[dict[type, Callable[[Value], str]]] = {
    str: _print_string,
    int: str,
    float: repr,
    Decimal: str,
    bool: lambda value: str(value).upper(),
    datetime: lambda value: f"TIMESTAMP '{value.strftime('%Y').rjust(4, '0')}{value.strftime('-%m-%d %H:%M:%S.%f')}Z'",
    bytes: lambda value: f"X'{value.hex().upper()}'",
}
