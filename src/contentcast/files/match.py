"""Files of events against a table of rules in this process: the pairs that Spark finds, a piece at a time.

    symbol  price  order        subscription  subscriber  broker
    IBM     119.5  1001    and  7             desk-7      b1          -> one row with all of these columns

Rule: which events are bad, which rules are refused and which columns come out is decided by the same code as on Spark
(`model.events.records`, `subscription_table`); here is only who calls it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.files.one_array import one_array
from contentcast.files.open_events import OpenEvents
from contentcast.files.subscription_table import ID, check_table, has_clash
from contentcast.language import parse_many
from contentcast.match_index import MatchIndex
from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.intake import OnError
from contentcast.model.events.records import Bad, first_complaint
from contentcast.model.space import Space

MOST_PAIRS: Final = 1 << 18
"""In one piece of the result."""


@dataclass
class Rules:
    """A table of rules that can be matched: `columns` go out with the events, `refused` take no part."""

    index: MatchIndex
    columns: pa.Table
    texts: pa.ChunkedArray
    refused: pa.Table
    kept: npt.NDArray[np.int64]
    """The rows of the columns whose predicate could be read."""

    @classmethod
    def of(cls, table: pa.Table, space: Space) -> Rules:
        checked = check_table(table)
        parsed = parse_many(space, checked.texts, on_error="reject")
        errors = dict(parsed.refused)
        index = MatchIndex(space)
        index.add_many(range(len(parsed)), parsed)
        kept = np.setdiff1d(np.arange(len(parsed)), np.array(sorted(errors), np.int64))
        return cls(index, checked.columns, checked.texts, checked.refuse(errors), kept)

    def __len__(self) -> int:
        return len(self.kept)


@dataclass
class Tally:
    """What has been seen so far; `matches[row]` belongs to that row of the rules' columns."""

    matches: npt.NDArray[np.int64]
    events: int = 0
    """Records, the bad ones included."""
    bad: int = 0
    pairs: int = 0
    bytes: int = 0


@dataclass
class Matching:
    """One pass over the events. `tally` grows while `pieces` is read, `bad` and `left_out` have what nobody has taken yet."""

    events: OpenEvents
    rules: Rules
    on_error: OnError = "reject"
    tally: Tally = field(init=False)
    bad: list[Bad] = field(default_factory=list)
    left_out: list[Bad] = field(default_factory=list)

    def __post_init__(self) -> None:
        clashes = has_clash(self.events.schema.names, self.rules.columns.column_names, case_sensitive=False)
        if clashes:
            raise ContentcastError(f"events and subscriptions both have the column {clashes[0]}; rename one of them")
        # A take from one array is several times as fast as one from chunks.
        self._columns = [one_array(each) for each in self.rules.columns.columns]
        self.tally = Tally(np.zeros(self.rules.columns.num_rows, np.int64))

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.events.schema, *self.rules.columns.schema])

    def pieces(self) -> Iterator[pa.RecordBatch]:
        """Every event with every rule that it satisfies; a piece that holds no pair still tells that events were read."""
        for read, taken in self.events.pieces():
            if read.bad and self.on_error == "raise":
                raise EventError(first_complaint(read.bad))
            self.tally.events += read.events.num_rows + len(read.bad)
            self.tally.bad += len(read.bad)
            self.tally.bytes += taken
            self.bad += read.bad
            self.left_out += read.left_out
            if read.events.num_rows:
                yield from self._pairs(read.events)

    def take_bad(self) -> list[Bad]:
        taken, self.bad = self.bad, []
        return taken

    def take_left_out(self) -> list[Bad]:
        """Attributes that `on_error="absent"` left out of events, which are matched all the same."""
        taken, self.left_out = self.left_out, []
        return taken

    def _pairs(self, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for found in self.rules.index.match_stream(events, most_pairs=MOST_PAIRS, unknown="ignore"):
            # The engines find an event's rules in an order of their own; here they ascend, so that two runs print the same.
            keys = np.sort(found["event"].to_numpy() << 32 | found["subscription"].to_numpy())
            rows, rules = pa.array(keys >> 32), pa.array(keys & 0xFFFFFFFF)
            self.tally.pairs += found.num_rows
            self.tally.matches += np.bincount(rules.to_numpy(), minlength=len(self.tally.matches))
            mine = [column.take(rows) for column in events.columns]
            theirs = [column.take(rules) for column in self._columns]
            yield pa.RecordBatch.from_arrays([*mine, *theirs], schema=self.schema)

    def counts(self) -> pa.Table:
        """How many events each rule got, those that got none included."""
        kept = pa.array(self.rules.kept)
        return pa.table({ID: self.rules.columns[ID].take(kept), "matches": pa.array(self.tally.matches[self.rules.kept])})
