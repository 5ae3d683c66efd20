"""The sockets that a broker listens on, and the certificates that it shows there.

Rule: a renewed certificate counts for connections that are made after a reload; the sockets stay open meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Callable
from dataclasses import replace

from contentcast.live.links.connection import Connection
from contentcast.live.settings.address import Address
from contentcast.live.settings.tls import Tls
from contentcast.model import ContentcastError


def taken(reason: OSError) -> str:
    """Why a socket cannot listen, in words that say what to do."""
    match reason.errno:
        case errno.EADDRINUSE:
            return "another program listens there; take another port, 0 for a free one"
        case errno.EADDRNOTAVAIL:
            return "it is no address of this machine"
        case int(number) if number > 0:
            return os.strerror(number)
    return reason.strerror or str(reason)


class Listening:
    def __init__(self) -> None:
        self.addresses: tuple[Address, ...] = ()
        """Where it listens, once it does."""
        self._servers: list[asyncio.Server] = []
        self._context: ssl.SSLContext | None = None

    async def open(self, wanted: tuple[Address, ...], tls: Tls | None, make: Callable[[], Connection]) -> None:
        loop = asyncio.get_running_loop()
        found = []
        if tls is not None and any(each.secure for each in wanted):
            self._context = tls.server()
        for address in wanted:
            context = self._context if address.secure else None
            try:
                server = await loop.create_server(make, address.host, address.port, ssl=context, backlog=1024)
            except OSError as reason:
                raise ContentcastError(f"{address}: cannot listen there: {taken(reason)}") from None
            self._servers.append(server)
            found.append(replace(address, port=server.sockets[0].getsockname()[1]))
        self.addresses = tuple(found)

    def renew(self, tls: Tls | None) -> None:
        """Reads the certificate, the key and the authority again. An authority that was trusted before stays so."""
        if self._context is not None and tls is not None:
            tls.renew(self._context)

    def close(self) -> None:
        for server in self._servers:
            server.close()
