"""contentcast on Spark: DataFrames of events against DataFrames of subscriptions, in batch and in streams.

Rule: pyspark is imported under this package and nowhere else; `import contentcast` works without it.
"""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as missing:
    raise ImportError("contentcast.spark needs PySpark, which is not installed: pip install 'contentcast[spark]'") from missing

from contentcast.spark.java import JavaNotFound
from contentcast.spark.session import session

__all__ = ["JavaNotFound", "session"]
