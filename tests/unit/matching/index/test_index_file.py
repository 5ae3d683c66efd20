"""Indexes in files: saved whole, loaded by many processes, refused if they are not what they say."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import contentcast as cc
from contentcast.matching.index.index_file import MAGIC
from contentcast.workload import scenario
from tests.unit.matching.index.breaking import no_memory

EVENT = {"issue": "IBM", "price": 119.5, "volume": 5000}
EVERY_KIND = cc.Space("every", s="string", i="int", f="float", b="bool", t="timestamp", y="bytes")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVERY_TEXT = [
    "s = 'a'",
    "s LIKE 'a%z'",
    "NOT startswith(s, 'q')",
    "i IN (" + ", ".join(map(str, range(0, 400, 2))) + ")",
    "i IS NULL OR i > 5",
    "f <> 2.5",
    "b",
    "t >= TIMESTAMP '2026-03-01'",
    "y = X'00FF'",
    "y > X'00'",
    "s = 'a' AND i = 4 OR f < 1 AND NOT b",
    "TRUE",
    "FALSE",
    "i > -9223372036854775808",
]
EVERY_EVENT = [
    {"s": "a", "i": 4, "f": 2.5, "b": True, "t": NOON, "y": b"\x00\xff"},
    {"s": "abcz", "i": -(2**63), "f": 0.5, "b": False, "y": b""},
    {},
]


def test_a_file_holds_every_kind_and_operator(tmp_path: Path) -> None:
    index = cc.MatchIndex(EVERY_KIND)
    index.add_many(range(len(EVERY_TEXT)), EVERY_TEXT)
    index.save(tmp_path / "index")
    loaded = cc.MatchIndex.load(tmp_path / "index")
    assert loaded.space == EVERY_KIND
    for event in EVERY_EVENT:
        expected = [at for at, text in enumerate(EVERY_TEXT) if cc.parse_predicate(EVERY_KIND, text).accepts(event)]
        assert index.match(event) == expected
        assert loaded.match(event) == expected
    loaded.remove(0)  # the first change copies the file into memory
    loaded.add(100, "s = 'a'")
    assert loaded.match(EVERY_EVENT[0]) == [*index.match(EVERY_EVENT[0])[1:], 100]
    assert cc.MatchIndex.load(tmp_path / "index").match(EVERY_EVENT[0]) == index.match(EVERY_EVENT[0])


def matches_of(path: Path) -> int:
    return cc.MatchIndex.load(path).match_batch(scenario("market", seed=2).events(500)).num_rows


def test_a_file_is_shared_between_processes(tmp_path: Path) -> None:
    drawn = scenario("market", seed=2)
    index = cc.MatchIndex(drawn.space)
    index.add_many(np.arange(5000), drawn.subscriptions(5000).column("predicate"))
    index.save(tmp_path / "index")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.map(matches_of, [tmp_path / "index"] * 2)
    assert counts == [index.match_batch(drawn.events(500)).num_rows] * 2


def test_files_that_are_not_ours_cut_off_or_damaged_are_refused(index: cc.MatchIndex, tmp_path: Path) -> None:
    path = tmp_path / "index"
    index.save(path)
    whole = path.read_bytes()
    for content, message in (
        (b"PK\x03\x04 something else", "is not an index"),
        (b"", "is not an index"),
        (whole[:-1], "is cut off"),
        (whole[:40], "is damaged"),
        (whole[:60] + b"\xff" + whole[61:], "is damaged"),
        (MAGIC[:-2] + b"0\n" + whole[len(MAGIC) :], "another version"),
    ):
        path.write_bytes(content)
        with pytest.raises(cc.ContentcastError, match=message):
            cc.MatchIndex.load(path)
    with pytest.raises(cc.ContentcastError, match="there is no index file"):
        cc.MatchIndex.load(tmp_path / "nothing")


def test_a_loaded_index_that_could_not_become_memory_of_its_own_can_be_changed_later(
    index: cc.MatchIndex, tmp_path: Path
) -> None:
    index.save(tmp_path / "index")
    more = cc.parse_predicate(index.space, "volume > 4000")
    for change, after in ((lambda each: each.add(9, more), [1, 3, 4, 9]), (lambda each: each.remove(1), [3, 4])):
        loaded = cc.MatchIndex.load(tmp_path / "index")
        for number in count(1):
            with no_memory(number) as broken, suppress(MemoryError):
                change(loaded)
            if not broken.happened:
                break
            assert loaded.match(EVENT) in (index.match(EVENT), after), number
            if loaded.match(EVENT) == after:  # made in spite of it
                loaded = cc.MatchIndex.load(tmp_path / "index")
        assert number > 10
        assert loaded.match(EVENT) == after


def test_saving_leaves_nothing_half_written(index: cc.MatchIndex, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        index.save(tmp_path / "no such folder" / "index")
    index.save(tmp_path / "index")
    assert os.listdir(tmp_path) == ["index"]


def small_index() -> cc.MatchIndex:
    index = cc.MatchIndex(EVERY_KIND)
    index.add_many(range(len(EVERY_TEXT)), EVERY_TEXT)
    index.add_many(range(100, 400), [f"i = {at % 7} AND f BETWEEN {at} AND {at + 2}" for at in range(300)])
    return index


@pytest.mark.parametrize("check", ["load", "first use"])
def test_no_damage_goes_unnoticed(check: Any, tmp_path: Path) -> None:
    """A bit, a byte, a stretch or an end: the file is refused by an error of ours, or what it says is what was saved."""
    index, path = small_index(), tmp_path / "index"
    index.save(path)
    whole, expected = path.read_bytes(), [index.match(event) for event in EVERY_EVENT]
    dice, refused = Random(11), 0
    for _ in range(300):
        content, at = bytearray(whole), dice.randrange(len(whole))
        match dice.choice(["bit", "byte", "stretch", "cut", "longer", "zeros"]):
            case "bit":
                content[at] ^= 1 << dice.randrange(8)
            case "byte":
                content[dice.randrange(200)] = dice.randrange(256)
            case "stretch":
                content[at : at + 64] = dice.randbytes(len(content[at : at + 64]))
            case "cut":
                del content[at:]
            case "longer":
                content += dice.randbytes(64)
            case "zeros":
                content[at : at + 4096] = bytes(len(content[at : at + 4096]))
        path.write_bytes(content)
        try:
            loaded = cc.MatchIndex.load(path, check=check)
            found = [loaded.match(event) for event in EVERY_EVENT]
        except cc.ContentcastError:
            refused += 1
        else:
            assert found == expected
    assert refused > 200


def test_a_length_beyond_the_file_asks_for_no_memory(tmp_path: Path) -> None:
    index, path = small_index(), tmp_path / "index"
    index.save(path)
    whole = path.read_bytes()
    path.write_bytes(MAGIC + (2**60).to_bytes(8, "little") + whole[len(MAGIC) + 8 :])
    with pytest.raises(cc.ContentcastError, match="is damaged or cut off"):
        cc.MatchIndex.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are POSIX's")
def test_a_pipe_is_no_index_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(cc.ContentcastError, match="is no file"):
        cc.MatchIndex.load(tmp_path / "pipe")
    with pytest.raises(cc.ContentcastError, match="is no file"):
        cc.MatchIndex.load(tmp_path)


def test_a_file_that_is_checked_at_first_use_is_refused_then_and_again(tmp_path: Path) -> None:
    index, path = small_index(), tmp_path / "index"
    index.save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2_000] = bytes(b"\x01" * 2_000)
    path.write_bytes(content)
    with pytest.raises(cc.ContentcastError, match="is damaged"):
        cc.MatchIndex.load(path)
    loaded = cc.MatchIndex.load(path, check="first use")
    for use in (
        lambda: loaded.match(EVERY_EVENT[0]),
        lambda: loaded.remove(1),
        lambda: loaded.add(999, "b"),
        lambda: list(loaded),
    ):
        with pytest.raises(cc.ContentcastError, match="is damaged"):
            use()
