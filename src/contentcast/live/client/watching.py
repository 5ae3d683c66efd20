"""Looking at several brokers again and again, whether they answer or not: for `contentcast top` and the web page.

    look 1    a: its state          b: its state
    look 2    a: its state          b: its last state, and no answer for 1.0 s: the question stands
    look 3    a: its state          b: no broker answers       the next look dials it again

With `follow` those that the brokers know are looked at too, so that one address is enough for a network.
Rule: a broker that does not answer holds up no look for longer than its limit, and is asked no second time meanwhile.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from contentcast.live.client.client import Client
from contentcast.live.client.connecting import connect
from contentcast.live.settings.address import Address, believed, read_addresses
from contentcast.live.settings.tls import client_context
from contentcast.model import ContentcastError

GIVE_UP_S: Final = 10.0
"""A question that has no answer for so long is given up, and its connection with it."""
SILENT_S: Final = 3.0
"""Who has never answered, and does not for so long, counts as one who cannot be reached."""
LIMIT_S: Final = 1.0
"""How long a look waits for the slowest broker."""
MOST_WATCHED: Final = 500
"""Brokers that are found by following; those that were named are always looked at."""


@dataclass(frozen=True)
class Look:
    """What is known of one broker now."""

    url: str
    name: str
    """Empty until it, or another broker, has said so."""
    state: Mapping[str, Any] | None
    """What it said last; None if it is not connected."""
    problem: str = ""
    """Why there is no answer of now."""

    waiting_s: float = 0.0
    """For how long a question has stood without an answer."""
    own: str = ""
    """The name of the client that asks, which is among the clients of the state."""

    @property
    def is_down(self) -> bool:
        """It cannot be reached. One that is asked for the first time has a moment to answer."""
        return self.state is None and not 0 < self.waiting_s < SILENT_S


@dataclass(eq=False)
class _Watched:
    addresses: tuple[Address, ...]
    name: str = ""
    is_told: bool = False
    """Another broker told of it."""
    client: Client | None = None
    state: Mapping[str, Any] | None = None
    problem: str = ""
    """Why the last question had no answer."""
    asking: asyncio.Task[None] | None = None
    asked_at: float = 0.0
    secure: bool = field(init=False)

    def __post_init__(self) -> None:
        self.secure = all(each.secure for each in self.addresses)

    async def hang_up(self) -> None:
        client, self.client, self.state = self.client, None, None
        if client is not None:
            await client.close()


class Watcher:
    """`name` is shown at the brokers, with something random behind it; `options` as for `connect`."""

    def __init__(self, urls: Iterable[str], *, follow: bool = False, name: str = "watcher", **options: Any) -> None:
        given = dict.fromkeys(each for url in urls for each in read_addresses(url))
        if any(each.secure for each in given):  # what is wrong with the files is told at once
            client_context(*(options.get(each) for each in ("authority", "certificate", "key")))
        self._watched = [_Watched((each,)) for each in given]
        self._follow = follow
        self._name, self.options = name, options

    async def look(self, limit_s: float = LIMIT_S, **document: Any) -> list[Look]:
        """Asks all brokers for their state; `document` says more precisely what for."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit_s
        to_ask = list(self._watched)
        while to_ask:  # those that are found on the way are asked in the same look
            for each in to_ask:
                if each.asking is None:
                    each.asked_at = loop.time()
                    each.asking = asyncio.create_task(self._ask(each, document), name=f"look at {each.addresses[0]}")
            await asyncio.wait([each.asking for each in to_ask if each.asking], timeout=max(0.0, until - loop.time()))
            found = self._learn_of([each for each in to_ask if each.state is not None]) if self._follow else []
            to_ask = found if loop.time() < until else []
        await self._leave_out_twins()
        return [self._outcome(each, loop.time()) for each in self._watched if each.asked_at]

    def _outcome(self, each: _Watched, now: float) -> Look:
        waiting_s, problem = 0.0, each.problem
        if each.asking is not None and each.asking.done():
            asked, each.asking = each.asking, None
            asked.result()  # a mistake of ours is raised, and the next look asks anew
        elif each.asking is not None and not problem:  # one that was down stays so until it answers
            waiting_s = max(1e-3, now - each.asked_at)
            problem = f"no answer for {waiting_s:.1f} s"
        own = each.client.name if each.client is not None else ""
        return Look(str(each.addresses[0]), each.name, each.state, problem, waiting_s, own)

    def _learn_of(self, tellers: list[_Watched]) -> list[_Watched]:
        """Those that are watched from now on."""
        before = len(self._watched)
        for each in tellers:
            self._learn(each)
        return self._watched[before:]

    async def _ask(self, each: _Watched, document: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_S):
                if each.client is None:
                    # The broker may not know yet that an earlier connection is gone, so each has a name of its own.
                    named = self.options | {"name": f"{self._name}-{secrets.token_hex(4)}"}
                    each.client = await connect(map(str, each.addresses), reconnect=False, **named)
                    each.name = each.client.broker
                each.state = await each.client.ask("state", **document)
                each.problem = ""
        except TimeoutError:
            await each.hang_up()
            each.problem = f"no answer within {GIVE_UP_S:g} s"
        except ContentcastError as reason:
            if each.client is None or not each.client.is_connected:
                await each.hang_up()
            each.state, each.problem = None, str(reason)

    def _learn(self, teller: _Watched) -> None:
        """Those that it knows. Who was reached over TLS is believed no address without."""
        assert teller.state is not None
        told = teller.state.get("addresses")
        for name, texts in told.items() if isinstance(told, Mapping) else ():
            addresses = believed(texts, secure=teller.secure)
            if not addresses:
                continue
            known = next((each for each in self._watched if each.name == name), None)
            if known is None:
                known = next((each for each in self._watched if not each.name and set(each.addresses) & set(addresses)), None)
            if known is not None:
                known.name = known.name or name
                if known.is_told and known.client is None and (known.asking is None or known.asking.done()):
                    known.addresses = addresses  # it may listen elsewhere by now
            elif len(self._watched) < MOST_WATCHED:
                self._watched.append(_Watched(addresses, name, is_told=True))

    async def _leave_out_twins(self) -> None:
        """A broker that has two addresses is looked at once."""
        names: set[str] = set()
        for each in sorted(self._watched, key=lambda each: each.is_told):
            if each.name and each.name in names and each.is_told:
                self._watched.remove(each)
                await _end(each)
            names.add(each.name)

    async def close(self) -> None:
        """All connections end; the next look makes them again."""
        await asyncio.gather(*map(_end, self._watched))


async def _end(each: _Watched) -> None:
    if each.asking is not None:
        each.asking.cancel()
        with suppress(asyncio.CancelledError):
            await each.asking
        each.asking = None
    await each.hang_up()


def per_second(now: Mapping[str, Any], before: Mapping[str, Any] | None, *path: str) -> float | None:
    """How fast a count of a broker's state grows, by its own clock; without a state before, in the mean since it started."""
    if before is not None and before["up_s"] > now["up_s"]:
        before = None  # it has started again meanwhile
    seconds = now["up_s"] - (before["up_s"] if before else 0)
    grown = _at(now, path) - (_at(before, path) if before else 0)
    return max(0.0, grown) / seconds if seconds > 0 else None  # the counts of a link that was made anew begin at 0


def _at(state: Mapping[str, Any], path: tuple[str, ...]) -> float:
    found: Any = state
    for each in path:
        found = found.get(each, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, int | float) else 0
