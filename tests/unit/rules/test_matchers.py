"""Label matchers of Prometheus and Alertmanager: a label that is not there is empty, expressions hold for the whole value."""

from __future__ import annotations

import pytest

import contentcast as cc
from contentcast.rules import RuleError, translate
from contentcast.rules.regular import alternatives
from tests.unit.rules.judge import Row, judge

SPACE = cc.Space(
    "alerts",
    {
        "__name__": "string",
        "severity": "string",
        "team": "string",
        "instance": "string",
        "my.label": "string",
        "value": "float",
    },
)


def team(*given: str | None) -> list[dict[str, object]]:
    return [{"team": each} if each is not None else {} for each in given]


TABLE: list[Row] = [
    ('{team="ops"}', team("ops"), team("dev", "", None, "Ops")),
    ('team="ops"', team("ops"), team("dev", None)),
    ("team=ops", team("ops"), team("dev")),
    ("team = 'ops'", team("ops"), team("dev")),
    ('{team=""}', team("", None), team("ops")),
    ("team=", team("", None), team("ops")),
    ('{team!="ops"}', team("dev", "", None), team("ops")),
    ('{team!=""}', team("ops"), team("", None)),
    ('{team=~"ops|dev"}', team("ops", "dev"), team("op", "opsdev", "", None)),
    ('{team!~"ops|dev"}', team("op", "", None), team("ops", "dev")),
    ('{team=~"op.*"}', team("op", "ops"), team("xop", "", None)),
    ('{team=~".*ps"}', team("ps", "ops"), team("ops1", None)),
    ('{team=~".*p.*"}', team("p", "ops"), team("dev", "", None)),
    ('{team=~".+"}', team("a"), team("", None)),
    ('{team=~".*"}', team("a", "", None), []),
    ('{team!~".*"}', [], team("a", "", None)),
    ('{team!~".+"}', team("", None), team("a")),
    ('{team=~"ops|"}', team("ops", "", None), team("dev")),
    ('{team!~"ops|"}', team("dev"), team("ops", "", None)),
    ('{team=~"(a|b)-[12]"}', team("a-1", "b-2"), team("a-3", "c-1", "a-12", None)),
    ('{team=~"ops?"}', team("op", "ops"), team("opss", None)),
    ('{team=~"a.c"}', team("abc", "a.c"), team("ac", "abbc")),
    ('{team=~"a\\\\.c"}', team("a.c"), team("abc")),
    ("{team=~`a\\.c`}", team("a.c"), team("abc")),
    ('{team=~"^ops$"}', team("ops"), team("opsx")),
    ('{team=~""}', team("", None), team("a")),
    ('{team=~"a{2,3}"}', team("aa", "aaa"), team("a", "aaaa", "", None)),
    ('{team=~"[0-9]+"}', team("0", "123"), team("a1", "", None)),
    ('{team!~"[0-9]+"}', team("a1", "", None), team("0", "123")),
    ('{team=~"[0-9]*"}', team("7", "", None), team("a")),
    ('{team!~"[0-9]*"}', team("a"), team("7", "", None)),
    ('{team=~"(ab)+|c.*d"}', team("abab", "cd", "c\nd"), team("aba", "cdx", "abcd", None)),
    ('{team=~"(?i)ops"}', team("OPS", "ops"), team("dev", None)),
    ('{team=~"\\\\d{3}-x"}', team("123-x"), team("12-x", "123-x\n", None)),
    ('{team!~"op.*|dev"}', team("qa", "", None), team("ops", "dev")),
    (
        '{severity="critical", team!="ops"}',
        [{"severity": "critical"}, {"severity": "critical", "team": "dev"}],
        [{"severity": "critical", "team": "ops"}, {"team": "dev"}],
    ),
    (
        '{severity=~"warning|critical",team="ops",}',
        [{"severity": "warning", "team": "ops"}],
        [{"severity": "info", "team": "ops"}],
    ),
    ('up{team="ops"}', [{"__name__": "up", "team": "ops"}], [{"__name__": "down", "team": "ops"}, {"team": "ops"}]),
    ("up", [{"__name__": "up"}], [{"__name__": "down"}, {}]),
    ('{__name__=~"http_.*"}', [{"__name__": "http_requests"}], [{"__name__": "up"}]),
    ('{"http.requests", team="ops"}', [{"__name__": "http.requests", "team": "ops"}], [{"team": "ops"}]),
    ('{"my.label"="x"}', [{"my.label": "x"}], [{}]),
    ('{team="say \\"hi\\"\\n\\u00fc"}', team('say "hi"\nü'), team("say hi")),
    ('{team="100%_"}', team("100%_"), team("1000")),
    (["team=ops", 'severity!="info"'], [{"team": "ops"}], [{"team": "ops", "severity": "info"}, {}]),
    ([{"name": "team", "value": "ops", "isRegex": False, "isEqual": True}], team("ops"), team("dev", None)),
    ([{"name": "team", "value": "o.*", "isRegex": True, "isEqual": False}], team("dev", None), team("ops")),
    ([{"name": "team", "value": "ops", "isEqual": False}], team("dev", None), team("ops")),
    ({"matchers": [{"name": "team", "value": "ops"}]}, team("ops"), team("dev")),
]


