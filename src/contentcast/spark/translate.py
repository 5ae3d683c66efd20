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
from contentcast.rules import RuleError, translate_many
from contentcast.rules.sources import translator
from contentcast.spark.arrow_map import Batches, map_arrow
from contentcast.spark.subscriptions.tables import TEXT

REASON: Final = "reason"
_NO_RULE: Final = RuleError.in_json("", "there is no rule (null)")


def translate(rules: DataFrame, space: Space, source: str, *, rule: str = "rule", **options: Any) -> DataFrame:
    """The rows of `rules` with two columns more: `predicate`, and `reason` for what cannot be said.

    `rule` names the column with the rules' text, and `source` where they come from (`contentcast.rules.SOURCES`). The options
    are those of `from_topic`, `from_headers` and `from_matchers`.
    """
    translator(source)
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
            rules = [_NO_RULE if each is None else each for each in batch.column(at).to_pylist()]
            found = translate_many(space, source, rules, **options)
            texts = pa.array([each if isinstance(each, str) else None for each in found], pa.string())
            reasons = pa.array([None if isinstance(each, str) else _plain(str(each)) for each in found], pa.string())
            yield pa.RecordBatch.from_arrays([*batch.columns, texts, reasons], [*batch.schema.names, TEXT, REASON])

    return map_arrow(rules, translated, schema)


def _plain(text: str) -> str:
    """What a text column can hold: a reason may quote what is no text."""
    return text.encode("utf-8", "backslashreplace").decode()
