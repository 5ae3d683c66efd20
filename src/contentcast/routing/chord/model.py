"""A settled ring in memory, to count hops and messages of thousands of nodes without a clock.

It uses the same functions as the nodes (`mcast.split`, arcs, fingers); only messages do not travel, they are counted.

    ring = RingModel.random(500, bits=13, seed=1)
    ring.mcast(sender, [(low, high)]).messages

Rule: nothing here knows more than a node of a settled ring would: its successor list, its fingers, and its cache.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from contentcast.routing.chord.keys import Peer, between, distance
from contentcast.routing.chord.mcast import Finger, Targets, fingers_of, split
from contentcast.routing.chord.ring import Member
from contentcast.routing.dice import Dice


@dataclass
class Count:
    """`reached`: nodes that cover a key; `received`: messages to each node; `hops`: the longest way."""

    messages: int = 0
    hops: int = 0
    reached: list[int] = field(default_factory=list)
    received: Counter[int] = field(default_factory=Counter)


class RingModel:
    """Node i covers the keys after those of node i - 1 up to its own. `length` of the successor lists.

    `cached`: nodes that every node remembers from earlier messages, besides its fingers; drawn by chance.
    """

    def __init__(self, keys: Sequence[int], bits: int, length: int = 4, cached: int = 0) -> None:
        self.keys = sorted(set(keys))
        self.bits = bits
        self.length = min(length, len(self.keys) - 1)
        self.cached = cached
        self._fingers: dict[int, list[Finger]] = {}
        self._numbers: dict[int, list[int]] = {}

    @classmethod
    def random(cls, count: int, bits: int, seed: int, length: int = 4, cached: int = 0) -> RingModel:
        dice = Dice(f"ring {seed}")
        keys: set[int] = set()
        while len(keys) < count:
            keys.add(dice.below(1 << bits))
        return cls(sorted(keys), bits, length, cached)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def peers(self) -> list[Peer]:
        return [Peer(key, f"{at}") for at, key in enumerate(self.keys)]

    def owner(self, key: int) -> int:
        """The node that covers the key."""
        at = bisect_left(self.keys, key)
        return at if at < len(self.keys) else 0

    def covering(self, low: int, high: int) -> list[int]:
        """The nodes that cover a key of low..high."""
        first, last = bisect_left(self.keys, low), bisect_left(self.keys, high)
        found = list(range(first, min(last, len(self.keys) - 1) + 1))
        return [*found, 0] if last == len(self.keys) and 0 not in found else found

    def member(self, node: int) -> Member:
        count = len(self.keys)
        others = tuple(self.peers[(node + step) % count] for step in range(1, self.length + 1))
        return Member(self.peers[node], self.peers[node - 1], others)

    def fingers(self, node: int) -> list[Finger]:
        """The successors, and the node behind each power of two."""
        found = self._fingers.get(node)
        if found is None:
            places = {self.owner((self.keys[node] + (1 << at)) % (1 << self.bits)) for at in range(self.bits)}
            more = [Finger(self.peers[each], self.keys[each - 1]) for each in places if each != node]
            found = self._fingers[node] = fingers_of(self.member(node), more, self.bits)
        return found

    def _hints(self, node: int) -> list[int]:
        found = self._numbers.get(node)
        if found is None:
            found = self._numbers[node] = [int(each.peer.name) for each in self.fingers(node)]
            dice = Dice(f"cache {node}")
            found += [dice.below(len(self.keys)) for _ in range(self.cached)]
        return found

    # --- to one key

    def route(self, sender: int, key: int) -> list[int]:
        """The nodes that a message passes, without the sender."""
        way: list[int] = []
        node = sender
        while not between(key, self.keys[node - 1], self.keys[node]):
            successor = (node + 1) % len(self.keys)
            if between(key, self.keys[node], self.keys[successor]):
                node = successor
            else:
                ahead = distance(self.keys[node], key, self.bits)
                best, reach = successor, 0
                for each in self._hints(node):
                    step = distance(self.keys[node], self.keys[each], self.bits)
                    if reach < step <= ahead:
                        best, reach = each, step
                node = best
            way.append(node)
        return way

    def mean_lookup(self, times: int, seed: int) -> float:
        """Mean hops from a random node to a random node."""
        dice = Dice(f"lookups {seed}")
        total = 0
        for _ in range(times):
            sender, target = dice.below(len(self.keys)), dice.below(len(self.keys))
            total += len(self.route(sender, self.keys[target]))
        return total / times

    # --- to many keys

    def mcast(self, sender: int, ranges: Sequence[tuple[int, int]]) -> Count:
        count = Count()
        waiting = [(sender, Targets.of(ranges), 0)]
        while waiting:
            node, targets, hops = waiting.pop()
            count.hops = max(count.hops, hops)
            mine, onward = split(self.member(node), self.fingers(node), targets, self.bits)
            if len(mine):
                count.reached.append(node)
            for peer, part in onward:
                count.messages += 1
                count.received[int(peer.name)] += 1
                waiting.append((int(peer.name), part, hops + 1))
        return count

    def aggressive(self, sender: int, ranges: Sequence[tuple[int, int]]) -> Count:
        """A message by itself to every key."""
        count = Count()
        reached: set[int] = set()
        for low, high in ranges:
            node = self.owner(low)
            key = low
            while key <= high:
                # All keys up to the next node have the same way.
                last = min(high, self.keys[node]) if key <= self.keys[node] else high
                hops = len(self.route(sender, key))
                count.messages += hops * (last - key + 1)
                count.received[node] += last - key + 1
                count.hops = max(count.hops, hops)
                reached.add(node)
                key, node = last + 1, (node + 1) % len(self.keys)
        count.reached = list(reached)
        return count

    def conservative(self, sender: int, low: int, high: int) -> Count:
        """To the first key, and from node to node until the last."""
        nodes = self.covering(low, high)
        first = len(self.route(sender, low))
        return Count(first + len(nodes) - 1, first + len(nodes) - 1, nodes, Counter(nodes))
