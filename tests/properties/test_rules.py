"""Rules of others: a small evaluator of each language, written from its documentation alone, agrees with the translation.

Each evaluator works on the rule as its own world has it, never on our predicate; the translation is judged by the oracle and by
the canonical form.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import contentcast as cc
from contentcast.matching.scan import truth
from contentcast.model.predicates.spelling import tree_of
from contentcast.rules import RuleError, translate

TEXTS = st.sampled_from(["", "a", "b", "ab", "ba", "abc", "a%", "a_b", "\\", "a*b", "it's", "B"])
INTS = st.integers(-3, 3)
SPACE = cc.Space(
    "things", {"s": "string", "t": "string", "n": "int", "m": "int", "f": "float", "y": "bool", "l": "list of string"}
)


def events(**kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=kinds)


NUMBERS = st.sampled_from([-1.5, 0.0, 0.5, 2.0])
EVENTS = events(s=TEXTS, t=TEXTS, n=INTS, m=INTS, f=NUMBERS, y=st.booleans(), l=st.lists(TEXTS | st.none(), max_size=3))


def agrees(source: str, rule: Any, event: dict[str, Any], expected: bool, **options: Any) -> None:
    space = options.pop("space", SPACE)
    found = translate(space, source, rule, **options)
    said = truth(tree_of(found.predicate), event) is True, found.predicate.accepts(event)
    assert said == (expected, expected), f"{rule} -> {found.text}: {event} should give {expected}"


# --- EventBridge


def wildcards() -> st.SearchStrategy[str]:
    parts = st.lists(st.sampled_from(["a", "b", "*", "\\*", "\\\\", "%", "_"]), max_size=5)
    return parts.map("".join).filter(lambda text: "**" not in text)


STRING_TESTS = st.one_of(
    TEXTS,
    st.none(),
    st.builds(lambda text: {"prefix": text}, TEXTS),
    st.builds(lambda text: {"suffix": text}, TEXTS),
    st.builds(lambda text: {"wildcard": text}, wildcards()),
    st.builds(lambda it: {"exists": it}, st.booleans()),
    st.builds(lambda it: {"anything-but": it}, TEXTS | st.lists(TEXTS, min_size=1, max_size=3)),
    st.builds(
        lambda it: {"anything-but": {"prefix": it}}, TEXTS.filter(bool) | st.lists(TEXTS.filter(bool), min_size=1, max_size=2)
    ),
    st.builds(
        lambda it: {"anything-but": {"suffix": it}}, TEXTS.filter(bool) | st.lists(TEXTS.filter(bool), min_size=1, max_size=2)
    ),
    st.builds(lambda text: {"equals-ignore-case": text}, TEXTS),
    st.builds(lambda text: {"prefix": {"equals-ignore-case": text}}, TEXTS),
    st.builds(lambda text: {"suffix": {"equals-ignore-case": text}}, TEXTS),
    st.builds(lambda it: {"anything-but": {"equals-ignore-case": it}}, TEXTS | st.lists(TEXTS, min_size=1, max_size=2)),
    st.builds(lambda it: {"anything-but": {"wildcard": it}}, wildcards() | st.lists(wildcards(), min_size=1, max_size=2)),
)
NUMBER_TESTS = st.one_of(
    INTS,
    st.none(),
    st.builds(
        lambda op, value: {"numeric": [op, value]},
        st.sampled_from(["=", "<", "<=", ">", ">="]),
        st.sampled_from([-1, 0, 0.5, 2]),
    ),
    st.builds(
        lambda low, first, second: {"numeric": [low, first, second, first + 2]},
        st.sampled_from([">", ">="]),
        INTS,
        st.sampled_from(["<", "<="]),
    ),
    st.builds(lambda it: {"exists": it}, st.booleans()),
    st.builds(lambda it: {"anything-but": it}, INTS | st.lists(INTS, min_size=1, max_size=3)),
)
FIELDS = st.dictionaries(
    st.sampled_from(["s", "t"]), st.lists(STRING_TESTS, min_size=1, max_size=3), min_size=1
) | st.dictionaries(st.sampled_from(["n", "m"]), st.lists(NUMBER_TESTS, min_size=1, max_size=3), min_size=1)
PATTERNS = st.recursive(
    FIELDS,
    lambda inner: st.builds(
        lambda fields, ors: {**fields, "$or": ors}, FIELDS | st.just({}), st.lists(inner, min_size=2, max_size=3)
    ),
    max_leaves=5,
)


def bridge(pattern: dict[str, Any], event: dict[str, Any]) -> bool:
    return all(
        any(bridge(each, event) for each in asked)
        if name == "$or"
        else any(bridge_field(each, event.get(name)) for each in asked)
        for name, asked in pattern.items()
    )


def bridge_field(asked: Any, value: Any) -> bool:
    """Of an array one element is enough; an empty one is no field. Here an absent field is a null one."""
    if not isinstance(value, list):
        return bridge_value(asked, value)
    if isinstance(asked, dict) and "exists" in asked:
        return bool(value) is asked["exists"]
    return any(bridge_value(asked, each) for each in value)


def bridge_value(asked: Any, value: Any) -> bool:
    if not isinstance(asked, dict):
        return bool(asked == value)
    [(operator, argument)] = asked.items()
    if operator == "exists":
        return (value is not None) is argument
    if value is None:
        return False
    if operator in ("prefix", "suffix") and isinstance(argument, dict):
        return bridge_value({operator: argument["equals-ignore-case"].upper()}, value.upper())
    match operator:
        case "equals-ignore-case":
            return value.upper() == argument.upper()
        case "prefix":
            return value.startswith(argument)
        case "suffix":
            return value.endswith(argument)
        case "wildcard":
            return glob(argument, value)
        case "numeric":
            return all(ordered(op, value, bound) for op, bound in zip(argument[::2], argument[1::2], strict=True))
    if isinstance(argument, dict):
        [(operator, texts)] = argument.items()
        return not any(bridge_value({operator: each}, value) for each in (texts if isinstance(texts, list) else [texts]))
    return value not in (argument if isinstance(argument, list) else [argument])


def glob(pattern: str, value: str) -> bool:
    """`*` is any run; a backslash stands before what means itself. By trying, not by an expression."""
    if not pattern:
        return not value
    if pattern[0] == "*":
        return any(glob(pattern[1:], value[at:]) for at in range(len(value) + 1))
    if pattern[0] == "\\":
        pattern = pattern[1:]
    return value[:1] == pattern[0] and glob(pattern[1:], value[1:])


@settings(max_examples=200, deadline=None)
@given(PATTERNS, EVENTS)
def test_eventbridge(pattern: dict[str, Any], event: dict[str, Any]) -> None:
    agrees("eventbridge", pattern, event, bridge(pattern, event))


# --- CloudEvents SQL: a value and whether an error came up on the way

CE_EVENTS = events(s=TEXTS, t=TEXTS, n=INTS, m=INTS, y=st.booleans())
OPS = ["=", "!=", "<", "<=", ">", ">="]
CE_TESTS = st.one_of(
    st.tuples(st.just("number"), st.sampled_from(["n", "m"]), st.sampled_from(OPS), INTS),
    st.tuples(
        st.just("text"), st.sampled_from(["s", "t"]), st.sampled_from(["=", "!="]), st.sampled_from(["", "a", "ab", "B"])
    ),
    st.tuples(
        st.just("like"), st.sampled_from(["s", "t"]), st.booleans(), st.sampled_from(["a%", "%b", "_", "a\\_b", "%", "a\\%"])
    ),
    st.tuples(
        st.just("in"),
        st.sampled_from(["s", "t"]),
        st.booleans(),
        st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=3),
    ),
    st.tuples(st.just("exists"), st.sampled_from(["s", "n", "y"])),
    st.tuples(st.just("bool"), st.just("y")),
    st.tuples(st.just("length"), st.sampled_from(["s", "t"]), st.sampled_from(OPS), st.integers(-1, 3)),
    st.tuples(st.just("abs"), st.sampled_from(["n", "m"]), st.sampled_from(OPS), INTS),
    st.tuples(
        st.sampled_from(["LEFT", "RIGHT"]),
        st.just("s"),
        st.integers(-1, 3),
        st.sampled_from(["=", "!="]),
        st.sampled_from(["", "a", "ab", "b"]),
    ),
    st.tuples(
        st.just("SUBSTRING"),
        st.just("s"),
        st.integers(-3, 3),
        st.none() | st.integers(-1, 3),
        st.sampled_from(["=", "!="]),
        st.sampled_from(["", "a", "ab", "b", "bc"]),
    ),
    st.tuples(st.just("const"), st.booleans()),
    st.just(("error",)),
)
CE = st.recursive(
    CE_TESTS,
    lambda inner: st.tuples(st.just("not"), inner) | st.tuples(st.sampled_from(["AND", "OR", "XOR"]), inner, inner),
    max_leaves=6,
)


def ce_text(node: Any) -> str:
    match node:
        case ("not", part):
            return f"NOT ({ce_text(part)})"
        case (("AND" | "OR" | "XOR") as op, left, right):
            return f"({ce_text(left)}) {op} ({ce_text(right)})"
        case ("number", name, op, value):
            return f"{name} {op} {value}"
        case ("text", name, op, value):
            return f"{name} {op} '{value}'"
        case ("like", name, without, pattern):
            return f"{name} {'NOT ' if without else ''}LIKE '{pattern}'"
        case ("in", name, without, values):
            return f"{name} {'NOT ' if without else ''}IN ({', '.join(repr(each) for each in values)})"
        case ("exists", name):
            return f"EXISTS {name}"
        case ("bool", name):
            return str(name)
        case ("length", name, op, value):
            return f"LENGTH({name}) {op} {value}"
        case ("abs", name, op, value):
            return f"ABS({name}) {op} {value}"
        case (("LEFT" | "RIGHT") as function, name, count, op, value):
            return f"{function}({name}, {count}) {op} '{value}'"
        case ("SUBSTRING", name, position, length, op, value):
            return f"SUBSTRING({name}, {position}{'' if length is None else f', {length}'}) {op} '{value}'"
        case ("const", value):
            return str(value)
    return "1 / 0 = 0"


def ce_value(node: Any, event: dict[str, Any]) -> tuple[bool, bool]:
    match node:
        case ("not", part):
            value, failed = ce_value(part, event)
            return not value, failed
        case (("AND" | "OR") as op, left, right):
            value, failed = ce_value(left, event)
            if value is (op == "OR"):
                return value, failed
            other, also = ce_value(right, event)
            return other, failed or also
        case ("XOR", left, right):
            (value, failed), (other, also) = ce_value(left, event), ce_value(right, event)
            return value != other, failed or also
        case ("exists", name):
            return name in event, False
        case ("const", value):
            return value, False
        case ("error",):
            return True, True
    if node[1] not in event:
        return False, True
    value = event[node[1]]
    match node:
        case ("number" | "text", _, op, literal):
            return ordered(op, value, literal), False
        case ("length", _, op, literal):
            return ordered(op, len(value), literal), False
        case ("abs", _, op, literal):
            return ordered(op, abs(value), literal), False
        case ("bool", _):
            return value, False
        case ("like", _, without, pattern):
            expression = pattern.replace("\\%", "\0").replace("\\_", "\1").replace("%", ".*").replace("_", ".")
            found = re.fullmatch(expression.replace("\0", "%").replace("\1", "_"), value, re.DOTALL) is not None
            return found != without, False
        case ("in", _, without, values):
            return (value in values) != without, False
        case (("LEFT" | "RIGHT") as function, _, count, op, literal):
            if count < 0:
                return False, True
            taken = value[:count] if function == "LEFT" else value[len(value) - min(count, len(value)) :]
            return ordered(op, taken, literal), False
        case ("SUBSTRING", _, position, length, op, literal):
            if length is not None and length < 0:
                return False, True
            if position == 0:
                return ordered(op, "", literal), False
            if abs(position) > len(value):
                return False, True
            start = position - 1 if position > 0 else len(value) + position
            return ordered(op, value[start:] if length is None else value[start : start + length], literal), False
    raise AssertionError(node)


def ordered(op: str, one: Any, other: Any) -> bool:
    if op in ("=", "!="):
        return (one == other) is (op == "=")
    return bool({"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[op])


@settings(max_examples=400, deadline=None)
@given(CE, CE_EVENTS)
def test_cesql(expression: Any, event: dict[str, Any]) -> None:
    value, failed = ce_value(expression, event)
    agrees("cesql", ce_text(expression), event, value and not failed)


# --- JMS: true, false and unknown (None)

JMS_TESTS = st.one_of(
    st.tuples(st.just("number"), st.sampled_from(["n", "f"]), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), INTS),
    st.tuples(st.just("text"), st.sampled_from(["s", "t"]), st.sampled_from(["=", "<>"]), TEXTS),
    st.tuples(st.just("between"), st.sampled_from(["n", "f"]), st.booleans(), INTS, INTS),
    st.tuples(st.just("in"), st.sampled_from(["s", "t"]), st.booleans(), st.lists(TEXTS, min_size=1, max_size=3)),
    st.tuples(st.just("null"), st.sampled_from(["s", "n", "y"]), st.booleans()),
    st.tuples(st.just("bool"), st.just("y")),
    st.tuples(st.just("const"), st.booleans()),
)
JMS = st.recursive(
    JMS_TESTS,
    lambda inner: st.tuples(st.just("not"), inner) | st.tuples(st.sampled_from(["AND", "OR"]), inner, inner),
    max_leaves=6,
)


def jms_text(node: Any) -> str:
    match node:
        case ("not", part):
            return f"NOT ({jms_text(part)})"
        case (("AND" | "OR") as op, left, right):
            return f"({jms_text(left)}) {op} ({jms_text(right)})"
        case ("number", name, op, value):
            return f"{name} {op} {value}"
        case ("text", name, op, value):
            return f"{name} {op} {quoted(value)}"
        case ("between", name, without, low, high):
            return f"{name} {'NOT ' if without else ''}BETWEEN {low} AND {high}"
        case ("in", name, without, values):
            return f"{name} {'NOT ' if without else ''}IN ({', '.join(map(quoted, values))})"
        case ("null", name, without):
            return f"{name} IS {'NOT ' if without else ''}NULL"
    return str(node[1])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def jms_value(node: Any, event: dict[str, Any]) -> bool | None:
    match node:
        case ("not", part):
            value = jms_value(part, event)
            return None if value is None else not value
        case (("AND" | "OR") as op, left, right):
            both = [jms_value(left, event), jms_value(right, event)]
            decides = op == "OR"
            return decides if decides in both else None if None in both else not decides
        case ("null", name, without):
            return (name not in event) != without
        case ("const", value):
            return bool(value)
    if node[1] not in event:
        return None
    value = event[node[1]]
    match node:
        case ("number" | "text", _, op, literal):
            return ordered("!=" if op == "<>" else op, value, literal)
        case ("between", _, without, low, high):
            return (low <= value <= high) != without
        case ("in", _, without, values):
            return (value in values) != without
    return bool(value)


@settings(max_examples=200, deadline=None)
@given(JMS, EVENTS)
def test_jms(selector: Any, event: dict[str, Any]) -> None:
    agrees("jms", jms_text(selector), event, jms_value(selector, event) is True)


# --- headers, matchers, topics

HEADERS = st.dictionaries(st.sampled_from(["s", "t"]), TEXTS | st.none(), max_size=2)


@settings(max_examples=200, deadline=None)
@given(HEADERS, st.sampled_from(["all", "any", None]), EVENTS)
def test_headers(headers: dict[str, Any], mode: str | None, event: dict[str, Any]) -> None:
    found = [name in event and (value is None or event[name] == value) for name, value in headers.items()]
    expected = any(found) if mode == "any" else all(found)
    agrees("headers", {**headers, **({"x-match": mode} if mode else {})}, event, expected)


EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "ab", ".", ".*", ".+", "[ab]", "[a-c]", "[^a]", "a+", "b*", "\\*", "%", "_", ""]),
    lambda inner: (
        st.builds(lambda one, other: f"({one}|{other})", inner, inner)
        | st.builds(lambda one, other: one + other, inner, inner)
        | inner.map(lambda one: f"({one})?")
    ),
    max_leaves=4,
)
MATCHERS = st.lists(
    st.tuples(st.sampled_from(["s", "t"]), st.sampled_from(["=", "!="]), TEXTS)
    | st.tuples(st.sampled_from(["s", "t"]), st.sampled_from(["=~", "!~"]), EXPRESSIONS),
    min_size=1,
    max_size=3,
)


@settings(max_examples=200, deadline=None)
@given(MATCHERS, EVENTS)
def test_matchers(matchers: list[tuple[str, str, str]], event: dict[str, Any]) -> None:
    expected = all(
        (event.get(name, "") == value if op in ("=", "!=") else re.fullmatch(f"(?s:{value})", event.get(name, "")) is not None)
        == op.startswith("=")
        for name, op, value in matchers
    )
    escaped = [value.replace("\\", "\\\\").replace('"', '\\"') for _, _, value in matchers]
    text = ", ".join(f'{name}{op}"{value}"' for (name, op, _), value in zip(matchers, escaped, strict=True))
    agrees("matchers", f"{{{text}}}", event, expected)


LEVEL = st.sampled_from(["a", "b", "", "$a", "a%", "_"])
TOPICS = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, more: "/".join([*levels, *(["#"] if more else [])]),
    st.lists(st.sampled_from(["a", "b", "", "$a", "+", "+", "a%", "_"]), min_size=1, max_size=4),
    st.booleans(),
).filter(bool) | st.just("#")
TOPIC_SPACE = cc.Space("topics", topic="string")


def topic_matches(asked: list[str], topic: list[str]) -> bool:
    if not asked or not topic:
        return (not asked or asked == ["#"]) and not topic
    if asked[0] == "#":
        return True
    return asked[0] in ("+", topic[0]) and topic_matches(asked[1:], topic[1:])


@settings(max_examples=200, deadline=None)
@given(FILTERS, TOPICS)
def test_topics(filter: str, topic: str) -> None:
    asked, given_levels = filter.split("/"), topic.split("/")
    hidden = topic.startswith("$") and asked[0] in ("+", "#")
    agrees("topic", filter, {"topic": topic}, topic_matches(asked, given_levels) and not hidden, space=TOPIC_SPACE)


# --- whatever comes in

WORDS = [
    "s",
    "n",
    "y",
    "AND",
    "OR",
    "NOT",
    "(",
    ")",
    "=",
    "<>",
    "!=",
    "<",
    "'a'",
    '"a"',
    "5",
    "-",
    "IN",
    "LIKE",
    "IS",
    "NULL",
    "EXISTS",
    "XOR",
]
WORDS += [
    "BETWEEN",
    ",",
    "LENGTH(",
    "LEFT(s,",
    "1e999",
    "0x",
    "'",
    "{",
    "}",
    "=~",
    "!~",
    "\\",
    "/",
    "+",
    "#",
    "$share",
    "\0",
    "😀",
    "\ud800",
    "[",
    "?",
]
NOISE = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join) | st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*WORDS, "prefix", "numeric"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["s", "n", "y", "$or", "prefix", "numeric", "anything-but", "exists", "cidr", "x-match", "?"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(["cesql", "jms", "matchers", "topic"]), NOISE)
def test_whatever_text_comes_in_a_rule_error_or_a_predicate_comes_out(source: str, text: str) -> None:
    with contextlib.suppress(RuleError):
        translate(TOPIC_SPACE if source == "topic" else SPACE, source, text)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["eventbridge", "headers", "matchers"]), JSON)
def test_whatever_json_comes_in_a_rule_error_or_a_predicate_comes_out(source: str, rule: Any) -> None:
    with contextlib.suppress(RuleError):
        translate(SPACE, source, rule)
