"""EventBridge patterns: each operator that AWS documents, judged by the oracle and the index; what is refused, and where.

The rules follow the user guide's page on comparison operators; the patterns and events are our own.
"""

from __future__ import annotations

import json

import pytest

import contentcast as cc
from contentcast.rules import RuleError, translate
from tests.unit.rules.judge import Row, judge

SPACE = cc.Space(
    "cloud",
    {
        "source": "string",
        "detail-type": "string",
        "region": "string",
        "time": "timestamp",
        "raw": "bytes",
        "detail.state": "string",
        "detail.file": "string",
        "detail.count": "int",
        "detail.latency": "float",
        "detail.encrypted": "bool",
        "detail.owner.name": "string",
        "detail.owner.team": "string",
        "detail.ip": "string",
        "detail.tags": "list of string",
        "detail.sizes": "list of int",
        "detail.flags": "list of bool",
    },
)


def state(value: object) -> dict[str, object]:
    return {"detail": {"state": value}}


def file(value: object) -> dict[str, object]:
    return {"detail": {"file": value}}


def count(value: object) -> dict[str, object]:
    return {"detail": {"count": value}}


def latency(value: object) -> dict[str, object]:
    return {"detail": {"latency": value}}


def on_state(*alternatives: object) -> dict[str, object]:
    return {"detail": {"state": list(alternatives)}}


def on_file(*alternatives: object) -> dict[str, object]:
    return {"detail": {"file": list(alternatives)}}


def on_count(*alternatives: object) -> dict[str, object]:
    return {"detail": {"count": list(alternatives)}}


def on_latency(*alternatives: object) -> dict[str, object]:
    return {"detail": {"latency": list(alternatives)}}


EXACT: list[Row] = [
    ({"source": ["shop.orders"]}, [{"source": "shop.orders"}], [{"source": "shop.order"}, {"source": "SHOP.ORDERS"}, {}]),
    ({"source": ["a", "b"]}, [{"source": "a"}, {"source": "b"}], [{"source": "c"}, {"source": "ab"}, {"source": ""}]),
    ({"source": [""]}, [{"source": ""}], [{"source": " "}, {}, {"source": None}]),
    ({"source": [None]}, [{"source": None}], [{"source": ""}, {"source": "null"}]),
    ({"source": [None, "a"]}, [{"source": None}, {"source": "a"}], [{"source": "b"}]),
    (on_count(5), [count(5)], [count(6), count(-5), {}]),
    (on_count(5, 7), [count(5), count(7)], [count(6)]),
    (on_count(5.0), [count(5)], [count(50)]),
    (on_count(5.5), [], [count(5), count(6)]),
    (on_latency(300), [latency(300.0), latency(300)], [latency(300.5)]),
    (on_latency(0.1), [latency(0.1)], [latency(0.2), {}]),
    (on_latency(-1.5e3), [latency(-1500.0)], [latency(1500.0)]),
    ({"detail": {"encrypted": [True]}}, [{"detail": {"encrypted": True}}], [{"detail": {"encrypted": False}}, {}]),
    ({"detail": {"encrypted": [False]}}, [{"detail": {"encrypted": False}}], [{"detail": {"encrypted": True}}, {}]),
    ({"detail": {"encrypted": [True, False]}}, [{"detail": {"encrypted": False}}], [{}]),
    (
        {"source": ["it's", 'say "hi"', "back\\slash", "100%", "a_b"]},
        [{"source": "it's"}, {"source": 'say "hi"'}, {"source": "back\\slash"}, {"source": "100%"}, {"source": "a_b"}],
        [{"source": "its"}, {"source": "1000"}, {"source": "axb"}],
    ),
    ({"source": ["grün", "日本", "😀"]}, [{"source": "grün"}, {"source": "日本"}, {"source": "😀"}], [{"source": "grun"}]),
    # A value of another kind can never be there: beside others it is left out.
    (on_count("5", 5), [count(5)], [count(6)]),
    ({"source": [5, "a", True]}, [{"source": "a"}], [{"source": "5"}, {"source": "true"}]),
]

