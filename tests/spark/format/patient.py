"""Streams whose source is in Python, on a machine that is busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException

NOT_UP_YET = "Python worker failed to connect back"


def ended(start: Callable[[], Any]) -> Any:
    """The stream that has come to its end.

    Spark gives the Python process of a stream's source ten seconds to come up, and no setting changes that. On a busy machine
    it may take longer; then the stream is started again, and goes on where it was.
    """
    while True:
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as failure:
            if NOT_UP_YET not in str(failure):
                raise
        else:
            return query
