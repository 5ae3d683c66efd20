"""A user's own events and rules as a workload that the simulation plays: from files, at the brokers that they name.

    own = own_workload(["orders.jsonl"], "rules.csv", space, network, publisher="site")
    own.scenario, own.events, own.subscriptions          as `simulation.trial` takes them
    own.told                                              what was left out, and where things were put, in sentences

Rule: rows keep the order of their files. What says no broker is put at the brokers in turn, and that is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.files.one_array import one_array
from contentcast.files.open_events import format_of_files, open_events
from contentcast.files.subscription_table import ID, REASON, TEXT, FileTable, check_table
from contentcast.language import parse_many
from contentcast.model.errors import ContentcastError, counted, nearest
from contentcast.model.events.event_files import STDIN
from contentcast.model.events.intake import How
from contentcast.model.space import Space
from contentcast.network.topology import Topology
from contentcast.workload.contract import Interests, Scenario

PUBLISHER, SUBSCRIBER, BROKER = "publisher", "subscriber", "broker"
NAME: Final = "own"


@dataclass(frozen=True)
class OwnWorkload:
    scenario: Scenario
    events: int
    subscriptions: int
    told: list[str]


@dataclass(frozen=True)
class _Files:
    """The recipe of a scenario that has only the rows of the files."""

    space: Space
    brokers: Sequence[str]
    records: pa.Table
    entered: pa.Array
    wanted: pa.Table

    def events(self, rows: range) -> list[Any]:
        piece = self.records.slice(rows.start, len(rows)).combine_chunks()
        return [one_array(piece[name]) for name in self.space.names]

    def interests(self, rows: range) -> Interests:
        piece = self.wanted.slice(rows.start, len(rows)).combine_chunks()
        return Interests(one_array(piece[TEXT]), one_array(piece[SUBSCRIBER]), one_array(piece[BROKER]))

    def publishers(self, rows: range) -> Any:
        return self.entered.slice(rows.start, len(rows))


def own_workload(
    events: Sequence[str],
    rules: str | Path,
    space: Space,
    network: Topology,
    *,
    publisher: str | None = None,
    how: How | None = None,
) -> OwnWorkload:
    """`publisher`: the events' column with the broker where each enters; if not told, `publisher` where there is one."""
    told: list[str] = []
    records, entered = _events(events, space, network, publisher, how, told)
    if not records.num_rows:
        raise ContentcastError("; ".join(["there is no event to simulate", *told]))
    wanted = _rules(Path(rules), space, network, told)
    if not wanted.num_rows:
        raise ContentcastError("; ".join(["there is no rule to simulate", *told]))
    recipe = _Files(space, network.brokers, records, entered, wanted)
    return OwnWorkload(Scenario(NAME, 0, {}, recipe), records.num_rows, wanted.num_rows, told)


def _events(
    given: Sequence[str], space: Space, network: Topology, publisher: str | None, how: How | None, told: list[str]
) -> tuple[pa.Table, pa.Array]:
    beside = publisher or PUBLISHER
    # JSON lines have only what the space has, unless they are told of the column.
    is_json = STDIN in given or format_of_files(given) == "jsonl"
    wide = space if beside in space or not is_json else Space(space.name, {**dict(space.items()), beside: "string"})
    opened = open_events(given, wide, how=how)
    read = [each for each, _ in opened.pieces()]
    if bad := [each for piece in read for each in piece.bad]:
        told.append(f"{counted(len(bad), 'record')} left out: no events of {space.name}; the first: {bad[0].reason}")
    table = pa.Table.from_batches([each.events for each in read], schema=opened.schema)
    if not table.num_rows:
        told.append(f"the broker where an event enters is taken from {beside!r} (--publisher COLUMN)")
        return table, _in_turn(network, 0)
    column = table[beside] if beside in table.column_names else None
    if publisher is not None and (column is None or column.null_count == len(column)):
        others = [name for name in table.column_names if name != publisher]
        raise ContentcastError(f"no event has a value in the column {publisher!r}{nearest(publisher, others)}")
    if column is None or column.null_count == len(column):
        told.append("events enter at all brokers in turn, since they say no publisher (--publisher COLUMN)")
        return table, _in_turn(network, table.num_rows)
    if column.null_count:
        told.append(f"{counted(column.null_count, 'event')} left out: they say no publisher in the column {beside!r}")
        said = column.is_valid()
        table, column = table.filter(said), column.filter(said)
    keep = _known(column, network)
    if not pc.all(keep).as_py():
        left = table.num_rows - pc.sum(keep).as_py()
        told.append(f"{counted(left, 'event')} left out: the network has no broker {_first_unknown(column, keep)}")
        table, column = table.filter(keep), column.filter(keep)
    return table, one_array(column.cast(pa.string()))


def _rules(path: Path, space: Space, network: Topology, told: list[str]) -> pa.Table:
    checked = check_table(FileTable(path).read())
    parsed = parse_many(space, checked.texts, on_error="reject")
    errors = dict(parsed.refused)
    refused = checked.refuse(errors)
    if refused.num_rows:
        first = refused.slice(0, 1).to_pylist()[0]
        told.append(
            f"{counted(refused.num_rows, 'rule')} refused; the first is rule {first[ID]}: {first[REASON].splitlines()[0]}"
        )
    table = checked.columns.append_column(TEXT, checked.texts)
    table = table.take(pa.array(np.setdiff1d(np.arange(len(table)), np.array(sorted(errors), np.int64))))
    if BROKER not in table.column_names:
        told.append("subscribers are at all brokers in turn, since the rules have no column broker")
        table = table.append_column(BROKER, _in_turn(network, table.num_rows))
    keep = _known(table[BROKER], network)
    if not pc.all(keep).as_py():
        left = table.num_rows - pc.sum(keep).as_py()
        told.append(f"{counted(left, 'rule')} left out: the network has no broker {_first_unknown(table[BROKER], keep)}")
        table = table.filter(keep)
    if SUBSCRIBER not in table.column_names:
        named = pc.binary_join_element_wise(pa.scalar("subscriber"), table[ID].cast(pa.string()), "-")
        table = table.append_column(SUBSCRIBER, named)
    return table.select([ID, TEXT, SUBSCRIBER, BROKER])


def _known(brokers: pa.ChunkedArray, network: Topology) -> pa.ChunkedArray:
    return pc.is_in(brokers.cast(pa.string()), value_set=pa.array(network.brokers, pa.string()))


def _first_unknown(brokers: pa.ChunkedArray, keep: pa.ChunkedArray) -> str:
    return repr(brokers.filter(pc.invert(keep))[0].as_py())


def _in_turn(network: Topology, rows: int) -> pa.Array:
    return pa.array(network.brokers, pa.string()).take(pa.array(np.arange(rows) % len(network.brokers)))
