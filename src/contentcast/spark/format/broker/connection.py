"""What a user can tell the source and the sink about a broker, and the client that both reach it with.

Rule: one broker is named, never several. The numbers of a durable subscription and of a publisher are known to one broker
alone, so another would begin to count anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

from contentcast.live.client import SyncClient, connect_sync
from contentcast.live.errors import LiveError, NotConnected
from contentcast.model import ContentcastError
from contentcast.model.errors import nearest

LOGIN: Final = ("token", "authority", "certificate", "key")
"""Options that are handed to `connect_sync`; files must be there on every machine that runs tasks."""
PATIENCE_S: Final = 120.0
"""How long a task waits for a broker that starts again before it fails; the stream's own connection waits for ever."""
GRACE_S: Final = 10.0
"""The same for a driver that looks before it begins: a broker that has just started may be slow to greet."""
RETRY_S: Final = 0.25


class BrokerOptionError(ContentcastError):
    """Options of `format("contentcast")` for a broker that cannot be."""


@dataclass(frozen=True)
class Broker:
    """Which broker, which space, and as whom."""

    url: str
    space: str
    login: tuple[tuple[str, str], ...] = ()

    @contextmanager
    def client(self, patience_s: float = GRACE_S) -> Iterator[SyncClient]:
        with self.connect(patience_s) as client:
            yield client

    def connect(self, patience_s: float = GRACE_S) -> SyncClient:
        """`patience_s`: for so long it tries again if no broker answers."""
        until = monotonic() + patience_s
        while True:
            try:
                return connect_sync(self.url, **dict(self.login))
            except NotConnected:
                if monotonic() >= until:
                    raise
                sleep(RETRY_S)


def read_broker(options: Mapping[str, str], known: tuple[str, ...], what: str) -> tuple[Broker, dict[str, str]]:
    """The broker, and the other options by their own names; a slip is answered with the nearest one."""
    names = {name.lower(): name for name in ("broker", "space", *known, *LOGIN)}
    given: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() not in names:
            raise BrokerOptionError(f"{what} has no option {name!r}{nearest(name, list(names.values()))}")
        given[names[name.lower()]] = value
    url, space = given.pop("broker"), given.pop("space", "")
    if "," in url:
        raise BrokerOptionError(f"option broker names one broker, not {url!r}: numbers are known to one broker alone")
    if not space:
        raise BrokerOptionError(f"{what}: which space? Add option('space', NAME)")
    login = tuple((name, given.pop(name)) for name in LOGIN if name in given)
    return Broker(url, space, login), given


def whole(given: Mapping[str, str], name: str, least: int, usual: int) -> int:
    text = given.get(name, str(usual)).strip()
    if not text.isdecimal() or int(text) < least:
        raise BrokerOptionError(f"option {name} is a whole number from {least} on, got {given[name]!r}")
    return int(text)


def check_durable(client: SyncClient, url: str) -> None:
    """A broker without a data folder forgets which numbers it has accepted."""
    try:
        client.place("contentcast spark")
    except LiveError as reason:
        if reason.code == "no-data":
            raise BrokerOptionError(
                f"{url} keeps nothing on disk, so what is repeated would be published twice; start it with --data FOLDER"
            ) from None
