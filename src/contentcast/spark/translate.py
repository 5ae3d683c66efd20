"""A column of other people's rules as a column of our predicates, on Spark.

    rules = spark.read.json("rules.jsonl")                     # name, rule
    translated = translate(rules, space, "eventbridge")        # name, rule, predicate, reason
    match(events, translated.where("predicate IS NOT NULL"), space)

Rule: a row has either a predicate or the reason why there is none, and one that is refused stops no other.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.space import Space
from contentcast.rules import SOURCES, RuleError
from contentcast.rules import translate as translate_rule
from contentcast.spark.arrow_map import Batches, map_arrow
from contentcast.spark.subscriptions.tables import TEXT

REASON: Final = "reason"


def translate(rules: DataFrame, space: Space, source: str, *, rule: str = "rule", **options: Any) -> DataFrame:
    """The rows of `rules` with two columns more: `predicate`, and `reason` for what cannot be said.

    `rule` names the column with the rules' text, and `source` where they come from (`contentcast.rules.SOURCES`). The options
    are those of `from_topic`, `from_headers` and `from_matchers`.
    """
    if source not in SOURCES:
        raise ContentcastError(f"there are no rules of {source!r}{nearest(str(source), SOURCES, 'they come from')}")
    if rule not in rules.columns:
        raise ContentcastError(f"the rules have no column {rule!r}{nearest(rule, rules.columns)}; name it with rule=")
    kind = rules.schema[rule].dataType
    if not isinstance(kind, StringType):
        raise ContentcastError(f"rules are text, and the column {rule} is {kind.simpleString()}; write it as text with to_json")
    for name in (TEXT, REASON):
        if name in rules.columns:
            raise ContentcastError(f"the rules have a column {name} already; rename or drop it")
    schema = StructType([*rules.schema.fields, StructField(TEXT, StringType()), StructField(REASON, StringType())])
    at = rules.columns.index(rule)

    def translated(batches: Batches) -> Batches:
        for batch in batches:
            found = [_translated(space, source, each, options) for each in batch.column(at).to_pylist()]
            texts = pa.array([text for text, _ in found], pa.string())
            reasons = pa.array([reason for _, reason in found], pa.string())
            yield pa.RecordBatch.from_arrays([*batch.columns, texts, reasons], [*batch.schema.names, TEXT, REASON])

    return map_arrow(rules, translated, schema)


def _translated(space: Space, source: str, rule: str | None, options: dict[str, Any]) -> tuple[str | None, str | None]:
    if rule is None:
        return None, "there is no rule (null)"
    try:
        return translate_rule(space, source, rule, **options).text, None
    except RuleError as reason:
        return None, str(reason).encode("utf-8", "backslashreplace").decode()
