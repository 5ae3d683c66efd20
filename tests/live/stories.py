"""What the live stories share: a time limit for each, waiting for facts, and brokers that end with their story."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.client.client import Client
from contentcast.live.looking.log import Silent
from contentcast.live.settings.config import BrokerConfig

LIMIT_S = 90.0
"""A story takes seconds; a process on a busy machine may take as long to start."""
TRADES = cc.Space("trades", issue="string", price="float", volume="int")
TRADE = {"issue": "IBM", "price": 119.5, "volume": 5000}


def story(told: Callable[..., Coroutine[Any, Any, None]], limit_s: float = LIMIT_S) -> Callable[..., None]:
    """An async test, on asyncio's own loop, with a time limit."""

    @functools.wraps(told)
    def run(*arguments: Any, **named: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(limit_s):
                await told(*arguments, **named)

        asyncio.run(limited())

    return run


long_story = functools.partial(story, limit_s=4 * LIMIT_S)
"""Many processes start, one after the other."""


async def until(fact: Callable[[], Any | Awaitable[Any]], seconds: float = 30.0) -> Any:
    """Waits until the fact holds; says which one did not."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = fact()
                if isinstance(found, Awaitable):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(
            f"not within {seconds} s: line {fact.__code__.co_firstlineno} of {fact.__code__.co_filename}"
        ) from None


class Net(AsyncExitStack):
    """Brokers of one story, all in this process; they stop when it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers: dict[str, Broker] = {}

    async def broker(self, name: str, *neighbours: Broker, **settings: Any) -> Broker:
        addresses = tuple(each.addresses[0] for each in neighbours)
        config = BrokerConfig(name=name, neighbours=addresses, **settings)
        self.brokers[name] = await self.enter_async_context(Broker(config, log=Silent()))
        for each in neighbours:
            await until(lambda each=each: name in each.neighbours.links and each.name in self.brokers[name].neighbours.links)
        return self.brokers[name]

    async def client(self, broker: Broker, **options: Any) -> Client:
        return await self.enter_async_context(cc.connect(str(broker.addresses[0]), **options))

    async def alone(self) -> tuple[Broker, Client]:
        """A broker, and a client of it that has declared the trades."""
        broker = await self.broker("a")
        client = await self.client(broker)
        await client.declare(TRADES)
        return broker, client

    async def pair(self) -> tuple[Broker, Broker, Client, Client]:
        """Two brokers and a client at each; both know the trades, which the first has declared."""
        a, publisher = await self.alone()
        b = await self.broker("b", a)
        subscriber = await self.client(b)
        await knows_space(subscriber)
        return a, b, publisher, subscriber


async def knows_space(client: Client, name: str = "trades") -> None:
    """A declaration made elsewhere has come to the client's broker."""

    async def known() -> bool:
        return name in await client.spaces()

    await until(known)


async def wanted_at(broker: Broker, origin: str, count: int = 1) -> None:
    """The broker has heard that clients of another have so many subscriptions."""
    await until(lambda: len(broker.router.state()["subscriptions"].get(origin, ())) == count)


class Process:
    """`contentcast ...` as a real process; its stdout and stderr go to files, so that nothing waits for a reader."""

    def __init__(
        self, folder: Path, *words: str, stdin: Any = subprocess.DEVNULL, before: Callable[[], None] | None = None
    ) -> None:
        self.name = "-".join(each for each in words[:2] if each.isidentifier())
        number = len(list(folder.glob("*.out")))
        self.out, self.err = folder / f"{number}.out", folder / f"{number}.err"
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.running = subprocess.Popen(
                [sys.executable, "-m", "contentcast.cli", *words],
                stdin=stdin,
                stdout=out,
                stderr=err,
                env=environment,
                preexec_fn=before,
            )

    def said(self) -> str:
        return self.out.read_text()

    def complained(self) -> str:
        return self.err.read_text()

    async def line(self, start: str = "") -> str:
        """The first whole line that begins so."""

        def found() -> str | None:
            assert self.running.poll() in (None, 0), self.complained()
            lines = [each for each in self.said().splitlines(keepends=True) if each.endswith("\n") and each.startswith(start)]
            return lines[0] if lines else None

        line: str = await until(found, LIMIT_S)
        return line

    async def ended(self) -> int:
        await until(lambda: self.running.poll() is not None, LIMIT_S)
        return int(self.running.returncode)

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.running.send_signal(number)

    def end(self) -> None:
        if self.running.poll() is None:
            self.running.kill()
        self.running.wait()


class Proxy:
    """Stands between a client and its broker: it can hold back what the broker answers, and cut all connections."""

    def __init__(self, broker: Broker) -> None:
        self._address = broker.addresses[0]
        self.answers = True
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"contentcast://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._address.host, self._address.port)
        self._writers += [writer, back]
        for source, sink, is_answer in ((reader, back, False), (there, writer, True)):
            self._tasks.add(asyncio.create_task(self._carry(source, sink, is_answer)))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if self.answers or not is_answer:
                    sink.write(data)
                    await sink.drain()
        sink.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
