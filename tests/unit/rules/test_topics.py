"""MQTT topic filters, over one attribute and over one for each level, and what MQTT forbids."""

from __future__ import annotations

import pytest

import contentcast as cc
from contentcast.rules import RuleError, translate
from tests.unit.rules.judge import Row, judge

SPACE = cc.Space("readings", topic="string", site="string", floor="string", sensor="string", value="float")


def topics(*given: str) -> list[dict[str, object]]:
    return [{"topic": each} for each in given]


TABLE: list[Row] = [
    ("house/1/heat", topics("house/1/heat"), [*topics("house/1", "house/1/heat/x", "House/1/heat", "/house/1/heat"), {}]),
    (
        "house/+/heat",
        topics("house/1/heat", "house//heat", "house/a b/heat"),
        topics("house/heat", "house/1/2/heat", "house/1/cold", "house/1/heat/x"),
    ),
    ("+/+", topics("a/b", "/b", "a/", "/"), [*topics("a", "a/b/c", "$a/b", "//"), {}]),
    ("+", topics("a"), topics("a/b", "/a", "$a")),
    ("/+", topics("/a", "/"), topics("a", "/a/b", "a/b")),
    ("a/+", topics("a/b", "a/"), topics("a", "a/b/c", "b/a")),
    ("+/a/+", topics("x/a/y", "/a/"), topics("x/b/y", "x/a", "x/a/y/z", "$x/a/y")),
    ("#", topics("a", "a/b/c", "/"), [*topics("$SYS/load"), {}]),
    ("a/#", topics("a", "a/b", "a/b/c", "a/"), topics("ab", "b/a", "A", "$a/b")),
    ("a/b/#", topics("a/b", "a/b/c/d"), topics("a", "a/bc", "a/c")),
    ("+/#", topics("a", "a/b", "/"), topics("$SYS", "$SYS/a")),
    ("a/+/#", topics("a/b", "a/b/c", "a/"), topics("a", "b/a")),
    ("+/+/#", topics("a/b", "a/b/c", "/"), topics("a", "$a/b")),
    ("/#", topics("/a", "/a/b", "/"), topics("a", "a/b")),
    ("$SYS/#", topics("$SYS", "$SYS/load"), topics("$SYSx", "SYS/load")),
    ("$SYS/+/load", topics("$SYS/b1/load"), topics("$SYS/load", "$SYS/b1/b2/load")),
    ("$share/desk/house/+/heat", topics("house/1/heat"), topics("house/1/cold", "$share/desk/house/1/heat")),
    ("$share/desk/#", topics("a/b"), topics("$SYS/a")),
    ("100%_/+", topics("100%_/x"), topics("1000/x", "100%x/x")),
    ("it's/+/\\", topics("it's/x/\\"), topics("it's/x/", "its/x/\\")),
    ("+/b/#", topics("a/b", "a/b/c", "/b", "b/b/b"), [*topics("a/c/b", "b", "a/bb", "x/y/b", "$a/b", "a/b\n"), {}]),
    ("a/+/b.c/#", topics("a/x/b.c", "a//b.c/d/e"), topics("a/x/bxc", "a/x/y/b.c", "x/a/x/b.c")),
    ("+/+/c/#", topics("a/b/c"), topics("a/c", "a/b/b/c")),
    ("a//b", topics("a//b"), topics("a/b", "a/x/b")),
]

LEVELS: list[Row] = [
    (
        "house/+/heat",
        [{"site": "house", "floor": "1", "sensor": "heat"}, {"site": "house", "floor": "", "sensor": "heat"}],
        [{"site": "house", "sensor": "heat"}, {"site": "house", "floor": "1", "sensor": "cold"}, {}],
    ),
    (
        "house/#",
        [{"site": "house"}, {"site": "house", "floor": "1"}, {"site": "house", "floor": "1", "sensor": "heat"}],
        [{"site": "shed"}, {}],
    ),
    ("house", [{"site": "house"}], [{"site": "house", "floor": "1"}]),
    (
        "+/1",
        [{"site": "house", "floor": "1"}],
        [{"site": "$SYS", "floor": "1"}, {"site": "house", "floor": "1", "sensor": "heat"}, {"floor": "1"}],
    ),
    ("#", [{"site": "house"}, {"site": "a", "floor": "b"}], [{"site": "$SYS"}, {}]),
    ("+/b/#", [{"site": "a", "floor": "b"}, {"site": "a", "floor": "b", "sensor": "c"}], [{"site": "b", "sensor": "b"}]),
]


def test_filters_match_what_they_match_in_mqtt() -> None:
    assert judge(SPACE, "topic", TABLE) >= 40


def test_levels_in_attributes_of_their_own() -> None:
    assert judge(SPACE, "topic", LEVELS, levels=("site", "floor", "sensor")) >= 18


def test_the_text_is_short() -> None:
    assert translate(SPACE, "topic", "a/#").text == "topic = 'a' OR startswith(topic, 'a/')"
    assert translate(SPACE, "topic", "a/+/b").text == "topic LIKE 'a/%/b' AND NOT topic LIKE '%/%/%/%'"


@pytest.mark.parametrize(
    ("filter", "place", "reason"),
    [
        ("", "line 1, column 1", "at least one character"),
        ("a/#/b", "line 1, column 3", "# stands alone in the last level"),
        ("a#", "line 1, column 2", "# stands alone in the last level"),
        ("a/b#", "line 1, column 4", "# stands alone"),
        ("a/+b", "line 1, column 3", "+ stands for a whole level"),
        ("a+/b", "line 1, column 2", "+ stands for a whole level"),
        ("a/\0", "line 1, column 3", "U+0000"),
        ("$share", None, ""),
        ("$share/desk", "line 1, column 12", "a filter is wanted after the group"),
        ("$share/desk/", "line 1, column 13", "a filter is wanted after the group"),
        ("$share//a", "line 1, column 8", "a group without + and #"),
        ("$share/+/a", "line 1, column 8", "a group without + and #"),
        ("x" * 70_000, "line 1, column 1", "at most 65,535 bytes"),
    ],
)
def test_what_mqtt_forbids_is_refused_with_its_place(filter: str, place: str | None, reason: str) -> None:
    if place is None:  # a topic like any other
        assert translate(SPACE, "topic", filter).text == "topic = '$share'"
        return
    with pytest.raises(RuleError) as refused:
        translate(SPACE, "topic", filter)
    assert refused.value.place == place
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"attribute": "subject"}, "no attribute 'subject'"),
        ({"attribute": "value"}, "a topic is text, and value is a float"),
        ({"levels": ("site", "flor")}, "did you mean 'floor'?"),
        ({"levels": ("site",)}, "the filter has 2 levels, and attributes are named for 1"),
    ],
)
def test_the_attributes_must_be_there_and_hold_text(options: dict[str, object], reason: str) -> None:
    with pytest.raises(RuleError) as refused:
        translate(SPACE, "topic", "a/b", **options)
    assert reason in refused.value.reason