NESTED: list[Row] = [
    (
        {"source": ["a"], "region": ["eu"]},
        [{"source": "a", "region": "eu"}],
        [{"source": "a"}, {"region": "eu"}, {"source": "a", "region": "us"}],
    ),
    (
        {"detail": {"owner": {"name": ["kim"]}}},
        [{"detail": {"owner": {"name": "kim"}}}],
        [{"detail": {"owner": {"team": "kim"}}}, {}],
    ),
    (
        {"detail": {"owner": {"name": ["kim"], "team": ["x", "y"]}, "state": ["open"]}},
        [{"detail": {"owner": {"name": "kim", "team": "y"}, "state": "open"}}],
        [
            {"detail": {"owner": {"name": "kim", "team": "z"}, "state": "open"}},
            {"detail": {"owner": {"name": "kim", "team": "y"}}},
        ],
    ),
    ({"detail-type": ["Order Placed"]}, [{"detail-type": "Order Placed"}], [{"detail-type": "Order placed"}]),
    ({"detail.state": ["open"]}, [state("open")], [state("closed")]),
]

STRINGS: list[Row] = [
    (on_state({"prefix": "run"}), [state("run"), state("running")], [state("Running"), state("a run"), state(""), {}]),
    (on_state({"prefix": ""}), [state(""), state("x")], [{}]),
    (on_state({"prefix": "50%_"}), [state("50%_off")], [state("500 off"), state("50%x")]),
    (on_file({"suffix": ".png"}), [file("a.png"), file(".png")], [file("a.PNG"), file("a.png.txt"), file("png"), {}]),
    (on_file({"suffix": "%"}), [file("5%")], [file("5"), file("%5")]),
    (
        on_state({"prefix": "run"}, "stopped", {"suffix": "ing"}),
        [state("runner"), state("stopped"), state("pending"), state("ing")],
        [state("stop"), {}],
    ),
    (on_file({"wildcard": "*.png"}), [file("a.png"), file(".png")], [file("a.jpg"), file("a.png ")]),
    (
        on_file({"wildcard": "dir/*/img-*.png"}),
        [file("dir/a/img-7.png"), file("dir/a/b/img-.png")],
        [file("dir/img-7.png"), file("x/dir/a/img-7.png")],
    ),
    (on_file({"wildcard": "plain"}), [file("plain")], [file("plain2"), file("PLAIN")]),
    (on_file({"wildcard": "*"}), [file(""), file("x")], [{}]),
    (on_file({"wildcard": "a\\*b"}), [file("a*b")], [file("axb"), file("ab")]),
    (on_file({"wildcard": "a\\\\*"}), [file("a\\"), file("a\\b")], [file("ab"), file("a")]),
    (on_file({"wildcard": "100%_*"}), [file("100%_x")], [file("1000_x"), file("100%xx")]),
    (on_file({"wildcard": "*a*b*"}), [file("ab"), file("xaxxbx")], [file("ba"), file("a")]),
    (on_file({"wildcard": ""}), [file("")], [file("x"), {}]),
]

NUMERIC: list[Row] = [
    (on_count({"numeric": ["=", 5]}), [count(5)], [count(4), {}]),
    (on_count({"numeric": ["<", 10]}), [count(9), count(-100)], [count(10), {}]),
    (on_count({"numeric": ["<=", 10]}), [count(10)], [count(11)]),
    (on_count({"numeric": [">", 0]}), [count(1)], [count(0)]),
    (on_count({"numeric": [">=", 0]}), [count(0)], [count(-1)]),
    (on_count({"numeric": [">", 0, "<=", 5]}), [count(1), count(5)], [count(0), count(6)]),
    (on_count({"numeric": [">=", 0.5, "<", 2.5]}), [count(1), count(2)], [count(0), count(3)]),
    (
        on_count({"numeric": ["<", 0]}, {"numeric": [">", 10]}, 5),
        [count(-1), count(11), count(5)],
        [count(0), count(10), count(6)],
    ),
    (on_latency({"numeric": ["=", 301.8]}), [latency(301.8)], [latency(301.80001)]),
    (on_latency({"numeric": [">", -1.5, "<", 1.5]}), [latency(0.0), latency(1.25)], [latency(1.5), latency(-1.5)]),
    (on_latency({"numeric": [">=", 5e9]}), [latency(5e9)], [latency(4.9e9)]),
]

