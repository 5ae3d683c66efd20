"""Matches as a folder of Parquet files, laid out as `spark.deliver` lays out a batch, so that `read_deliveries` takes both.

    matches/broker=b1/part-00000.parquet      a folder for each broker where the rules have that column, else none
    matches/_contentcast/schema.json          the columns, in Spark's words

Rows are sorted by subscriber within a file. A file is written when enough rows have come, so that no file stays open however
many brokers there are.
Rule: nothing is told of a row before `close`; the folder is one that appears as a whole (`appearing`).
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contentcast.files.subscription_table import plain_columns
from contentcast.model.errors import ContentcastError

BROKER, SUBSCRIBER = "broker", "subscriber"
HELD_BYTES: Final = 128 * 2**20
NOWHERE: Final = "__HIVE_DEFAULT_PARTITION__"
"""How Hive names the folder of rows without a broker."""


class DeliveryFolder:
    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self._held, self._bytes, self._parts = folder, list[pa.RecordBatch](), 0, 0
        self._schema = plain_columns(schema.empty_table()).schema
        told = spark_description(self._schema)  # a column that Spark does not have is told before the work
        (folder / "_contentcast").mkdir(parents=True)
        (folder / "_contentcast" / "schema.json").write_text(json.dumps(told))

    def write(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._held.append(rows)
            self._bytes += rows.nbytes
        if self._bytes >= HELD_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        table = plain_columns(pa.Table.from_batches(self._held))
        self._held, self._bytes = [], 0
        name = f"part-{self._parts:05d}.parquet"
        self._parts += 1
        by = [(each, "ascending") for each in (BROKER, SUBSCRIBER) if each in table.column_names]
        if BROKER in table.column_names:
            table = table.set_column(table.column_names.index(BROKER), BROKER, named_brokers(table[BROKER]))
        table = table.take(pc.sort_indices(table, sort_keys=by)) if by else table
        if BROKER not in table.column_names:
            pq.write_table(table, self._folder / name)
            return
        codes = table[BROKER].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for start, end in pairwise(starts):
            place = self._folder / broker_folder(table[BROKER][start].as_py())
            place.mkdir(exist_ok=True)
            pq.write_table(table.slice(start, end - start).drop_columns([BROKER]), place / name)


def broker_folder(broker: Any) -> str:
    """The folder of a broker's rows; those without a broker have one, too."""
    return f"{BROKER}={quote(str(broker), safe='') if broker not in (None, '') else NOWHERE}"


def named_brokers(column: Any) -> Any:
    """The column with null for an empty text: as a folder's name the two are the same, and no two files may share one."""
    return pc.if_else(pc.equal(column, ""), None, column) if pa.types.is_string(column.type) else column


# --- the columns in Spark's words

_NAMES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.null(): "void",
}


def spark_description(schema: pa.Schema) -> dict[str, Any]:
    """The JSON of a StructType."""
    return {"type": "struct", "fields": [_field(each, f"the column {each.name}") for each in schema]}


def _field(field: pa.Field, where: str) -> dict[str, Any]:
    return {"name": field.name, "type": _type(field.type, where), "nullable": True, "metadata": {}}


def _type(type_: pa.DataType, where: str) -> Any:
    if type_ in _NAMES:
        return _NAMES[type_]
    if pa.types.is_timestamp(type_):
        return "timestamp"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return {"type": "array", "elementType": _type(type_.value_type, where), "containsNull": True}
    if pa.types.is_struct(type_):
        return {"type": "struct", "fields": [_field(each, where) for each in type_]}
    if pa.types.is_map(type_):
        key, value = _type(type_.key_type, where), _type(type_.item_type, where)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    raise ContentcastError(f"{where} is {type_}, which Spark does not have; cast or drop it")
