"""What happens on a LAN, measured for a while, as the flows of the planner: what is sent, who wants it, what was promised.

    promised   a publisher advertises with a rate; its server says so on the LAN every PROMISE_EVERY_S
    watched    everything of a space for some seconds, and what every server wants at the end of them

Source: announced in Eide et al. 2003, section 7: the mapping from measured traffic and from what advertisements promise.
Rule: a watcher wants everything while it watches, so events are sent that nobody else wants; it says nothing when it has left.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from contentcast.language import parse_predicate, print_predicate
from contentcast.live.lan.client import LanAdvertised, LanClient
from contentcast.model import ContentcastError, EventBatch, Predicate, Space
from contentcast.model.events.event_batch import concat
from contentcast.routing.multicast import planner

PROMISES: Final = Space("contentcast promises", server="string", number="int", space="string", allowed="string", rate="float")
"""Where servers say at which rates their publishers will publish, in bytes a second."""
PROMISE_EVERY_S: Final = 1.0
MOST_SAMPLED: Final = 100_000
"""Events that a watcher keeps; more are counted by their sizes alone through the time it took to get so many."""


async def promise(client: LanClient, advertised: LanAdvertised, predicate: Predicate, rate: float) -> asyncio.Task[None]:
    """Says again and again what was promised; ends when it is cancelled."""
    await client.declare(PROMISES)
    said = {
        "server": client.server.name,
        "number": advertised.number,
        "space": advertised.space,
        "allowed": print_predicate(predicate),
        "rate": float(rate),
    }

    async def say() -> None:
        while True:
            await client.publish(PROMISES, said)
            await asyncio.sleep(PROMISE_EVERY_S)

    return asyncio.create_task(say())


class Watched(NamedTuple):
    """Events in the order in which they came, the seconds they took, what each server wants, and what was promised."""

    events: EventBatch
    seconds: float
    wants: dict[str, Predicate]
    promises: list[tuple[Predicate, float]]

    def flows(self, attribute: str) -> list[planner.Flow]:
        measured = planner.flows(self.events, attribute, self.wants, self.seconds)
        known = {each.value for each in measured}
        promised = planner.promised_flows(self.events.space, attribute, self.promises, self.wants, known)
        return planner.with_promises([*measured, *promised], self.promises)


async def watch(client: LanClient, space: str | Space, seconds: float) -> Watched:
    """Looks at everything of a space for so long, or until there are MOST_SAMPLED events."""
    loop = asyncio.get_running_loop()
    came: list[EventBatch] = []
    promised: dict[tuple[str, int], dict[str, Any]] = {}
    enough = asyncio.Event()

    def take(events: EventBatch) -> None:
        came.append(events)
        if sum(map(len, came)) >= MOST_SAMPLED:
            enough.set()

    def hear(event: dict[str, Any]) -> None:
        promised[event["server"], event["number"]] = event

    everything = await client.subscribe(space, deliver=take, batches=True)
    await client.declare(PROMISES)
    promises = await client.subscribe(PROMISES, deliver=hear)
    begin = loop.time()
    try:
        async with asyncio.timeout(seconds):
            await enough.wait()
    except TimeoutError:
        pass
    took = loop.time() - begin
    found = client.server.space(everything.space)
    assert found is not None
    wants = _wants(client, found)
    await client.unsubscribe([everything, promises])
    events = concat([each.widened(found) for each in came]) if came else EventBatch.from_dicts(found, [])
    return Watched(events, took, wants, list(_read(found, promised.values())))


def _wants(client: LanClient, space: Space) -> dict[str, Predicate]:
    """What the other servers want of this space."""
    found: dict[str, Predicate] = {}
    for name, member in client.server.router.members.members.items():
        for _, batch in member.record.blocks:
            if batch.space.name == space.name:
                for each in batch.widened(space):
                    found[name] = each.predicate if name not in found else found[name].union(each.predicate)
    return found


def _read(space: Space, promised: Any) -> Any:
    for each in promised:
        if each["space"] != space.name:
            continue
        try:
            yield parse_predicate(space, each["allowed"]), each["rate"]
        except ContentcastError:
            continue  # of a space with attributes that have not been heard of here yet