EXISTS: list[Row] = [
    (on_state({"exists": True}), [state("x"), state("")], [{}, count(5), state(None)]),
    (on_state({"exists": False}), [{}, count(5), state(None)], [state("x"), state("")]),
    (on_count({"exists": True}), [count(0)], [{}]),
    (on_state("open", {"exists": False}), [state("open"), {}], [state("closed")]),
    (
        {"source": ["a"], "detail": {"state": [{"exists": False}]}},
        [{"source": "a"}],
        [{"source": "a", "detail": {"state": "x"}}, {"source": "b"}],
    ),
    ({"detail": {"encrypted": [{"exists": True}]}}, [{"detail": {"encrypted": False}}], [{}]),
]

ANYTHING_BUT: list[Row] = [
    (on_state({"anything-but": "init"}), [state("run"), state(""), state("Init")], [state("init"), {}, state(None)]),
    (on_state({"anything-but": ["a", "b"]}), [state("c"), state("ab")], [state("a"), state("b"), {}]),
    (on_count({"anything-but": 100}), [count(99), count(0)], [count(100), {}]),
    (on_count({"anything-but": [100, 200, 300]}), [count(150)], [count(100), count(200), count(300), {}]),
    (on_latency({"anything-but": 0.5}), [latency(0.25)], [latency(0.5), {}]),
    (on_state({"anything-but": {"prefix": "run"}}), [state("stop"), state("")], [state("running"), state("run"), {}]),
    (on_state({"anything-but": {"prefix": ["run", "stop"]}}), [state("pend")], [state("running"), state("stopped"), {}]),
    (on_file({"anything-but": {"suffix": ".png"}}), [file("a.jpg")], [file("a.png"), {}]),
    (on_file({"anything-but": {"suffix": [".png", ".jpg"]}}), [file("a.gif")], [file("a.png"), file("a.jpg")]),
    (on_file({"anything-but": {"wildcard": "*/lib/*"}}), [file("/bin/x"), file("lib")], [file("/lib/x"), file("a/lib/"), {}]),
    (on_file({"anything-but": {"wildcard": ["*/lib/*", "*.tmp"]}}), [file("/bin/x")], [file("/lib/x"), file("a.tmp")]),
    (on_state({"anything-but": "a"}, "a"), [state("a"), state("b")], [{}]),
    (on_state({"anything-but": ""}), [state("x")], [state(""), {}]),
    (on_state({"anything-but": "a"}, {"exists": False}), [state("b"), {}], [state("a")]),
]

OR: list[Row] = [
    (
        {"$or": [{"source": ["a"]}, {"region": ["eu"]}]},
        [{"source": "a"}, {"region": "eu"}, {"source": "b", "region": "eu"}],
        [{"source": "b"}, {}, {"region": "us"}],
    ),
    (
        {
            "detail": {
                "$or": [{"count": [{"numeric": [">", 0, "<=", 5]}]}, {"latency": [{"numeric": ["<", 10]}]}, {"state": ["open"]}]
            }
        },
        [count(3), latency(9.5), state("open")],
        [count(6), latency(10.0), state("closed"), {}],
    ),
    (
        {"source": ["a"], "$or": [{"region": ["eu"]}, {"region": ["us"]}]},
        [{"source": "a", "region": "eu"}, {"source": "a", "region": "us"}],
        [{"source": "a"}, {"region": "eu"}, {"source": "a", "region": "ap"}],
    ),
    (
        {"$or": [{"source": ["a"], "region": ["eu"]}, {"detail": {"state": [{"exists": False}]}, "region": ["us"]}]},
        [{"source": "a", "region": "eu"}, {"region": "us"}],
        [{"source": "a"}, {"region": "us", "detail": {"state": "x"}}],
    ),
    (
        {"$or": [{"$or": [{"source": ["a"]}, {"source": ["b"]}]}, {"region": ["eu"]}]},
        [{"source": "b"}, {"region": "eu"}],
        [{"source": "c", "region": "us"}],
    ),
    ({"$or": [{"source": ["a"]}, {"source": [{"anything-but": "a"}]}]}, [{"source": "a"}, {"source": "z"}], [{}]),
]

