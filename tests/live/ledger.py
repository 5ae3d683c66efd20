"""Durable delivery judged from outside: brokers as processes, publishers that insist, subscribers that note what they get.

The ledger knows nothing of the protocol: it has what publishers were told was accepted, and what subscribers got.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contentcast as cc
from contentcast.live.client.publishing import Receipt
from contentcast.live.settings.address import Address
from tests.live.stories import LIMIT_S, Process, until

ORDERS = cc.Space("orders", feed="string", number="int", price="float")


class Brokers:
    """Brokers as processes, each with its folder; one that starts again listens where it did before."""

    def __init__(self, folder: Path, links: dict[str, list[str]]) -> None:
        self.folder = folder
        self.links = links
        self.addresses: dict[str, str] = {}
        self.running: dict[str, Process] = {}
        self.begun: list[Process] = []

    def begin(self, name: str, before: Callable[[], None] | None = None) -> Process:
        listen = self.addresses.get(name, "contentcast://127.0.0.1:0")
        words = ["broker", "--json", "--name", name, "--listen", listen, "--data", str(self.folder / name)]
        for other in self.links[name]:
            words += ["--neighbour", self.addresses[other]]
        process = Process(self.folder, *words, before=before)
        self.begun.append(process)
        return process

    async def start(self, *names: str, before: Callable[[], None] | None = None) -> None:
        """`before`: what each process does to itself first."""
        started = {name: self.begin(name, before) for name in names}
        for name, process in started.items():
            self.addresses[name] = json.loads(await process.line())["listen"][0]
            self.running[name] = process

    async def start_all(self) -> None:
        """All have heard of all: a durable subscription holds at brokers that its own has heard of."""
        for name in self.links:  # each dials those before it
            await self.start(name)
        for address in self.addresses.values():
            async with cc.connect(address) as client:

                async def knows_all(client: Any = client) -> bool:
                    told = await client.ask("state", router=True)
                    return bool(told["router"]["marks"].keys() >= self.links.keys())

                await until(knows_all, LIMIT_S)

    def kill(self, *names: str) -> None:
        for name in names:
            self.running[name].signal(signal.SIGKILL)
        for name in names:
            self.running.pop(name).running.wait()

    def end(self) -> None:
        for each in self.begun:
            each.end()


IN_FLIGHT = 8
"""Batches of a feed that are under way while nothing holds them up."""


class Feed:
    """Publishes one numbered order after the other, some in one batch, and notes what was accepted."""

    def __init__(self, name: str, url: str, in_flight: int = IN_FLIGHT) -> None:
        self.name = name
        self.url = url
        self._in_flight = in_flight
        self.accepted: list[int] = []
        self._stop = False
        self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        number = 0
        under_way: deque[tuple[range, asyncio.Future[Receipt]]] = deque()
        async with cc.connect(self.url, name=self.name) as client:
            await client.declare(ORDERS)
            while under_way or not self._stop:
                if len(under_way) == self._in_flight or self._stop:
                    numbers, receipt = under_way.popleft()
                    await receipt
                    self.accepted += numbers
                    continue
                numbers = range(number, number + 1 + number % 7)
                number = numbers.stop
                batch = [{"feed": self.name, "number": each, "price": float(each % 100)} for each in numbers]
                under_way.append((numbers, await client.publish("orders", batch, wait=False)))

    async def reached(self, count: int) -> None:
        """So many more were accepted."""
        goal = len(self.accepted) + count
        await until(lambda: self._task.done() or len(self.accepted) >= goal, LIMIT_S)
        assert not self._task.done(), self._task.exception()

    async def stop(self) -> None:
        self._stop = True
        await self._task


class Desk:
    """A durable subscriber that notes what it gets; `below` is what it wants, by the price."""

    def __init__(self, name: str, url: str, below: float) -> None:
        self.name = name
        self.url = url
        self.below = below
        self.got: list[tuple[str, int]] = []
        self.client: Any = None
        self.holds_at: set[str] = set()

    async def begin(self) -> None:
        self.client = await cc.connect(self.url, name=self.name)
        await self.client.declare(ORDERS)
        subscription = await self.client.subscribe("orders", f"price < {self.below}", durable=self.name, deliver=self._note)
        self.holds_at = set(subscription.holds_at)

    def _note(self, event: dict[str, Any]) -> None:
        self.got.append((event["feed"], event["number"]))

    def lacks(self, feeds: list[Feed]) -> int:
        return sum(each % 100 < self.below for feed in feeds for each in feed.accepted) - len(self.got)

    async def judge(self, feeds: list[Feed]) -> None:
        await until(lambda: self.lacks(feeds) <= 0, LIMIT_S)
        doubled = [each for each, count in Counter(self.got).items() if count > 1]
        assert not doubled, f"{self.name} got {doubled[:5]} more than once"
        by_feed: dict[str, list[int]] = defaultdict(list)
        for name, number in self.got:
            by_feed[name].append(number)
        for feed in feeds:
            expected = [each for each in feed.accepted if each % 100 < self.below]
            assert by_feed[feed.name] == expected, (
                f"{self.name}, {feed.name}: {_first_difference(by_feed[feed.name], expected)}"
            )

    async def end(self) -> None:
        if self.client is not None:
            await self.client.close()


def _first_difference(got: list[int], expected: list[int]) -> str:
    at = next(
        (at for at, (one, other) in enumerate(zip(got, expected, strict=False)) if one != other), min(len(got), len(expected))
    )
    return f"at {at} it got {got[at : at + 3]}, accepted were {expected[at : at + 3]}"


class Gate:
    """Stands before a broker, on all ways to it: it can be closed, with an answer or without one."""

    def __init__(self) -> None:
        self.target: tuple[str, int] = ("", 0)
        self.is_open = True
        self._silent = asyncio.Event()
        self._silent.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Gate:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self.is_open:
                raise ConnectionError
            there, back = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._silent.wait()
                sink.write(data)
                await sink.drain()
        sink.transport.abort()

    def cut(self) -> None:
        """Connections end, and no new ones are made."""
        self.is_open = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def fall_silent(self) -> None:
        """Nothing comes through, and nobody is told: as if a cable was cut."""
        self._silent.clear()

    def mend(self) -> None:
        self.cut()  # what was held back meanwhile is lost
        self._silent.set()
        self.is_open = True

    async def __aexit__(self, *_: object) -> None:
        self._silent.set()
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
