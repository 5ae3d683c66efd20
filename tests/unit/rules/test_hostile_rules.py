"""Rules from strangers: each is translated or refused, and none takes long."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from contentcast.model import Space
from contentcast.rules import RuleError, from_cesql, from_eventbridge, from_jms, from_matchers, from_topic, translate
from contentcast.rules.sources import translate_many

THINGS = Space("things", s="string", i="int", b="bool", topic="string")

TOO_LARGE: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "CESQL, a sum": (from_cesql, "1" + " + 1" * 15_000 + " = i", "too many operators in a row"),
    "CESQL, minus signs": (from_cesql, "i = " + "-" * 60_000 + "1", "at most 40 minus signs stand in a row"),
    "CESQL, a chain of comparisons": (from_cesql, " = ".join(["b"] * 5_000), "too many operators in a row"),
    "matchers": (from_matchers, "{" + ",".join(f's!="a{k}"' for k in range(4_000)) + "}", "a rule has at most 1,000"),
    "matchers with expressions": (
        from_matchers,
        "{" + ",".join(f's=~"[ab]{{0,200}}{k}"' for k in range(900)) + "}",
        "too many regular expressions",
    ),
    "a topic": (from_topic, "+/" * 30_000, "at most 1,000 levels"),
    "a long rule": (from_jms, "s = '" + "a" * 70_000 + "'", "allow more with most_chars"),
    "a large object": (from_eventbridge, {"s": [f"a{k}" for k in range(60_000)]}, "allow more with most_chars"),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_rule_that_is_too_large_is_refused_with_its_reason(name: str) -> None:
    """Before, the first three ended in a RecursionError, the expressions took 3 s, and no rule was too long."""
    translator, rule, reason = TOO_LARGE[name]
    with pytest.raises(RuleError, match=reason):
        translator(THINGS, rule)


NUMBERS = ["1e" + "9" * 20, "1e-" + "9" * 20, "0e" + "9" * 30, "0x" + "f" * 4_000, "9" * 5_000, "*".join(["9" * 40] * 200)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:8])
def test_a_number_beyond_all_numbers_is_compared_or_refused(number: str) -> None:
    """An exponent of twenty digits was an InvalidOperation of `decimal`, thousands of hex digits a ValueError."""
    for kind in ("i", "s", "b"):
        for translator, rule in (
            (from_jms, f"{kind} < {number}"),
            (from_cesql, f"{kind} < {number}"),
            (from_eventbridge, f'{{"{kind}": [{number}]}}'),
        ):
            with suppress(RuleError):
                translator(THINGS, rule)


def test_an_escape_beyond_the_last_character_is_refused() -> None:
    with pytest.raises(RuleError, match=r"there is no character \\U00110000; the last is \\U0010FFFF"):
        from_matchers(THINGS, r'{s="a\U00110000"}')


def test_a_caller_may_allow_a_longer_rule() -> None:
    long = "s = '" + "a" * 70_000 + "'"
    assert translate(THINGS, "jms", long, most_chars=None).predicate.accepts({"s": "a" * 70_000})
    refused, taken = translate_many(THINGS, "jms", [long, "i = 1"])
    assert isinstance(refused, RuleError)
    assert taken == "i = 1"


def test_two_constants_of_cesql_are_compared_in_linear_time() -> None:
    """`re` with `.*a.*a.*a` took minutes for this one."""
    found = from_cesql(THINGS, "'" + "a" * 3_000 + "' LIKE '" + "%a" * 12 + "%b' OR i = 1")
    assert found.accepts({"i": 1})
    assert not found.accepts({"i": 2})