IGNORING_CASE: list[Row] = [
    (on_state({"equals-ignore-case": "Open"}), [state("open"), state("OPEN"), state("oPeN")], [state("opened"), state(""), {}]),
    (on_state({"equals-ignore-case": ""}), [state("")], [state("a"), {}]),
    (on_state({"equals-ignore-case": "ÄÖ"}), [state("äö"), state("Äö")], [state("ao")]),
    (on_state({"prefix": {"equals-ignore-case": "EventB"}}), [state("eventbridge"), state("EVENTB")], [state("event"), {}]),
    (on_file({"suffix": {"equals-ignore-case": ".PNG"}}), [file("a.png"), file("A.PnG")], [file("a.jpg"), {}]),
    (on_state({"anything-but": {"equals-ignore-case": "init"}}), [state("run"), state("")], [state("INIT"), state("init"), {}]),
    (on_state({"anything-but": {"equals-ignore-case": ["a", "B"]}}), [state("c")], [state("A"), state("b"), {}]),
    (on_state({"equals-ignore-case": "a"}, "B"), [state("A"), state("B")], [state("b")]),
]


def ip(value: object) -> dict[str, object]:
    return {"detail": {"ip": value}}


def on_ip(*alternatives: object) -> dict[str, object]:
    return {"detail": {"ip": list(alternatives)}}


ADDRESSES: list[Row] = [
    (on_ip({"cidr": "10.0.0.0/24"}), [ip("10.0.0.0"), ip("10.0.0.255")], [ip("10.0.1.0"), ip("10.0.0"), ip(""), {}]),
    (on_ip({"cidr": "10.0.0.7/24"}), [ip("10.0.0.1")], [ip("10.0.1.7")]),
    (on_ip({"cidr": "0.0.0.0/0"}), [ip("1.2.3.4")], [ip("somewhere"), {}]),
    (on_ip({"cidr": "10.0.0.5/32"}, "local"), [ip("10.0.0.5"), ip("local")], [ip("10.0.0.6")]),
    (on_ip({"cidr": "2001:db8::/32"}), [ip("2001:db8::1"), ip("2001:DB8:0:0::1")], [ip("2001:db9::1"), ip("10.0.0.1")]),
]


def tags(*values: object) -> dict[str, object]:
    return {"detail": {"tags": list(values)}}


def on_tags(*alternatives: object) -> dict[str, object]:
    return {"detail": {"tags": list(alternatives)}}


def sizes(*values: object) -> dict[str, object]:
    return {"detail": {"sizes": list(values)}}


def on_sizes(*alternatives: object) -> dict[str, object]:
    return {"detail": {"sizes": list(alternatives)}}


LISTS: list[Row] = [
    (on_tags("a"), [tags("a"), tags("b", "a")], [tags("b"), tags(), tags(None), {}]),
    (on_tags("a", "b"), [tags("a"), tags("c", "b")], [tags("c"), tags(), {}]),
    (on_tags(None), [{}, tags(None), tags("a", None)], [tags("a"), tags()]),
    (on_tags({"prefix": "ab"}), [tags("x", "abc")], [tags("x"), tags(), {}]),
    (on_tags({"suffix": {"equals-ignore-case": "BC"}}), [tags("x", "aBc")], [tags("bcd"), {}]),
    (on_tags({"wildcard": "a*c"}), [tags("abc", "x")], [tags("ab", "bc")]),
    (on_tags({"anything-but": "a"}), [tags("b"), tags("a", "b")], [tags("a"), tags("a", "a"), tags(), {}]),
    (on_tags({"anything-but": ["a", "b"]}), [tags("a", "c")], [tags("a", "b"), {}]),
    (on_tags({"anything-but": {"prefix": ["a", "b"]}}), [tags("ax", "cx")], [tags("ax", "bx")]),
    (on_tags({"anything-but": {"equals-ignore-case": "A"}}), [tags("a", "b")], [tags("a", "A")]),
    (on_tags({"exists": True}), [tags("a"), tags("")], [tags(), {}]),
    (on_tags({"exists": False}), [tags(), {}], [tags("a")]),
    (on_tags({"cidr": "10.0.0.0/8"}), [tags("x", "10.1.1.1")], [tags("11.0.0.1"), {}]),
    (on_tags("a", {"prefix": "z"}), [tags("a"), tags("zz")], [tags("b")]),
    (on_sizes(5), [sizes(1, 5)], [sizes(1), sizes(), {}]),
    (on_sizes({"numeric": [">", 0, "<=", 5]}), [sizes(9, 3)], [sizes(0, 6), sizes(), {}]),
    (on_sizes({"anything-but": 5}), [sizes(5, 6)], [sizes(5), {}]),
    ({"detail": {"flags": [True]}}, [{"detail": {"flags": [False, True]}}], [{"detail": {"flags": [False]}}, {}]),
    ({"detail": {"tags": ["a"], "sizes": [5]}}, [{"detail": {"tags": ["a", "b"], "sizes": [4, 5]}}], [tags("a"), sizes(5)]),
]

