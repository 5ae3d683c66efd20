"""A LAN of one computer for tests: groups and ports of its own on loopback, and servers that do not share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from contentcast.live.lan import LanClient, connect_lan
from contentcast.model import Space
from contentcast.routing.multicast import MappingSpecification

TRADES = Space("trades", issue="string", price="float")
_ports = count(20_000 + os.getpid() % 20_000)


class Lan:
    """Each `client` is a server of its own, as in another process: the address differs in a word that changes nothing."""

    def __init__(self) -> None:
        self.port = next(_ports) % 40_000 + 20_000
        self._clients: list[LanClient] = []

    def url(self, *more: str) -> str:
        return "&".join([f"lan://239.192.77.0:{self.port}?interface=127.0.0.1", *more])

    async def client(
        self, *more: str, mapping: MappingSpecification | None = None, spaces: tuple[Space, ...] = (TRADES,)
    ) -> LanClient:
        different = "&insecure=no" * len(self._clients)
        made = await connect_lan(self.url(*more) + different, spaces=spaces, mapping=mapping)
        self._clients.append(made)
        return made

    async def __aenter__(self) -> Lan:
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in self._clients:
            await each.close()


def wanting(client: LanClient, members: int) -> bool:
    """Does this server know that so many others want something?"""
    return sum(bool(each.record.blocks) for each in client.server.router.members.members.values()) == members


async def heard(client: LanClient, members: int = 1) -> None:
    await client.until(lambda: wanting(client, members), 10, f"{members} others want something")


def run(story: Callable[[Lan], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Lan() as lan, asyncio.timeout(240):  # where kernels are compiled first, that takes a minute
            await story(lan)

    asyncio.run(main())


def trades(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"issue": "IBM" if at % 2 else "SAP", "price": float(at)} for at in range(first, first + count)]


def members(client: Any) -> list[Any]:
    return list(client.server.router.members.members.values())
