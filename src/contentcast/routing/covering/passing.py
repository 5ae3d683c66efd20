"""What a broker knows of subscriptions and passes on: tables of its neighbours in, differences for its neighbours out.

    Subscribed             in the pool; timer `pass on`
    TimerFired             the differences of every link: Forwarded to b, Forwarded to c
    Received Forwarded     in the pool, and at once passed on over the other links
    LinkUp, network told   timer `pass on`; then all is decided anew where a branch has changed

A table for a link is decided by three things alone: the network as the broker knows it, its clients' subscriptions, and the
tables of the other neighbours. When brokers agree about the network, what an origin asks for goes down its tree, level by
level; so the tables are right in the end, whatever was in them before.
Rule: who changes something here says so by a timer or by sending; nothing waits unheard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from contentcast.model import Space, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.audience import Audience, Change
from contentcast.routing.audience.audiences import Audiences
from contentcast.routing.contract import (
    Advertised,
    Declared,
    Effect,
    Input,
    LinkLost,
    LinkUp,
    Received,
    Send,
    SetTimer,
    Subscribed,
    Timer,
    TimerFired,
    Unadvertised,
    Unsubscribed,
)
from contentcast.routing.covering.branches import Branch, branches
from contentcast.routing.covering.incoming import Table
from contentcast.routing.covering.outgoing import Outgoing, Wanted
from contentcast.routing.covering.pool import Pool
from contentcast.routing.covering.publishers import Publishers
from contentcast.routing.parts.advertising import Advertising
from contentcast.routing.parts.local import Local
from contentcast.routing.parts.network_view import NetworkView
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.routing.setup import Setup
from contentcast.wire import Told
from contentcast.wire.covering import AskAgain, Forwarded

PASS_ON: Final = Timer("pass on")


class Way:
    """One link out: its branch, what goes over it by spaces, and how far the neighbour was told."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.outgoing: dict[str, Outgoing] = {}
        self.version = 0
        self.whole = True
        """The next message is the whole table."""


