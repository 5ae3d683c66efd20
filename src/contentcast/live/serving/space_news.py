"""Spaces among brokers without links: whoever meets another tells it all spaces that it knows, and tells on what is new.

Brokers with links tell each other spaces over them (`routing.parts.spaces`). A node of the overlay has direct connections only:
what a peer names is declared here too, and named to all others. Connections of a ring hold together, so all nodes hear of it.
Rule: a connection is told a version of a space once, so this ends by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from contentcast.live.links.connection import Connection
from contentcast.live.serving.spaces import LiveSpaces
from contentcast.live.settings.limits import LimitError
from contentcast.model import Space, SpaceError
from contentcast.routing.contract import Declared, Input


class Host(Protocol):
    def handle(self, input: Input) -> None: ...


class SpaceNews:
    def __init__(self, host: Host, spaces: LiveSpaces, peers: Callable[[], Iterable[Connection]]) -> None:
        self._host = host
        self._spaces = spaces
        self._peers = peers
        self._is_begun = self._is_wanted = False
        self._early: list[Space] = []
        """Named by the one through whom this broker joins, before its router is there."""
        spaces.on_news = self.tell

    def begin(self, needs_links: bool) -> None:
        """The router is there."""
        self._is_begun, self._is_wanted = True, not needs_links
        early, self._early = self._early, []
        self.heard(early)
        self.tell()

    def tell(self) -> None:
        """To all who are connected directly."""
        if self._is_wanted:
            for connection in self._peers():
                connection.name_spaces(list(self._spaces.present.values()))

    def heard(self, spaces: Iterable[Space]) -> None:
        """A broker has named spaces, because it uses them or because it tells them on."""
        if not self._is_wanted:
            self._early += spaces if not self._is_begun else ()
            return
        for space in spaces:
            known = self._spaces.present.get(space.name)
            if known is not None and known.extends(space):
                continue
            with suppress(SpaceError, LimitError):  # the one that was here first counts
                self._spaces.check(space)
                self._host.handle(Declared(space))
                self._spaces.declared(space)
