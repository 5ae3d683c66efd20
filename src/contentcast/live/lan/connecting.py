"""`connect_lan`: a client on a LAN, to be awaited or to be entered with `async with`.

Rule: clients of one process and one address share one server, so that an event between them is a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from contentcast.live.lan.client import LanClient
from contentcast.live.lan.options import LanOptions
from contentcast.live.lan.server import LanServer
from contentcast.model import Space
from contentcast.routing.multicast import MappingSpecification
from contentcast.routing.multicast.mapping import MappingId

Key = tuple[asyncio.AbstractEventLoop, str, MappingId]
_shared: dict[Key, tuple[asyncio.Task[LanServer], int]] = {}
"""By loop, address and mapping: the server, and how many clients have it."""


class ConnectingLan:
    """`await connect_lan(...)` and `async with connect_lan(...)`."""

    def __init__(self, url: str, spaces: tuple[Space, ...], mapping: MappingSpecification | None) -> None:
        self._url, self._spaces = url, spaces
        self._options = LanOptions.of(url, mapping)
        self._client: LanClient | None = None

    def __await__(self) -> Any:
        return self._open().__await__()

    async def _open(self) -> LanClient:
        key = (asyncio.get_running_loop(), self._url, self._options.mapping.id)

        async def let_go() -> None:
            await _let_go(key)

        client = LanClient(await _have(key, self._options), let_go)
        try:
            for each in self._spaces:
                await client.declare(each)
        except BaseException:
            await client.close()
            raise
        self._client = client
        return client

    async def __aenter__(self) -> LanClient:
        return await self._open()

    async def __aexit__(self, *ended: object) -> None:
        if self._client is not None:
            await self._client.__aexit__(*ended)


def connect_lan(url: str, *, spaces: Iterable[Space] = (), mapping: MappingSpecification | None = None) -> ConnectingLan:
    """A client on the LAN of this address (see `options`). `spaces` are declared at once.

    `mapping`: what the server starts with. If others have another one, all agree on the one with the greater number.
    """
    return ConnectingLan(url, tuple(spaces), mapping)


async def _have(key: Key, options: LanOptions) -> LanServer:
    starting, users = _shared.get(key, (None, 0))
    if starting is None:
        starting = asyncio.create_task(LanServer(options).start())
    _shared[key] = (starting, users + 1)
    try:
        return await asyncio.shield(starting)  # whoever gives up leaves it to the others
    except BaseException:
        if key in _shared and _shared[key][0] is starting:
            await _let_go(key)
        raise


async def _let_go(key: Key) -> None:
    starting, users = _shared[key]
    if users > 1:
        _shared[key] = (starting, users - 1)
        return
    del _shared[key]
    if not starting.done():
        starting.cancel()
    elif not starting.cancelled() and starting.exception() is None:
        await starting.result().stop()