class Passing:
    """Takes the place of `Local` as a part, as `interest` does: it hands clients' inputs down to it."""

    def __init__(
        self,
        broker: str,
        setup: Setup,
        versions: Versions,
        view: NetworkView,
        spaces: SpaceRegister,
        local: Local,
        advertising: Advertising,
    ) -> None:
        self.broker = broker
        self.local = local
        self._setup = setup
        self._versions = versions
        self._view = view
        self._spaces = spaces
        self._advertising = advertising
        self._pools: dict[str, Pool] = {}
        self._tables: dict[str, Table] = {}
        self._ways: dict[str, Way] = {}
        self._numbers: dict[str, int] = {}
        """Link -> the version of the last message over it, also of links that went: a later one has a larger number."""
        self._greet: set[str] = set()
        """Links that came up: the neighbour is told the whole table, even an empty one."""
        self._parents: dict[str, str] = {}
        """Origin -> the link by which its subscriptions come."""
        self._topology: Topology | None = None
        self._told_advertisements: tuple[Any, ...] = ()
        self._publishers: dict[str, Publishers] = {}
        self._new: dict[str, list[int]] = {}
        self._gone: dict[str, list[int]] = {}
        self._waiting = False
        self._audiences = Audiences.of_one(spaces, self._from_others, count_steps=setup.count_steps)

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Subscribed() | Unsubscribed():
                change = self.local.change(input)
                if change is None:
                    return []
                self._take_out(self.broker, change.removed or ())
                if change.added is not None:
                    self._put_in(self.broker, change.added)
                return self._soon(now)
            case Advertised() | Unadvertised():
                self.local.change(input)
                return self._soon(now)
            case LinkUp(link):
                self._greet.add(link)
                return self._soon(now)
            case LinkLost(link):
                self._tables.pop(link, None)
                self._ways.pop(link, None)
                self._topology = None  # the link may be back, and the network the same, when the timer fires
                return self._soon(now)
            case Received(link, Forwarded() as told):
                return self._hear(link, told, now)
            case Received(link, AskAgain()):
                self._greet.add(link)
                return self._soon(now)
            case Received(_, Told()) | Declared():
                # What was told is in the other parts already; whether it changes anything here is seen when the timer fires.
                return self._soon(now) if self._is_behind() else []
            case TimerFired(timer) if timer == PASS_ON:
                self._waiting = False
                return self._settle()
        return []

    def _soon(self, now: float) -> list[Effect]:
        if self._waiting:
            return []
        self._waiting = True
        return [SetTimer(PASS_ON, now + self._setup.propagate_after_s)]

    # --- in

    def _hear(self, link: str, told: Forwarded, now: float) -> list[Effect]:
        table = self._tables.setdefault(link, Table())
        if table.is_old(told):
            return []
        effects: list[Effect] = []
        if 0 < table.incarnation < told.incarnation:  # started again, and has forgotten what it was told
            self._greet.add(link)
            effects += self._soon(now)
        if table.lacks(told):
            return [*effects, Send(link, AskAgain())]
        table.apply(told)
        if told.since == 0:
            for origin in sorted(self._origins()):
                if self._parents.get(origin) == link:
                    self._take_from(origin, table)
            return effects or ([] if self._waiting else self._settle())
        for origin, ids in told.removed:
            if self._parents.get(origin) == link:
                self._take_out(origin, ids)
        for origin, batch in told.added:
            if self._parents.get(origin) == link:
                self._put_in(origin, batch)
        return effects or ([] if self._waiting else self._settle())

    def _origins(self) -> set[str]:
        return {origin for table in self._tables.values() for origin in table.blocks} | {
            origin for pool in self._pools.values() for origin in pool.origins
        }

    def _take_from(self, origin: str, table: Table | None) -> None:
        """What the table says of the origin takes the place of what was known of it."""
        for name, pool in self._pools.items():
            rows = pool.remove_origin(origin)
            self._gone.setdefault(name, []).extend(rows)
        self._audiences.note(Change(origin, None, None))
        for batch in () if table is None else table.of(origin):
            self._put_in(origin, batch)

    def _put_in(self, origin: str, batch: SubscriptionBatch) -> None:
        if not len(batch):
            return
        name = batch.space.name
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = Pool(self._spaces.present(batch.space))
        self._fit(pool.space)
        self._new.setdefault(name, []).extend(self._pools[name].add(origin, batch))
        if origin != self.broker:
            self._audiences.note(Change(origin, (), batch))

    def _take_out(self, origin: str, ids: Iterable[int]) -> None:
        ids = tuple(ids)
        if not ids:
            return
        for name, pool in self._pools.items():
            self._gone.setdefault(name, []).extend(pool.remove(origin, ids))
        if origin != self.broker:
            self._audiences.note(Change(origin, ids, None))

    def _fit(self, space: Space) -> None:
        """The pool of a space that has gained attributes is made anew in it."""
        present = self._spaces.present(space)
        if present is not space and present != space:
            self._sweep(space.name, present)

    def _sweep(self, name: str, space: Space) -> None:
        self._tell_ways(name)
        pool, moved = self._pools[name].swept(space)
        self._pools[name] = pool
        self._publishers.pop(name, None)
        for way in self._ways.values():
            if name in way.outgoing:
                way.outgoing[name].move(pool, moved)

    def _from_others(self) -> Iterator[tuple[str, SubscriptionBatch]]:
        for pool in self._pools.values():
            yield from ((origin, batch) for origin, batch in pool.everything() if origin != self.broker)

    # --- out

    def _is_behind(self) -> bool:
        return (
            self._view.topology != self._topology
            or self._advertisements() != self._told_advertisements
            or any(self._spaces.present(pool.space) != pool.space for pool in self._pools.values())
        )

    def _advertisements(self) -> tuple[Any, ...]:
        return tuple((broker, self._advertising.of(broker)) for broker in self._advertising.brokers())

    def _settle(self) -> list[Effect]:
        """Decides what every neighbour should have, and sends what it lacks."""
        for pool in list(self._pools.values()):
            self._fit(pool.space)
        told = self._advertisements()
        anew = told != self._told_advertisements
        if anew:
            self._told_advertisements = told
            self._publishers = {}
        if self._view.topology != self._topology:
            self._follow(self._view.topology)
        for link in sorted(self._ways):
            way = self._ways[link]
            for name in self._pools:
                if anew and name in way.outgoing:
                    way.outgoing[name].rebuild(way.branch, self._wanted(name, way.branch))
        for name in self._pools:
            self._tell_ways(name)
        effects = [effect for link in sorted(self._ways) for effect in self._send(link)]
        for name, pool in list(self._pools.items()):
            if pool.needs_sweep:
                self._sweep(name, pool.space)
        return effects

    def _follow(self, topology: Topology) -> None:
        """A changed network: which link each origin's subscriptions come by, and which go over which."""
        self._topology = topology
        links = [each for each in topology.neighbours(self.broker) if each in self._versions.links]
        found = branches(topology, self.broker)
        for gone in self._ways.keys() - set(links):
            del self._ways[gone]
        parents = {each: topology.next_hop(self.broker, each) for each in topology.brokers}
        for origin in sorted(self._origins() - {self.broker}):
            parent = parents.get(origin)
            if self._parents.get(origin) != parent:
                self._take_from(origin, self._tables.get(parent) if parent is not None else None)
        self._parents = {origin: parent for origin, parent in parents.items() if parent is not None}
        for link in links:
            way = self._ways.get(link)
            if way is None:
                way = self._ways[link] = Way(found[link])
                way.version = self._numbers.get(link, 0)
            elif not found[link].same_as(way.branch):
                way.branch = found[link]
                for name, outgoing in way.outgoing.items():
                    outgoing.rebuild(way.branch, self._wanted(name, way.branch))

    def _tell_ways(self, name: str) -> None:
        """Hands what came and went to every link."""
        pool, gone, new = self._pools[name], self._gone.pop(name, []), self._new.pop(name, [])
        new = [row for row in new if pool.living.get(pool.keys[row]) == row]
        for way in self._ways.values():
            outgoing = way.outgoing.get(name)
            if outgoing is None:
                outgoing = way.outgoing[name] = Outgoing(pool, way.branch, self._wanted(name, way.branch))
                outgoing.add(sorted(pool.living.values()))
            else:
                outgoing.remove(gone)
                outgoing.add(new)

    def _wanted(self, name: str, branch: Branch) -> Wanted | None:
        publishers, shelf = self.publishers(self._pools[name].space), self._pools[name].shelf
        if not publishers:
            return None
        return lambda origin, row: not publishers.of(shelf, row).isdisjoint(branch.behind[origin])

    def publishers(self, space: Space) -> Publishers:
        """Who publishes what of this space, as of the last time that tables were decided."""
        found = self._publishers.get(space.name)
        if found is None or found.space != space:
            found = self._publishers[space.name] = Publishers(space, dict(self._told_advertisements))
        return found

    def _send(self, link: str) -> list[Effect]:
        way = self._ways[link]
        greeted = link in self._greet
        if greeted or way.whole:
            for outgoing in way.outgoing.values():
                outgoing.forget()
        added: list[tuple[str, SubscriptionBatch]] = []
        removed: dict[str, list[int]] = {}
        for name, outgoing in sorted(way.outgoing.items()):
            lacking, surplus = outgoing.take_changes()
            pool = self._pools[name]
            added += pool.batches(lacking)
            for origin, number in (pool.keys[row] for row in surplus):
                removed.setdefault(origin, []).append(number)
        if not added and not removed and not greeted:
            return []
        self._greet.discard(link)
        since = 0 if greeted or way.whole else way.version
        way.whole = False
        way.version += 1
        self._numbers[link] = way.version
        gone = tuple((origin, tuple(sorted(ids))) for origin, ids in sorted(removed.items()))
        return [Send(link, Forwarded(self._versions.incarnation, since, way.version, tuple(added), gone))]

    # --- looking inside

    def audience(self, space: Space) -> Audience:
        """All others who want something of this space, as far as it was passed on to this broker."""
        return self._audiences.of(space)

    def known(self) -> list[tuple[str, SubscriptionBatch]]:
        """Every subscription that the broker keeps, its own clients' included, by space and origin, as it would travel."""
        return [each for _, pool in sorted(self._pools.items()) for each in pool.batches(pool.living.values())]

    def sizes(self) -> dict[str, int]:
        both = (self.local.sizes(), self._audiences.sizes())
        outgoing = [each for way in self._ways.values() for each in way.outgoing.values()]
        return {
            "subscriptions": sum(map(len, self._pools.values())),
            "passed on": sum(each.passed for each in outgoing),
            "held back": sum(each.held_back for each in outgoing),
            "nodes": sum(each.get("nodes", 0) for each in both),
            "bytes": sum(each.get("bytes", 0) for each in both),
        }

    def state(self) -> dict[str, Any]:
        known: dict[str, list[int]] = {}
        for origin, number in sorted(key for pool in self._pools.values() for key in pool.living):
            known.setdefault(origin, []).append(number)
        ways = {}
        for link, way in sorted(self._ways.items()):
            passed = sorted(key for each in way.outgoing.values() for key in each.passed_keys())
            held = {key: by for each in way.outgoing.values() for key, by in each.held_by().items()}
            ways[link] = {
                "passed on": [f"{origin}:{number}" for origin, number in passed],
                "held back": {f"{one[0]}:{one[1]}": f"{by[0]}:{by[1]}" for one, by in sorted(held.items())},
            }
        return {"subscriptions": known, "ways": ways, **self.local.state()}
