"""Transforms by columns against their meaning on plain values, for every expression that can be thought of."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.language import parse_predicate
from contentcast.language.transforms import parse_transform
from contentcast.model import Attribute, EventBatch, EventError, Space
from contentcast.model.transforms.expression_columns import accepted
from tests.properties.generate import CORNERS, LIST, POOLS, Generator

SOURCE = Space(
    "things",
    {"s": "string", "t": "string", "i": "int", "j": "int", "f": "float", "g": "float", "b": "bool", "w": "timestamp"}
    | {"y": "bytes", "l": "list of string", "m": "list of string", "n": "list of int"},
)
TARGET = Space(
    "made",
    S="string",
    S2=Attribute("string", values=("a", "AB", "true", "abab", "10")),
    I="int",
    I2=Attribute("int", low=-5, high=100),
    F="float",
    F2=Attribute("float", low=0.0),
    B="bool",
    W="timestamp",
    Y="bytes",
    L="list of string",
    N="list of int",
)
BY_KIND = {
    "string": ["s", "t"],
    "int": ["i", "j"],
    "float": ["f", "g"],
    "bool": ["b"],
    "timestamp": ["w"],
    "bytes": ["y"],
    "list of string": ["l", "m"],
    "list of int": ["n"],
}
MORE: dict[str, list[Any]] = {
    "string": [
        "10",
        "-3",
        "+7",
        " 12 ",
        "1e3",
        "0.5",
        "true",
        "No",
        "1e999",
        "2026-03-01T12:00:00Z",
        "9" * 30,
        "ß",
        "ŉ",
        "straße",
    ],
    "float": [math.inf, -math.inf, -0.0, 9.3e18, -9.223372036854775808e18, 1e-5],
    "int": [-(2**63) + 1, 2**62, -1],
    "bytes": ["ä".encode()],
}
CASTS = [
    *(("int", each) for each in ("string", "float", "bool")),
    *(("float", each) for each in ("int", "bool")),
    *(("bool", each) for each in ("int", "float", "string")),
    *(("string", each) for each in ("int", "float", "bool", "timestamp", "bytes")),
    ("bytes", "string"),
]
TYPES = {"string": "STRING", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "timestamp": "TIMESTAMP", "bytes": "BINARY"}


class Expressions(Generator):
    """Texts of expressions of a kind, and events with corners."""

    def any_value(self, kind: str) -> Any:
        if kind.startswith(LIST):
            return self.value(kind)
        return self.random.choice(POOLS[kind] + CORNERS.get(kind, []) + MORE.get(kind, []))

    def any_event(self) -> dict[str, Any]:
        return {name: self.any_value(kind.name) for name, kind in SOURCE.kinds.items() if self.chance(0.85)}

    def expression(self, kind: str, depth: int = 3) -> str:
        if depth == 0 or self.chance(0.25):
            if self.chance(0.7) or kind.startswith(LIST):
                return self.random.choice(BY_KIND[kind])
            return "NULL" if self.chance(0.1) else self.whole_literal(kind)
        choices = ["coalesce", "case"] + ([] if kind.startswith(LIST) else ["cast"]) + (["size"] if kind == "int" else [])
        choices += {"string": ["join", "letters"] * 2, "int": ["arithmetic"] * 6, "float": ["arithmetic"] * 6}.get(kind, [])
        below = depth - 1
        match self.random.choice(choices):
            case "coalesce":
                return f"coalesce({self.expression(kind, below)}, {self.expression(kind, below)})"
            case "case":
                otherwise = f" ELSE {self.expression(kind, below)}" if self.chance(0.7) else ""
                return f"CASE WHEN {self.text(SOURCE, 1)} THEN {self.expression(kind, below)}{otherwise} END"
            case "cast":
                given = self.random.choice([one for one, other in [*CASTS, (kind, kind)] if other == kind])
                return f"CAST({self.expression(given, below)} AS {TYPES[kind]})"
            case "size":
                return f"size({self.expression(self.random.choice(['list of string', 'list of int']), below)})"
            case "join":
                one, other = self.expression(kind, below), self.expression(kind, below)
                return self.random.choice([f"({one} || {other})", f"concat({one}, {other}, '!')"])
            case "letters":
                return f"{self.random.choice(['upper', 'lower'])}({self.expression(kind, below)})"
        if self.chance(0.1):
            return f"-({self.number(kind, below)})"
        op = self.random.choice(["+", "-", "*", "%"] + (["/"] if kind == "float" else []))
        sides = [self.number(kind, below), self.number(self.random.choice(["int", kind]) if kind == "float" else kind, below)]
        if kind == "float" and op == "/":
            sides = [self.number("int", below), self.number("int", below)]
        return f"({sides[0]} {op} {sides[1]})"

    def number(self, kind: str, depth: int) -> str:
        """Anything of the kind but a bare NULL, which is of none."""
        text = self.expression(kind, depth)
        return text if text != "NULL" else BY_KIND[kind][0]

    def whole_literal(self, kind: str) -> str:
        while True:
            value = self.any_value(kind)
            if not (isinstance(value, float) and (math.isinf(value) or not value)):
                break
        written = self.written(value)
        return f"{written}e0" if kind == "float" and written.lstrip("-").isdigit() else written

    def transform(self) -> str:
        names = self.random.sample(TARGET.names, self.random.randint(1, 4))
        said = ", ".join(f"{self.expression(TARGET[name].kind)} AS {name}" for name in names)
        where = f" WHERE {self.text(SOURCE, 2)}" if self.chance(0.4) else ""
        return f"SELECT {said} FROM things{where}"


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


@given(st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_columns_agree_with_the_meaning(random: Random) -> None:
    generate = Expressions(random)
    text = generate.transform()
    transform = parse_transform(SOURCE, TARGET, text)
    events = [generate.any_event() for _ in range(12)]
    batch = EventBatch.from_dicts(SOURCE, events, ids=range(100, 112))
    derived = transform.by_columns(batch)
    made: list[tuple[int, dict[str, Any]]] = []
    refused: list[tuple[int, str]] = []
    for row, event in enumerate(events):
        try:
            result = transform.apply(event)
        except EventError as reason:
            refused.append((row, str(reason)))
        else:
            if result is not None:
                made.append((100 + row, result))
    one_by_one = transform.by_rows(batch)
    assert one_by_one == derived, text
    assert [str(each) for each in one_by_one.rejected] == [str(each) for each in derived.rejected], text
    found = list(zip(derived.ids.to_pylist(), derived.to_dicts(), strict=True))
    assert [each for each, _ in found] == [each for each, _ in made], text
    for (_, one), (_, other) in zip(found, made, strict=True):
        assert one.keys() == other.keys(), text
        assert all(same(one[name], other[name]) for name in one), (text, one, other)
    assert [(each.event, f"attribute {each.attribute}: {each.reason}") for each in derived.rejected] == refused, text


@given(st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_predicates_by_columns_accept_what_they_accept_one_by_one(random: Random) -> None:
    generate = Generator(random)
    space = generate.space(domains=True)
    text = generate.text(space)
    predicate = parse_predicate(space, text)
    events = [generate.event(space) for _ in range(20)]
    batch = EventBatch.from_dicts(space, events)
    assert accepted(predicate, batch.records).tolist() == [predicate.accepts(event) for event in events], text
