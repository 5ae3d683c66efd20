"""Subscription summaries on the wire: how a summary becomes bytes (`encoding`), and the family's messages (`messages`)."""

from contentcast.wire.summaries.encoding import (
    PlainDelta,
    PlainRows,
    PlainRowsDelta,
    PlainSummary,
    decode_delta,
    decode_summary,
    encode_delta,
    encode_summary,
)
from contentcast.wire.summaries.messages import FORMS, Arrived, Handed, Lacking, MergedBroker, Propagated

__all__ = [
    "FORMS",
    "Arrived",
    "Handed",
    "Lacking",
    "MergedBroker",
    "PlainDelta",
    "PlainRows",
    "PlainRowsDelta",
    "PlainSummary",
    "Propagated",
    "decode_delta",
    "decode_summary",
    "encode_delta",
    "encode_summary",
]
