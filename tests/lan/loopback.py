"""A LAN of one computer for tests: groups and ports of its own on loopback, and servers that do not share."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from contentcast.live.lan import LanClient, connect_lan
from contentcast.model import Space
from contentcast.routing.multicast import MappingSpecification

TRADES = Space("trades", issue="string", price="float")
_held: Final[list[socket.socket]] = []
"""One for each port that a test has had: the system gives it to no other process of tests until this one ends."""


def _free_port() -> int:
    """Who listens to a group binds the group's address, and is not disturbed by a socket at 127.0.0.1."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return int(holder.getsockname()[1])


class Lan:
    """Each `client` is a server of its own, as in another process: the address differs in a word that changes nothing."""

    def __init__(self) -> None:
        self.port = _free_port()
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
