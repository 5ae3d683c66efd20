"""A column of other people's rules on Spark: the texts of one by one, refusals beside them, and `match` takes the rest."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import contentcast as cc
from contentcast.model import ContentcastError
from contentcast.rules import translate as translate_rule
from contentcast.spark import match, translate

SPACE = cc.Space("orders", {"source": "string", "state": "string", "count": "int", "topic": "string"})
RULES = [
    (1, "desk-1", json.dumps({"source": ["shop"]})),
    (2, "desk-2", json.dumps({"state": [5]})),
    (3, "desk-3", json.dumps({"count": [{"numeric": [">", 5]}], "state": [{"anything-but": "closed"}]})),
    (4, "desk-4", None),
]


def test_a_column_of_patterns_is_translated_and_matched(spark: SparkSession) -> None:
    rules = spark.createDataFrame(RULES, "subscription INT, subscriber STRING, rule STRING")
    translated = translate(rules, SPACE, "eventbridge")
    assert translated.columns == ["subscription", "subscriber", "rule", "predicate", "reason"]
    found = {row["subscription"]: row for row in translated.collect()}
    for number in (1, 3):
        assert found[number]["predicate"] == translate_rule(SPACE, "eventbridge", RULES[number - 1][2]).text
        assert found[number]["reason"] is None
    assert found[2]["predicate"] is None
    assert found[2]["reason"].startswith("state[0]: state is a string")
    assert found[4]["reason"] == "the whole rule: there is no rule (null)"

    events = spark.createDataFrame(
        [("shop", "open", 7), ("web", "closed", 9), ("web", "open", 6)], "source STRING, state STRING, count BIGINT"
    )
    good = translated.where("predicate IS NOT NULL").select("subscription", "predicate")
    pairs = match(events, good, SPACE).select("source", "state", "subscription").collect()
    assert sorted(map(tuple, pairs)) == [("shop", "open", 1), ("shop", "open", 3), ("web", "open", 3)]

    # Spark's own reading of the text agrees.
    said = events.withColumn("third", F.expr(found[3]["predicate"])).where("third").select("source").collect()
    assert sorted(row["source"] for row in said) == ["shop", "web"]


def test_options_and_the_name_of_the_column(spark: SparkSession) -> None:
    rules = spark.createDataFrame([("a/#",), ("a/+b",)], "`mqtt.filter` STRING")
    found = translate(rules, SPACE, "topic", rule="mqtt.filter", attribute="topic").collect()
    assert [row["predicate"] for row in found] == ["topic = 'a' OR startswith(topic, 'a/')", None]


@pytest.mark.parametrize(
    ("schema", "source", "reason"),
    [
        ("rule STRING", "eventbrige", "did you mean 'eventbridge'?"),
        ("rul STRING", "jms", "did you mean 'rul'?"),
        ("rule INT", "jms", "rules are text, and the column rule is int"),
        ("rule STRING, predicate STRING", "jms", "a column predicate already"),
    ],
)
def test_what_is_wrong_with_the_table_is_said_at_once(spark: SparkSession, schema: str, source: str, reason: str) -> None:
    with pytest.raises(ContentcastError) as refused:
        translate(spark.createDataFrame([], schema), SPACE, source)
    assert reason in str(refused.value)
