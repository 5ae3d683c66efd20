"""Random spaces, predicate texts and events, from one source of randomness.

The same generator serves Hypothesis (through `st.randoms`, so that a failure shrinks and replays), the batched Spark comparison
and long fuzz runs. Values come from small pools, so that predicates and events meet often, corners included.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from contentcast.language.printer import print_value, quote_name
from contentcast.model import Attribute, Space

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
POOLS: dict[str, list[Any]] = {
    "string": [
        "",
        "a",
        "b",
        "ab",
        "aba",
        "abc",
        "B",
        "Z",
        "aa",
        "a%b",
        "a_b",
        "ä",
        "é",
        "\U0001f600",
        "a\nb",
        "it's",
        '"q"',
    ],
    "int": [-3, -1, 0, 1, 2, 3, 10, 1000],
    "float": [-1e300, -1.5, -1e-300, 0.0, 0.1, 0.5, 1.0, 2.0, 2.5, 10.0, 1e300],
    "bool": [False, True],
    "timestamp": [NOON, NOON + timedelta(microseconds=1), NOON - timedelta(days=1), NOON + timedelta(hours=2)],
    "bytes": [b"", b"\0", b"a", b"ab", b"\xff"],
}
CORNERS: dict[str, list[Any]] = {  # values that DuckDB's or Spark's own text cannot carry or that they round
    "string": ["\\", "a\\b", "\0", "\ud7ff", "\ue000", "\U0010ffff", "a\U0010ffff", "\\%"],
    "int": [2**63 - 1, -(2**63), 2**53 + 1],
    "float": [5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 0.1 + 0.2],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
}
LIST = "list of "
SIZES = [0, 1, 1, 2, 3]
NETWORKS = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32", "::ffff:10.0.0.0/104", "0.0.0.0/0"]
ADDRESSES = ["10.1.2.3", "10.2.0.1", "::ffff:10.1.2.3", "2001:db8::1", "10.1.2", "010.1.2.3", "192.168.0.1"]
NAMES = ["issue", "price", "volume", "active", "data", "x1", "detail.state", "when", "Order", "an odd name"]


class Generator:
    """`portable` keeps to what DuckDB's text can say as well (no backslash escapes, <=>, zones or letters after numbers).

    `plain` keeps to what sqlglot is asked about (no lower, ILIKE, RLIKE, in_cidr, coalesce). Without `networks` there is no
    in_cidr, which SQL does not know, and without `lists` no attribute is a list.
    """

    def __init__(
        self, random: Random, *, portable: bool = False, plain: bool = False, networks: bool = True, lists: bool = True
    ) -> None:
        self.random, self.portable, self.plain = random, portable, plain
        self.networks = networks and not portable
        self.lists = lists and not plain

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def value(self, kind: str) -> Any:
        if kind.startswith(LIST):
            return [
                None if self.chance(0.15) else self.value(kind.removeprefix(LIST)) for _ in range(self.random.choice(SIZES))
            ]
        corners = CORNERS.get(kind)
        if corners and not self.portable and self.chance(0.15):
            return self.random.choice(corners)
        if kind == "string" and self.networks and self.chance(0.1):
            return self.random.choice(ADDRESSES)
        return self.random.choice(POOLS[kind])

    def space(self, *, domains: bool = False) -> Space:
        names = self.random.sample(NAMES, self.random.randint(1, 5))
        attributes: dict[str, str | Attribute] = {}
        for name in names:
            kind = self.random.choice(list(POOLS))
            if self.lists and kind != "bytes" and self.chance(0.4):
                kind = LIST + kind
            attributes[name] = kind
            if domains and not kind.startswith(LIST) and self.chance(0.4):
                some = sorted({self.value(kind) for _ in range(4)})
                if kind != "bool" and self.chance(0.5):
                    attributes[name] = Attribute(kind, low=some[0], high=some[-1])
                else:
                    attributes[name] = Attribute(kind, values=tuple(some))
        return Space("things", attributes)

    def event(self, space: Space) -> dict[str, Any]:
        event = {}
        for name, attribute in space.items():
            if self.chance(0.75):
                value = self.value(attribute.kind)
                if attribute.kind.startswith(LIST) or value in attribute.domain:
                    event[name] = value
        return event

    # --- texts

    def literal(self, kind: str) -> str:
        if not self.portable and self.chance(0.04):
            return "NULL"
        if kind == "int" and self.chance(0.2):
            return self.random.choice(["1.5", "2.0", "-0.5", "1e3"] + ([] if self.portable else ["99999999999999999999"]))
        if kind == "float" and self.chance(0.3):
            return self.random.choice(["1", "-1", "2", ".5", "1e1"])
        value = self.value(kind)
        if kind == "timestamp" and (self.portable or self.chance(0.5)):
            return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}'"
        return self.written(value)

    def written(self, value: Any) -> str:
        if self.portable and isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        return print_value(value)

    def pattern(self) -> str:
        pieces = ["a", "b", "ab", "%", "%", "_", "c"] + ([] if self.portable else ["\\%", "\\_", "\\\\", "ä"])
        return self.written("".join(self.random.choice(pieces) for _ in range(self.random.randint(0, 5))))

    def list_test(self, name: str, kind: str) -> str:
        """Of an attribute that is a list of the kind."""
        shown, negated = quote_name(name), self.random.choice(["", "NOT "])
        literals = [self.written_literal(kind) for _ in range(self.random.randint(1, 3))]
        match self.random.choice(["contains", "contains", "overlap", "exists", "exists", "forall", "size", "null"]):
            case "contains":
                return f"{negated}array_contains({shown}, {literals[0]})"
            case "overlap":
                letter = "" if self.portable else {"int": "L", "float": "D"}.get(kind, "")  # Spark wants lists of one type
                return f"{negated}arrays_overlap({shown}, array({', '.join(each + letter for each in literals)}))"
            case "size":
                op = self.random.choice(["= {}", "<> {}", "> {}", "<= {}", "BETWEEN {} AND 3", "IN ({}, 3)"])
                return f"{negated}size({shown}) {op.format(self.random.randint(-1, 3))}"
            case "null":
                return f"{shown} IS {negated}NULL"
            case how:
                inner = Space("elements", {"t": kind})
                body = self.text(inner, self.random.choice([0, 0, 1]))
                return f"{negated}{how}({shown}, t -> {body})"

    def test(self, space: Space) -> str:
        name = self.random.choice(space.names)
        kind = space[name].kind
        if kind.startswith(LIST):
            return self.list_test(name, kind.removeprefix(LIST))
        shown = quote_name(name)
        choices = ["compare", "compare", "compare", "between", "in", "null"]
        choices += {"string": ["like", "like", "text", "text"], "bool": ["bare", "truth"]}.get(kind, [])
        if not self.plain:
            choices += ["coalesce"] if kind != "bytes" else []
            choices += ["lower", "ilike", "regex", "regex"] if kind == "string" else []
            choices += ["cidr"] if kind == "string" and self.networks else []
        negated = self.random.choice(["", "NOT "])
        match self.random.choice(choices):
            case "compare":
                op = self.random.choice(["=", "<>", "<", "<=", ">", ">=", "==", "!="] + ([] if self.portable else ["<=>"]))
                sides = [shown, self.literal(kind)]
                if self.chance(0.2):
                    sides.reverse()
                return f"{sides[0]} {op} {sides[1]}"
            case "between":
                return f"{shown} {negated}BETWEEN {self.literal(kind)} AND {self.literal(kind)}"
            case "in":
                values = ", ".join(self.literal(kind) for _ in range(self.random.randint(1, 4)))
                return f"{shown} {negated}IN ({values})"
            case "null":
                return f"{shown} IS {negated}NULL"
            case "like":
                escape = " ESCAPE '/'" if self.chance(0.2) else ""
                return (
                    f"{shown} {negated}LIKE {self.pattern()}{escape}"
                    if not escape or self.portable
                    else (f"{shown} {negated}LIKE {self.pattern().replace(chr(92), '')}{escape}")
                )
            case "text":
                how = self.random.choice(["startswith", "endswith", "contains"])
                return f"{how}({shown}, {self.written(self.value('string'))})"
            case "lower":
                test = self.random.choice([" = {}", " <> {}", " IN ({}, {})", " LIKE {p}", " NOT LIKE {p}"])
                return f"lower({shown}){test.format(self.literal(kind), self.literal(kind), p=self.pattern())}"
            case "ilike":
                return f"{shown} {negated}ILIKE {self.pattern()}"
            case "regex":
                return self.regex_test(shown, negated)
            case "cidr":
                return f"{negated}in_cidr({shown}, '{self.random.choice(NETWORKS)}')"
            case "coalesce":
                op = self.random.choice(["=", "<>", "<", ">="])
                return f"{negated}coalesce({shown}, {self.written_literal(kind)}) {op} {self.literal(kind)}"
            case "bare":
                return shown
            case _:
                return f"{shown} IS {negated}{self.random.choice(['TRUE', 'FALSE'])}"

    def written_literal(self, kind: str) -> str:
        value = self.random.choice(POOLS[kind])
        return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}'" if kind == "timestamp" else self.written(value)

    def regex(self) -> str:
        pieces = [
            "a",
            "b",
            "c",
            "ab",
            ".",
            "[ab]",
            "[^a]",
            "a*",
            "b+",
            "(a|b)",
            "(?:ab)?",
            "a{1,2}",
            "B",
            "_",
            "%",
            "[^a-c]{2}",
        ]
        pieces += [] if self.portable else [r"\w", r"\S", r"\D", "ä"]
        body = "".join(self.random.choice(pieces) for _ in range(self.random.randint(1, 4)))
        start, end = self.random.choice(["", "^"]), self.random.choice(["", "$"] + ([] if self.portable else [r"\z"]))
        return ("(?i)" if self.chance(0.2) and not self.portable else "") + start + body + end

    def regex_test(self, shown: str, negated: str) -> str:
        expression = self.written(self.regex())
        if self.portable:  # a macro of the test has this name in DuckDB
            return f"{negated}regexp_like({shown}, {expression})"
        return self.random.choice([f"{shown} {negated}RLIKE {expression}", f"{negated}regexp_like({shown}, {expression})"])

    def text(self, space: Space, depth: int = 3) -> str:
        if depth == 0 or self.chance(0.3):
            return self.test(space) if self.chance(0.97) else self.random.choice(["TRUE", "FALSE"])
        match self.random.choice(["and", "and", "or", "not"]):
            case "not":
                return f"NOT ({self.text(space, depth - 1)})"
            case joint:
                word = f" {joint.upper()} "
                parts = [self.text(space, depth - 1) for _ in range(self.random.randint(2, 3))]
                return word.join(f"({part})" if self.chance(0.8) else part for part in parts)
