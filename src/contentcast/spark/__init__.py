"""contentcast on Spark: DataFrames of events against DataFrames of subscriptions, in batch and in streams.

Rule: pyspark is imported under this package and nowhere else; `import contentcast` works without it.
"""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as missing:
    raise ImportError(
        "contentcast.spark needs PySpark, which is not installed: pip install 'contentcast[spark]'", name="pyspark"
    ) from missing

from contentcast.spark.delivery.deliver import deliver, read_deliveries
from contentcast.spark.format.registration import register
from contentcast.spark.ingest import Ingested, ingest, read_events
from contentcast.spark.java import JavaNotFound
from contentcast.spark.learn import Learnt, learn
from contentcast.spark.match import match, refused
from contentcast.spark.outside.addresses import LakeTable, Topic
from contentcast.spark.outside.kafka import TopicTable, deliver_to_topic, read_topic
from contentcast.spark.outside.lake import LakeRules, deliver_to_table, read_lake
from contentcast.spark.route import route, route_totals
from contentcast.spark.route_facts import Totals
from contentcast.spark.session import session
from contentcast.spark.spread import SpreadError, grid, spread
from contentcast.spark.subscriptions.indexes import Prepared, prepare
from contentcast.spark.translate import translate

__all__ = [
    "Ingested",
    "JavaNotFound",
    "LakeRules",
    "LakeTable",
    "Learnt",
    "Prepared",
    "SpreadError",
    "Topic",
    "TopicTable",
    "Totals",
    "deliver",
    "deliver_to_table",
    "deliver_to_topic",
    "grid",
    "ingest",
    "learn",
    "match",
    "prepare",
    "read_deliveries",
    "read_events",
    "read_lake",
    "read_topic",
    "refused",
    "register",
    "route",
    "route_totals",
    "session",
    "spread",
    "translate",
]