ALL = LISTS + EXACT + NESTED + STRINGS + NUMERIC + EXISTS + ANYTHING_BUT + OR + IGNORING_CASE + ADDRESSES


def test_patterns_match_what_they_match_in_eventbridge() -> None:
    assert judge(SPACE, "eventbridge", ALL) >= 150


def test_the_json_text_of_a_pattern_is_the_same_rule() -> None:
    for pattern, _, _ in ALL:
        assert translate(SPACE, "eventbridge", json.dumps(pattern)) == translate(SPACE, "eventbridge", pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ({"source": ["a"], "detail": {"state": [{"prefix": "run"}]}}, "source = 'a' AND startswith(`detail.state`, 'run')"),
        (on_count({"numeric": [">", 0, "<=", 5]}), "`detail.count` > 0 AND `detail.count` <= 5"),
        (on_state({"anything-but": ["a", "b"]}), "`detail.state` NOT IN ('a', 'b')"),
        (on_file({"wildcard": "log-*.gz"}), "`detail.file` LIKE 'log-%.gz'"),
        (on_tags("a", "b"), "arrays_overlap(`detail.tags`, array('a', 'b'))"),
        (on_sizes({"numeric": [">", 0, "<=", 5]}), "exists(`detail.sizes`, t -> t > 0 AND t <= 5)"),
        (on_state(None, ""), "`detail.state` = '' OR `detail.state` IS NULL"),
    ],
)
def test_the_text_reads_as_a_person_would_write_it(pattern: dict[str, object], text: str) -> None:
    assert translate(SPACE, "eventbridge", pattern).text == text


