"""One version of prepared subscriptions, written as files: an index for each shard, the columns, what was refused, the shards.

Rule: each file appears whole under its name, the description last.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa

import contentcast as cc
from contentcast.language import parse_many
from contentcast.model.errors import ContentcastError
from contentcast.model.space import Space
from contentcast.spark.subscriptions.shards import ONE, Shards, split, take_rows
from contentcast.spark.subscriptions.tables import ID, REFUSED, Checked

IDS_ALONE: Final = pa.schema([pa.field(ID, pa.int64())])


class About(msgspec.Struct, frozen=True):
    """`by_row`: the ids in the index are rows of the columns; else there are no columns and they are the subscriptions' own."""

    shards: Shards = ONE
    by_row: bool = True


def build(space: Space, shards: Shards, checked: Checked, path: Callable[[str], Path]) -> int:
    """The files of a table; returns how many of its rows were refused."""
    errors: dict[int, ContentcastError] = {}
    if shards == ONE:
        table = parse_many(space, checked.texts, on_error="reject")
        errors = dict(table.refused)
        index = cc.MatchIndex(space)
        index.add_many(range(len(table)), table)
        index.save(path("index-0"))
    else:
        for shard, (rows, refused) in enumerate(split(space, checked.texts, shards)):
            errors |= refused
            index = cc.MatchIndex(space)
            index.add_many(rows, take_rows(checked.texts, rows))
            index.save(path(f"index-{shard}"))
    return file_columns(shards, checked, errors, path)


def file_columns(shards: Shards, checked: Checked, errors: dict[int, ContentcastError], path: Callable[[str], Path]) -> int:
    """All files but the indexes, the description last; returns how many rows were refused."""
    refused_rows = checked.refuse(errors)
    write_arrow(checked.columns, path("columns"))
    write_arrow(refused_rows, path("refused"))
    _describe(path("about"), About(shards))
    return int(refused_rows.num_rows)


def file_index(index: cc.MatchIndex, path: Callable[[str], Path]) -> None:
    """The files of an index that somebody else built; it has ids and no columns."""
    index.save(path("index-0"))
    write_arrow(REFUSED.empty_table(), path("refused"))
    _describe(path("about"), About(by_row=False))


def read_about(path: Path) -> About:
    return msgspec.json.decode(path.read_bytes(), type=About)


def _describe(path: Path, about: About) -> None:
    replace_file(path, lambda part: part.write_bytes(msgspec.json.encode(about)))


def write_arrow(table: pa.Table, path: Path) -> None:
    def write(part: Path) -> None:
        with pa.ipc.new_file(part, table.schema) as file:
            file.write_table(table)

    replace_file(path, write)


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}-{uuid4().hex[:8]}")  # processes of several hosts may have one number
    write(part)
    part.replace(path)
