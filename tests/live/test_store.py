"""The log of a live broker on a real disk: what was synced is there, a torn end is cut, damage is named and left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from random import Random

import pytest

from contentcast.live import store as module
from contentcast.live.store import SEAL_BYTES, Store, StoreError, read


def written(folder: Path, *groups: list[bytes], segment_bytes: int = 1 << 20) -> None:
    """A life that writes each list of records as one group, or as a few."""
    synced: Queue[int] = Queue()
    store = Store(folder, synced.put, segment_bytes=segment_bytes)
    upto = len(store.restored()[0])
    for group in groups:
        for record in group:
            store.append(record)
        upto += len(group)
        while synced.get(timeout=30) < upto:
            pass
    store.close()


def restored(folder: Path) -> list[bytes]:
    store = Store(folder, lambda upto: None)
    try:
        return list(store.restored()[0])
    finally:
        store.close()


def only(folder: Path) -> Path:
    (path,) = folder.glob("*.log")
    return path


def test_records_are_there_in_the_next_life_and_numbers_go_on(tmp_path: Path) -> None:
    written(tmp_path, [b"one", b""], [b"three"])
    written(tmp_path, [b"four"])
    assert restored(tmp_path) == [b"one", b"", b"three", b"four"]


def test_what_waits_is_written_before_it_closes(tmp_path: Path) -> None:
    store = Store(tmp_path, lambda upto: None)
    for number in range(100):
        store.append(b"%d" % number)
    store.close()
    assert restored(tmp_path) == [b"%d" % number for number in range(100)]


def test_a_full_segment_is_followed_by_another(tmp_path: Path) -> None:
    groups = [[bytes([number]) * 50] for number in range(10)]
    written(tmp_path, *groups, segment_bytes=100)
    assert len(list(tmp_path.glob("*.log"))) > 3
    assert restored(tmp_path) == [record for group in groups for record in group]
    second = sorted(tmp_path.glob("*.log"))[1]
    second.unlink()
    with pytest.raises(StoreError, match=rf"expected the segment {second.name}, got .*missing"):
        restored(tmp_path)


def test_many_appends_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    real = os.fdatasync

    def counted(file: int) -> None:
        syncs.append(file)
        real(file)

    monkeypatch.setattr(module.os, "fdatasync", counted)
    written(tmp_path, [b"x" * 100] * 5_000)
    assert 1 <= len(syncs) < 1_000


def test_a_torn_end_is_cut_at_whichever_byte(tmp_path: Path) -> None:
    written(tmp_path, [b"one"], [b"two"])
    path = only(tmp_path)
    before = path.stat().st_size
    written(tmp_path, [b"three", b"four"])
    whole = path.read_bytes()
    for end in range(len(whole) - SEAL_BYTES, len(whole)):
        path.write_bytes(whole[:end])
        assert restored(tmp_path) == [b"one", b"two", b"three", b"four"], "only the seal is torn"
    for end in range(before, len(whole) - SEAL_BYTES):
        path.write_bytes(whole[:end])
        assert restored(tmp_path) == [b"one", b"two"], end
        assert path.stat().st_size == before
    written(tmp_path, [b"three again"])
    assert restored(tmp_path) == [b"one", b"two", b"three again"]


def test_a_segment_that_was_only_begun_is_begun_again(tmp_path: Path) -> None:
    for size in range(18):
        (tmp_path / f"{1:020}.log").write_bytes(b"ccstore1 and more"[:size])
        assert restored(tmp_path) == []


def test_damage_before_the_end_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    """Any byte of what was safe, also of the last group: its seal stands behind it."""
    written(tmp_path, [b"one"], [b"two"])
    path = only(tmp_path)
    written(tmp_path, [b"three"])
    whole = path.read_bytes()
    safe = len(whole) - SEAL_BYTES
    dice = Random(7)
    for at in range(safe):
        damaged = bytearray(whole)
        damaged[at] ^= dice.randrange(1, 256)
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=r"damaged at byte \d+: .*Nothing was changed"):
            restored(tmp_path)
        assert path.read_bytes() == damaged


def test_damage_at_the_end_of_a_segment_that_has_a_follower_is_damage(tmp_path: Path) -> None:
    written(tmp_path, [b"a" * 50], [b"b" * 50], segment_bytes=60)
    first, _ = sorted(tmp_path.glob("*.log"))
    first.write_bytes(first.read_bytes()[: -SEAL_BYTES - 1])
    with pytest.raises(StoreError, match=r"0001\.log: damaged at byte 20: a later segment stands behind it"):
        read(tmp_path)


def test_one_broker_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path, lambda upto: None)
    with pytest.raises(StoreError, match="another broker uses this folder"):
        Store(tmp_path, lambda upto: None)
    store.close()
    assert restored(tmp_path) == []


@pytest.mark.parametrize("call", ["fdatasync", "write"])
def test_a_failed_write_or_sync_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    synced: Queue[int] = Queue()
    failed: Queue[StoreError] = Queue()
    store = Store(tmp_path, synced.put, failed.put)
    calls: list[int] = []

    def full(*_: object) -> None:
        calls.append(1)
        raise OSError(28, "No space left on device")

    fails: Callable[..., None] = full
    monkeypatch.setattr(module.os, call, fails)
    store.append(b"one")
    assert "No space left on device" in str(failed.get(timeout=30))
    with pytest.raises(StoreError, match="must stop"):
        store.append(b"two")
    store.close()
    assert (len(calls), synced.empty()) == (1, True)
