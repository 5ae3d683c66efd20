"""Bindings of RabbitMQ's headers exchange: the four ways to match, headers without a value, types, and what is refused."""

from __future__ import annotations

import json

import pytest

import contentcast as cc
from contentcast.rules import RuleError, translate
from tests.unit.rules.judge import Row, judge

SPACE = cc.Space(
    "reports",
    {
        "format": "string",
        "type": "string",
        "pages": "int",
        "score": "float",
        "final": "bool",
        "x-tenant": "string",
        "at": "timestamp",
    },
)

TABLE: list[Row] = [
    (
        {"format": "pdf", "type": "report"},
        [{"format": "pdf", "type": "report"}, {"format": "pdf", "type": "report", "pages": 3}],
        [{"format": "pdf"}, {"format": "pdf", "type": "log"}, {}],
    ),
    ({"x-match": "all", "format": "pdf", "type": "report"}, [{"format": "pdf", "type": "report"}], [{"type": "report"}]),
    (
        {"x-match": "any", "format": "pdf", "type": "report"},
        [{"format": "pdf"}, {"type": "report"}, {"format": "pdf", "type": "log"}],
        [{"format": "zip", "type": "log"}, {}],
    ),
    ({"x-match": "all"}, [{}, {"format": "pdf"}], []),
    ({}, [{}, {"format": "pdf"}], []),
    ({"x-match": "any"}, [], [{}, {"format": "pdf"}]),
    ({"format": None}, [{"format": "pdf"}, {"format": ""}], [{}, {"type": "pdf"}]),
    ({"x-match": "any", "format": None, "type": "report"}, [{"format": "x"}, {"type": "report"}], [{"type": "log"}]),
    (
        {"x-match": "all", "x-tenant": "t1", "format": "pdf"},
        [{"format": "pdf"}, {"format": "pdf", "x-tenant": "t2"}],
        [{"x-tenant": "t1"}],
    ),
    (
        {"x-match": "all-with-x", "x-tenant": "t1", "format": "pdf"},
        [{"format": "pdf", "x-tenant": "t1"}],
        [{"format": "pdf"}, {"format": "pdf", "x-tenant": "t2"}, {"x-tenant": "t1"}],
    ),
    ({"x-match": "any", "x-tenant": "t1", "format": "pdf"}, [{"format": "pdf"}], [{"x-tenant": "t1"}]),
    (
        {"x-match": "any-with-x", "x-tenant": "t1", "format": "pdf"},
        [{"format": "pdf"}, {"x-tenant": "t1"}],
        [{"x-tenant": "t2"}],
    ),
    ({"x-match": "all", "x-unknown": 5}, [{}], []),
    ({"pages": 5}, [{"pages": 5}], [{"pages": 6}, {}]),
    ({"pages": -5}, [{"pages": -5}], [{"pages": 5}]),
    ({"score": 0.5}, [{"score": 0.5}], [{"score": 0.25}]),
    ({"score": 5}, [{"score": 5.0}], [{"score": 5.5}]),
    ({"final": True}, [{"final": True}], [{"final": False}, {}]),
    ({"final": False, "format": "pdf"}, [{"final": False, "format": "pdf"}], [{"final": True, "format": "pdf"}]),
    ({"format": "it's 100%_"}, [{"format": "it's 100%_"}], [{"format": "its 100%_"}]),
]


def test_bindings_match_what_they_match_in_rabbitmq() -> None:
    assert judge(SPACE, "headers", TABLE) >= 40


def test_a_binding_may_come_as_json_text_and_headers_may_stand_under_a_name() -> None:
    text = json.dumps({"x-match": "any", "format": "pdf"})
    assert cc.from_headers(SPACE, text) == cc.from_headers(SPACE, {"x-match": "any", "format": "pdf"})
    nested = cc.Space("messages", {"headers.format": "string"})
    assert translate(nested, "headers", text, prefix="headers.").text == "`headers.format` = 'pdf'"


@pytest.mark.parametrize(
    ("arguments", "place", "reason"),
    [
        ({"x-match": "some"}, "x-match", "there are all, any, all-with-x, any-with-x"),
        ({"x-match": 5}, "x-match", "no way to match"),
        ({"frmat": "pdf"}, "frmat", "did you mean 'format'?"),
        ({"x-match": "any-with-x", "x-other": "a"}, "x-other", "no attribute 'x-other'"),
        ({"pages": "5"}, "pages", "never equals the string '5'"),
        ({"format": 5}, "format", "never equals 5"),
        ({"final": 1}, "final", "never equals 1"),
        ({"at": 1700000000}, "at", "is a timestamp"),
        ({"format": ["pdf"]}, "format", "a header that is an array cannot be compared"),
        ({"format": {"a": 1}}, "format", "a header that is an object cannot be compared"),
        ("[]", "the whole rule", "the arguments of a binding come as a JSON object, not as an array"),
        ("{", "line 1, column 2", "not JSON"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_place(arguments: object, place: str, reason: str) -> None:
    with pytest.raises(RuleError) as refused:
        translate(SPACE, "headers", arguments)
    assert refused.value.place == place
    assert reason in refused.value.reason