def test_matchers_match_what_they_match_in_prometheus() -> None:
    assert judge(SPACE, "matchers", TABLE) >= 40


@pytest.mark.parametrize(
    ("matchers", "text"),
    [
        ('{team!="ops"}', "team IS NULL OR team <> 'ops'"),
        ('{team=~"a|b|c"}', "team IN ('a', 'b', 'c')"),
        ('{instance=~"db-.*"}', "startswith(instance, 'db-')"),
        ('{team!~"a|b"}', "team IS NULL OR team NOT IN ('a', 'b')"),
    ],
)
def test_expressions_that_say_no_more_than_like_become_plain_tests(matchers: str, text: str) -> None:
    assert translate(SPACE, "matchers", matchers).text == text


def test_labels_may_stand_under_a_name() -> None:
    nested = cc.Space("alerts", {"labels.team": "string"})
    assert translate(nested, "matchers", 'team="ops"', prefix="labels.").text == "`labels.team` = 'ops'"


@pytest.mark.parametrize(
    ("matchers", "place", "reason"),
    [
        ("", "line 1, column 1", "no matcher"),
        ("{}", "line 1, column 1", "no matcher"),
        ("{team}", "line 1, column 6", "expected =, !=, =~ or !~ after 'team'"),
        ('{team="ops"', "line 1, column 12", "expected , or }"),
        ('{team="ops" severity="x"}', "line 1, column 13", "expected , or }"),
        ('{tem="ops"}', "line 1, column 2", "did you mean 'team'?"),
        ('{value="5"}', "line 1, column 2", "a label is text, and value is a float"),
        ('{team="ops"}[5m]', "line 1, column 13", "a selector ends here"),
        ('sum(up{team="ops"})', "line 1, column 7", "expected"),
        ('{team="o\\q"}', "line 1, column 9", "there is no escape \\q"),
        ('{team="ops}', "line 1, column 7", "expected a value in quotes"),
        ('{team==="ops"}', "line 1, column 7", "expected a value in quotes"),
        ('{team=~"("}', "line 1, column 8", "'(' cannot be said"),
        ('{team=~"a(?=b)"}', "line 1, column 8", "look-around cannot be matched in linear time"),
        ([5], "[0]", "a matcher is a text"),
        ([{"name": "team"}], "[0]", "has name, value, isRegex and isEqual"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_place(matchers: object, place: str, reason: str) -> None:
    with pytest.raises(RuleError) as refused:
        translate(SPACE, "matchers", matchers)
    assert (refused.value.place, reason in refused.value.reason) == (place, True), str(refused.value)


@pytest.mark.parametrize(
    "beyond", ["a{2}", "(ab)*", "[^a]", "\\d+", "\\w", "a+", "(?i)a", "a(?=b)", "x^y", "a$b", "[a-z][a-z][a-z]", "(", ")", "a)"]
)
def test_an_expression_that_says_more_is_left_to_rlike(beyond: str) -> None:
    assert alternatives(beyond) is None
