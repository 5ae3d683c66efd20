"""Columns to codes: every text and key gets the code it was given, and no other one."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa

from contentcast.matching.index.values.hash_tables import KeyTable, TextTable


def codes_of(table: TextTable, column: pa.Array) -> list[int]:
    word = np.zeros(len(column), np.int64)
    table.look_up(column, 2, word, 3)
    assert not (word & 7).any()
    return (word >> 3).tolist()


def test_texts_of_all_lengths_in_slices_with_nulls() -> None:
    dice = Random(2)
    texts = list(dict.fromkeys("".join(dice.choices("ab\0é", k=length)) for length in range(40) for _ in range(6)))
    table = TextTable()
    known: dict[str | None, int] = {None: 0}
    for begin in range(0, len(texts), 17):  # it grows
        table.add(texts[begin : begin + 17])
        known.update({text: 2 + begin + at for at, text in enumerate(texts[begin : begin + 17])})
        asked = [*dice.choices([*texts, None, "other", "abababab", "ababababa"], k=60), texts[begin]]
        expected = [known.get(text, 1) for text in asked]
        column = pa.array(asked)
        assert codes_of(table, column) == expected
        assert codes_of(table, column.slice(7, 30)) == expected[7:37]
        assert codes_of(table, column.slice(60)) == expected[60:]


def test_texts_that_end_with_their_buffer() -> None:
    table = TextTable()
    table.add(["IBM", ""])
    for text in ("IBM", "", "IB", "IBMX"):
        raw = text.encode()
        offsets = pa.py_buffer(np.array([0, len(raw)], np.int32).tobytes())
        column = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(raw))  # not one byte of padding
        assert codes_of(table, column) == [{"IBM": 2, "": 3}.get(text, 1)]
    assert codes_of(table, pa.nulls(3, pa.string())) == [0, 0, 0]
    assert codes_of(table, pa.array([], pa.string())) == []


def test_keys() -> None:
    dice = Random(3)
    keys = list(dict.fromkeys(dice.randint(-(2**63), 2**63 - 1) >> dice.randint(0, 60) for _ in range(500)))
    table = KeyTable()
    for begin in range(0, len(keys), 60):
        table.add(np.array(keys[begin : begin + 60]), 2 + begin)
    asked = [*keys, 2**62 + 1, None]
    column = pa.array(asked, pa.int64())
    word = np.zeros(len(asked), np.int64)
    table.look_up(np.array([each or 0 for each in asked]), column, word, 0)
    assert word.tolist() == [*range(2, 2 + len(keys)), 1, 0]
