"""Subscription summaries (Triantafillou & Economides 2004): AACS, SACS, Algorithm 1, merging, maintenance and differences."""

from contentcast.matching.summaries.algorithm1 import Examined, examine
from contentcast.matching.summaries.columns import Columns, Rows
from contentcast.matching.summaries.delta import Delta, RowsDelta, difference, patch
from contentcast.matching.summaries.ids import IdLayout, PartedId
from contentcast.matching.summaries.precision import EXACT, PAPER, Precision
from contentcast.matching.summaries.sizes import AttributeSize, Sizes, aacs_bytes, sacs_bytes
from contentcast.matching.summaries.summary import BrokerMatches, Matches, Summary

__all__ = [
    "EXACT",
    "PAPER",
    "AttributeSize",
    "BrokerMatches",
    "Columns",
    "Delta",
    "Examined",
    "IdLayout",
    "Matches",
    "PartedId",
    "Precision",
    "Rows",
    "RowsDelta",
    "Sizes",
    "Summary",
    "aacs_bytes",
    "difference",
    "examine",
    "patch",
    "sacs_bytes",
]
