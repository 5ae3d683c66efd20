"""The subscriptions that a node holds for others: as rendezvous for its own arc, and as copies for the nodes before it.

    entry      (broker, life, id) -> version, the subscription, its ranges of keys, until when it lives
    digest     of an arc: the entries that touch it, as one number; two nodes that hold the same have the same

A node and its successors compare digests of the node's arc and send each other what is missing. By that one mechanism a joiner
takes over its arc, a crash is covered by the copies, and two rings that were parted hold what both have heard.
Rule: of one broker only the latest life counts, and of one subscription the latest version, as long as anything of it is
remembered. A copy never lives longer than what it was copied from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.routing.audience import Audience, Change
from contentcast.routing.audience.audiences import Audiences
from contentcast.routing.chord.keys import Keys, within
from contentcast.routing.chord.mcast import Targets
from contentcast.routing.overlay.mappings import KeyMapping, SpaceMapping
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.wire.overlay import Stored

Ints = npt.NDArray[np.int64]


class EntryKey(NamedTuple):
    broker: str
    incarnation: int
    id: int


@dataclass(slots=True)
class Entry:
    """`batch` None: the subscription has ended, and older versions of it are not taken back."""

    version: int
    batch: SubscriptionBatch | None
    row: int
    lows: Keys
    highs: Keys
    expires: float
    print: int
    living: bool = True


def _print(key: EntryKey, version: int) -> int:
    return int.from_bytes(
        blake2b(f"{key.broker}\0{key.incarnation}\0{key.id}\0{version}".encode(), digest_size=8).digest(), "big"
    )


class Ranges:
    """Where on the ring many subscriptions and events go, by one or several mappings that hold at the same time."""

    def __init__(self, mappings: Iterable[KeyMapping]) -> None:
        self.mappings = tuple(mappings)
        self._made: dict[Space, tuple[SpaceMapping, ...]] = {}

    def in_space(self, space: Space) -> tuple[SpaceMapping, ...]:
        found = self._made.get(space)
        if found is None:
            found = self._made[space] = tuple(each.in_space(space) for each in self.mappings)
        return found

    def of(self, batch: SubscriptionBatch) -> tuple[Keys, Keys, Ints]:
        """Lows, highs and rows, in the order of the rows."""
        parts = []
        for each in self.in_space(batch.space):
            keys, on_ring = each.subscription_keys(batch.table), each.mapping.on_ring
            parts.append(Targets(on_ring(keys.lows), on_ring(keys.highs), keys.rows))
        rows = np.concatenate([each.rows for each in parts])
        order = np.argsort(rows, kind="stable")
        lows, highs = np.concatenate([each.lows for each in parts]), np.concatenate([each.highs for each in parts])
        return lows[order], highs[order], rows[order]

    def of_events(self, events: EventBatch) -> Targets:
        """EK by the first mapping: each key with the row of its event."""
        (mapping, *_) = self.in_space(events.space)
        rows, keys = mapping.event_keys(events)
        keys = mapping.mapping.on_ring(keys)
        return Targets(keys, keys, rows)


class Store:
    def __init__(self, spaces: SpaceRegister, *, count_steps: bool = True) -> None:
        self.entries: dict[EntryKey, Entry] = {}
        self._latest: dict[str, int] = {}
        self._of_broker: dict[str, set[EntryKey]] = {}
        self._flat: tuple[Keys, Keys, Ints, Keys, list[EntryKey]] | None = None
        self._digests: dict[tuple[int, int], int] = {}
        self._audiences = Audiences.of_one(spaces, self._batches, count_steps=count_steps)

    def __len__(self) -> int:
        return len(self.living())

    def living(self) -> list[EntryKey]:
        return [key for key, entry in self.entries.items() if entry.living and entry.batch is not None]

    def _batches(self) -> Iterator[tuple[str, SubscriptionBatch]]:
        for key, entry in self.entries.items():
            if entry.living and entry.batch is not None:
                yield key.broker, entry.batch.take(np.array([entry.row]))

    def audience(self, space: Space) -> Audience:
        return self._audiences.of(space)

    def sizes(self) -> dict[str, int]:
        return self._audiences.sizes()

    # --- coming and going

    def adopt(self, stored: Stored, ranges: Ranges, now: float) -> bool:
        """Takes what is new or newer, and says whether anything was."""
        latest = self._latest.get(stored.broker, 0)
        if stored.incarnation < latest:
            return False
        news = False
        if stored.incarnation > latest:
            self._forget(stored.broker)
        self._latest[stored.broker] = stored.incarnation
        expires = now + stored.lifetime_s
        news |= self._adopt_ended(stored, expires)
        if stored.batch is not None:
            news |= self._adopt_batch(stored, stored.batch, ranges, expires)
        if stored.broker not in self._of_broker:
            del self._latest[stored.broker]  # it told nothing, so there is nothing that could expire
        return news

    def _adopt_batch(self, stored: Stored, batch: SubscriptionBatch, ranges: Ranges, expires: float) -> bool:
        fresh: list[int] = []
        again: list[int] = []
        news = False
        for row, (number, version) in enumerate(zip(batch.ids.tolist(), stored.versions.tolist(), strict=True)):
            before = self.entries.get(EntryKey(stored.broker, stored.incarnation, number))
            if before is None or before.version < version:
                fresh.append(row)
                news = True
                if before is not None and before.batch is not None and before.living:
                    again.append(number)
            elif before.version == version and before.batch is not None:
                before.expires = max(before.expires, expires)
                if not before.living:
                    fresh.append(row)  # it had expired here; the audience has lost it, but it is no news
        if not fresh:
            return False
        lows, highs, rows = ranges.of(batch)
        starts = np.searchsorted(rows, np.arange(len(batch) + 1))
        for row in fresh:
            key = EntryKey(stored.broker, stored.incarnation, int(batch.ids[row]))
            part = slice(int(starts[row]), int(starts[row + 1]))
            version = int(stored.versions[row])
            self._put(key, Entry(version, batch, row, lows[part], highs[part], expires, _print(key, version)))
        self._audiences.note(Change(stored.broker, tuple(again), batch.take(np.array(fresh, np.int64))))
        return news

    def _adopt_ended(self, stored: Stored, expires: float) -> bool:
        gone: list[int] = []
        news = False
        nothing = np.empty(0, np.uint64)
        for number, version in zip(stored.removed.tolist(), stored.removed_versions.tolist(), strict=True):
            key = EntryKey(stored.broker, stored.incarnation, number)
            before = self.entries.get(key)
            if before is not None and before.version >= version:
                continue
            news |= before is not None and before.batch is not None
            if before is not None and before.batch is not None and before.living:
                gone.append(number)
            self._put(key, Entry(version, None, 0, nothing, nothing, expires, 0))
        if gone:
            self._audiences.note(Change(stored.broker, tuple(gone), None))
        return news

    def _put(self, key: EntryKey, entry: Entry) -> None:
        self.entries[key] = entry
        self._of_broker.setdefault(key.broker, set()).add(key)
        self._flat = None
        self._digests.clear()

    def _forget(self, broker: str) -> None:
        """An earlier life of the broker; what it asked for no longer holds."""
        keys = self._of_broker.pop(broker, set())
        for key in keys:
            del self.entries[key]
        if keys:
            self._audiences.note(Change(broker, None, None))
            self._flat = None
            self._digests.clear()

    def expire(self, now: float, keep_s: float) -> None:
        """What was not renewed goes; for a while it is remembered that it was there, so that its return is no news."""
        over: dict[str, list[int]] = {}
        for key, entry in list(self.entries.items()):
            if entry.expires > now:
                continue
            if entry.living and entry.batch is not None:
                over.setdefault(key.broker, []).append(key.id)
                entry.living = False
                self._flat = None
                self._digests.clear()
            if entry.expires + keep_s <= now:
                del self.entries[key]
                mine = self._of_broker[key.broker]
                mine.discard(key)
                if not mine:
                    # Its lives may begin anew: in memory they are numbered by the clock, on a disk they are counted.
                    del self._of_broker[key.broker], self._latest[key.broker]
        for broker, ids in over.items():
            self._audiences.note(Change(broker, tuple(ids), None))

    def remap(self, ranges: Ranges) -> None:
        """Another mapping: all ranges anew."""
        for entry in self.entries.values():
            if entry.batch is not None:
                entry.lows, entry.highs, _ = ranges.of(entry.batch.take(np.array([entry.row])))
        self._flat = None
        self._digests.clear()

    # --- arcs

    def _flattened(self) -> tuple[Keys, Keys, Ints, Keys, list[EntryKey]]:
        if self._flat is None:
            kept = [(key, entry) for key, entry in self.entries.items() if entry.living and entry.batch is not None]
            empty = np.empty(0, np.uint64)
            self._flat = (
                np.concatenate([empty, *(entry.lows for _, entry in kept)]),
                np.concatenate([empty, *(entry.highs for _, entry in kept)]),
                np.repeat(np.arange(len(kept)), [len(entry.lows) for _, entry in kept]),
                np.array([entry.print for _, entry in kept], np.uint64),
                [key for key, _ in kept],
            )
        return self._flat

    def _touching(self, arc: tuple[int, int]) -> Ints:
        lows, highs, which, _, _ = self._flattened()
        return np.unique(which[within(lows, highs, arc)])

    def digest(self, arc: tuple[int, int]) -> int:
        found = self._digests.get(arc)
        if found is None:
            prints = self._flattened()[3]
            found = self._digests[arc] = int(np.bitwise_xor.reduce(prints[self._touching(arc)], initial=0))
        return found

    def held(self, arc: tuple[int, int]) -> list[EntryKey]:
        keys = self._flattened()[4]
        return [keys[each] for each in self._touching(arc).tolist()]

    def least_life(self, arc: tuple[int, int], now: float) -> float:
        """How long all that touches the arc lives at least."""
        return max(0.0, min((self.entries[key].expires for key in self.held(arc)), default=now) - now)

    def prolong(self, arc: tuple[int, int], until: float) -> None:
        """Whoever has the same renewed says that it lives until then. Else copies would expire while their originals live."""
        for key in self.held(arc):
            entry = self.entries[key]
            entry.expires = max(entry.expires, until)

    def lacks(self, key: EntryKey, version: int) -> bool:
        """Would this be news?"""
        if key.incarnation < self._latest.get(key.broker, 0):
            return False
        mine = self.entries.get(key)
        return mine is None or mine.version < version or (mine.version == version and not mine.living)

    def copies(self, keys: Iterable[EntryKey], now: float) -> list[Stored]:
        """These entries as messages, one for each broker and space."""
        groups: dict[tuple[str, int, str], list[EntryKey]] = {}
        ended: dict[tuple[str, int], list[EntryKey]] = {}
        for key in keys:
            entry = self.entries.get(key)
            if entry is None or not entry.living:
                continue
            if entry.batch is None:
                ended.setdefault((key.broker, key.incarnation), []).append(key)
            else:
                groups.setdefault((key.broker, key.incarnation, entry.batch.space.name), []).append(key)
        none = np.empty(0, np.int64)
        found = []
        for (broker, incarnation, _), mine in groups.items():
            mine.sort()
            parts = [self.entries[key] for key in mine]
            newest = max((each.batch.space for each in parts if each.batch is not None), key=len)
            batch = SubscriptionBatch.concat(
                [each.batch.take(np.array([each.row])).widened(newest) for each in parts if each.batch is not None]
            )
            lifetime_s = max(0.0, min(each.expires for each in parts) - now)
            versions = np.array([each.version for each in parts], np.int64)
            found.append(Stored(broker, incarnation, lifetime_s, batch, versions, none, none))
        for (broker, incarnation), mine in ended.items():
            gone = [self.entries[key] for key in mine]
            lifetime_s = max(0.0, min(each.expires for each in gone) - now)
            numbers = np.array([key.id for key in mine], np.int64)
            found.append(
                Stored(
                    broker, incarnation, lifetime_s, None, none, numbers, np.array([each.version for each in gone], np.int64)
                )
            )
        return found

    def ranges_of(self, broker: str, number: int) -> tuple[Keys, Keys]:
        """The keys of one subscription."""
        entry = self.entries[EntryKey(broker, self._latest[broker], number)]
        return entry.lows, entry.highs
