"""Publishers wait while a link is half full, and whoever is further ahead than its window waits for the disk: nothing more is
read from them.

Rule: only those who have published are held back; a client that only subscribes can always be heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from contentcast.live.links.connection import Connection

Connections = Callable[[], Iterable[Connection]]


class Throttle:
    """`ahead`: the publishers that do not keep to their window. Clients of this package do, and are never among them."""

    def __init__(self, links: Connections, publishers: Connections, ahead: Connections) -> None:
        self.held: set[Connection] = set()
        self._links = links
        self._publishers = publishers
        self._ahead = ahead

    def check(self, most_bytes: int) -> None:
        wanted = set(self._ahead())
        if any(each.queued > most_bytes for each in self._links()):
            wanted.update(self._publishers())
        for connection in wanted - self.held:
            connection.pause_reading()
        for connection in self.held - wanted:
            connection.resume_reading()
        self.held = wanted

    def lost(self, connection: Connection) -> None:
        self.held.discard(connection)
