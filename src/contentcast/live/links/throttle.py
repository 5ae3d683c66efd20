"""Publishers wait while a link is half full: nothing more is read from them.

Rule: only those who have published are held back; a client that only subscribes can always be heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from contentcast.live.links.connection import Connection


class Throttle:
    def __init__(self, links: Callable[[], Iterable[Connection]], publishers: Callable[[], Iterable[Connection]]) -> None:
        self.held: set[Connection] = set()
        self._links = links
        self._publishers = publishers

    def check(self, most_bytes: int) -> None:
        if any(each.queued > most_bytes for each in self._links()):
            for connection in self._publishers():
                if connection not in self.held:
                    self.held.add(connection)
                    connection.pause_reading()
        elif self.held:
            for connection in self.held:
                connection.resume_reading()
            self.held.clear()

    def lost(self, connection: Connection) -> None:
        self.held.discard(connection)