REFUSED = [
    ({}, "the whole rule", "empty object"),
    ({5: ["a"]}, "the whole rule", "the name 5 is a number"),
    ({"detail": {5: ["a"]}}, "detail", "the name 5 is a number"),
    (on_count(10**5000), "detail.count[0]", "beyond all that an event carries"),
    (on_latency(10**400), "detail.latency[0]", "beyond all that an event carries"),
    (on_latency(float("nan")), "detail.latency[0]", "no number that an event carries"),
    ([], "the whole rule", "come as a JSON object, not as an array"),
    ({"source": "a"}, "source", 'write ["a"]'),
    ({"source": 5}, "source", "an array or an object, not a number"),
    ({"source": []}, "source", "empty array"),
    ({"source": [["a"]]}, "source[0]", "an array inside an array"),
    ({"detail": {}}, "detail", "empty object"),
    ({"sorce": ["a"]}, "sorce", "did you mean 'source'?"),
    ({"detail": ["a"]}, "detail", "ask of one of them: detail.state"),
    ({"detail": {"owner": [{"exists": True}]}}, "detail.owner", "detail.owner.name, detail.owner.team"),
    ({"detail": {"state": {"x": ["a"]}}}, "detail.state.x", "no attribute 'detail.state.x'"),
    (on_state(5), "detail.state[0]", "detail.state is a string in this space and never equals 5"),
    (on_tags(5), "detail.tags[0]", "never equals 5"),
    (on_count("5"), "detail.count[0]", "is an int in this space and never equals the string '5'"),
    (on_count(True), "detail.count[0]", "never equals true"),
    ({"detail": {"encrypted": ["true"]}}, "detail.encrypted[0]", "is a bool"),
    ({"time": ["2026-03-01T00:00:00Z"]}, "time[0]", "declare time as a string to compare its text"),
    ({"raw": ["a"]}, "raw[0]", "raw is bytes"),
    (on_state({"prefix": "a", "suffix": "b"}), "detail.state[0]", "one operator in an object"),
    (on_state({}), "detail.state[0]", "one operator in an object"),
    (on_state({"begins": "a"}), "detail.state[0].begins", "there are prefix, suffix"),
    (on_state({"prefix": 5}), "detail.state[0].prefix", "a string is wanted, not a number"),
    (on_state({"prefix": {"wildcard": "a"}}), "detail.state[0].prefix.wildcard", "there are equals-ignore-case"),
    (on_count({"prefix": "5"}), "detail.count[0]", "the operator asks of a string"),
    (on_count({"wildcard": "5*"}), "detail.count[0]", "the operator asks of a string"),
    (on_state({"numeric": ["=", 5]}), "detail.state[0]", "numeric asks of a number"),
    (on_count({"numeric": 5}), "detail.count[0].numeric", "one comparison or two"),
    (on_count({"numeric": []}), "detail.count[0].numeric", "one comparison or two"),
    (on_count({"numeric": ["==", 5]}), "detail.count[0].numeric[0]", "is no comparison"),
    (on_count({"numeric": ["<", "5"]}), "detail.count[0].numeric[1]", "a number is wanted, not a string"),
    (on_count({"numeric": [">", 0, "<", True]}), "detail.count[0].numeric[3]", "a number is wanted, not a bool"),
    (on_count({"numeric": ["<", 5, ">", 0]}), "detail.count[0].numeric", "a lower bound and then an upper one"),
    (on_count({"numeric": ["=", 5, "<", 9]}), "detail.count[0].numeric", "a lower bound and then an upper one"),
    (on_count({"numeric": [">", 5, "<", 5]}), "detail.count[0].numeric", "the range is empty"),
    (on_state({"exists": "yes"}), "detail.state[0].exists", "true or false, not a string"),
    (on_state({"wildcard": "a**b"}), "detail.state[0].wildcard", "two * side by side"),
    (on_state({"wildcard": "a\\b"}), "detail.state[0].wildcard", "a backslash stands before * or"),
    (on_state({"anything-but": True}), "detail.state[0].anything-but", "only strings or only numbers"),
    (on_state({"anything-but": None}), "detail.state[0].anything-but", "only strings or only numbers"),
    (on_state({"anything-but": []}), "detail.state[0].anything-but", "only strings or only numbers"),
    (on_state({"anything-but": ["a", 5]}), "detail.state[0].anything-but", "only strings or only numbers"),
    (on_state({"anything-but": 5}), "detail.state[0]", "never equals 5"),
    (on_state({"anything-but": {"prefix": ""}}), "detail.state[0].anything-but.prefix", "nothing would match"),
    (on_state({"anything-but": {"numeric": ["<", 5]}}), "detail.state[0].anything-but.numeric", "there are prefix, suffix"),
    (on_state({"anything-but": {"wildcard": []}}), "detail.state[0].anything-but.wildcard", "give at least one string"),
    ({"$or": [{"source": ["a"]}]}, "$or", "at least two objects"),
    ({"$or": {"source": ["a"]}}, "$or", "at least two objects"),
    ({"$or": ["a", "b"]}, "$or", "at least two objects"),
    ({"detail": {"$or": [{"state": ["a"]}, {"state": [5]}]}}, "detail.$or[1].state[0]", "never equals 5"),
    ('{"source": ["a"', "line 1, column 16", "not JSON"),
    ('{"source": ["a"], "source": ["b"]}', "line 1, column 1", "source is given twice"),
    ('{"detail": {"count": [NaN]}}', "line 1, column 1", "NaN is not a JSON number"),
    (on_file({"cidr": "10.0.0.0"}), "detail.file[0].cidr", "has no mask"),
    (on_file({"cidr": "10.0.0.0/40"}), "detail.file[0].cidr", "no block of addresses"),
    (on_file({"cidr": 10}), "detail.file[0].cidr", "a string is wanted"),
]


@pytest.mark.parametrize(("pattern", "place", "reason"), REFUSED)
def test_what_cannot_be_said_is_refused_with_its_place(pattern: object, place: str, reason: str) -> None:
    with pytest.raises(RuleError) as refused:
        translate(SPACE, "eventbridge", pattern)
    assert refused.value.place == place
    assert reason in refused.value.reason
    assert str(refused.value).startswith(place)


def test_a_pattern_nested_without_end_is_refused_and_breaks_nothing() -> None:
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    with pytest.raises(RuleError):
        translate(SPACE, "eventbridge", deep)


def test_a_translated_rule_is_covered_and_explained_like_any_other() -> None:
    narrow = cc.from_eventbridge(SPACE, {"source": ["a"], "detail": {"count": [{"numeric": [">", 5]}]}})
    wide = cc.from_eventbridge(SPACE, on_count({"numeric": [">", 0]}))
    assert cc.covers(SPACE, wide, narrow)
    assert not cc.covers(SPACE, narrow, wide)
    index = cc.MatchIndex(SPACE)
    index.add(1, narrow)
    assert index.match({"source": "a", "detail": {"count": 6}}) == [1]
