"""`connect`: to be awaited, or to be entered with `async with`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, cast

from contentcast.live.client.client import Client
from contentcast.live.client.conversation import OnChange, ShownToken
from contentcast.live.client.subscribing import MOST_WAITING
from contentcast.live.settings.address import read_addresses
from contentcast.live.settings.tls import client_context
from contentcast.model.errors import ContentcastError


class Connecting:
    """What `connect` returns: to be awaited, or to be entered with `async with`."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._make().open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._make().open()
        return self._client

    async def __aexit__(self, *raised: Any) -> None:
        if self._client is not None:
            await self._client.__aexit__(*raised)


def connect(
    url: str | Iterable[str] = "contentcast://127.0.0.1",
    *,
    name: str = "",
    token: ShownToken = "",
    authority: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    reconnect: bool = True,
    on_change: OnChange | None = None,
    most_waiting: int = MOST_WAITING,
) -> Connecting:
    """A client of the broker at `url`, or of any of several (a list, or commas between them).

    lan://GROUP:PORT is a client on a LAN without a broker, which has the same verbs (`live.lan`). `authority`, `certificate`
    and `key` are PEM files for contentcasts://; `token` is a signed one, or a function that
    gives one for each connection; without such a function the client ends when its token expires. `on_change` is called with
    "lost", "waiting", "trying", "connected", "refused" or "failed", and what it is about.

    Who has published to a broker with a data folder, or subscribes durably there, goes back to that broker and to no other.
    """
    if isinstance(url, str) and url.startswith("lan://"):
        if name or token or authority or certificate or key:
            raise ContentcastError(
                "on a LAN there is no broker to show a name or a token to; the key of a LAN stands in its address"
            )
        from contentcast.live.lan import connect_lan

        return cast(Connecting, connect_lan(url))  # its client has the same verbs
    addresses = read_addresses(url if isinstance(url, str) else list(url))

    def make() -> Client:
        tls = client_context(authority, certificate, key) if any(each.secure for each in addresses) else None
        return Client(
            addresses,
            name=name,
            token=token,
            tls=tls,
            reconnect=reconnect,
            on_change=on_change,
            most_waiting=most_waiting,
        )

    return Connecting(make)


def token_in(file: str) -> Callable[[], str]:
    """What this file holds whenever a token is shown: another one takes its place before it expires."""

    def read() -> str:
        return Path(file).read_text(encoding="utf-8").strip()

    read()  # what cannot be read is said at once
    return read
