"""The spaces as one broker's host knows them: to read what comes in, and to tell clients.

Two uses. To decode, every version that was ever named counts (`versions`). To subscribe and to publish, the present version of
each name counts (`present`): all that was declared here or heard of from other brokers, joined.
Rule: the router has the last word; a declaration counts here once the router has taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from contentcast.live.settings.limits import LimitError, Limits
from contentcast.model import ContentcastError, Space, SpaceError
from contentcast.model.errors import nearest
from contentcast.wire import SpaceVersions


class LiveSpaces:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.versions = SpaceVersions()
        self.present: dict[str, Space] = {}
        self.on_news: Callable[[], None] | None = None
        """Called when a present version has changed."""

    def check(self, space: Space) -> None:
        if len(space) > self.limits.attributes:
            raise LimitError("attributes", f"the space {space.name} has {len(space)} attributes")
        if space.name not in self.present and len(self.present) >= self.limits.spaces:
            raise LimitError("spaces", f"{len(self.present)} spaces are declared, and {space.name} would be one more")

    def named(self, spaces: Iterable[Space]) -> None:
        """Somebody is about to use these."""
        for space in spaces:
            if len(self.versions.named(space.name)) > self.limits.spaces or len(self.versions) > self.limits.spaces:
                raise LimitError("spaces", f"too many versions of spaces, with {space.name}")
            self.versions.declare(space)

    def declared(self, space: Space) -> Space:
        """The present version after this declaration."""
        before = self.present.get(space.name)
        try:
            now = space if before is None else before.joined(space)
        except SpaceError:
            return before or space  # another broker's; the router says which of the two counts
        self.present[space.name] = now
        self.versions.declare(now)
        if now != before and self.on_news is not None:
            self.on_news()
        return now

    def of(self, name: str) -> Space:
        found = self.present.get(name)
        if found is None:
            near = nearest(name, self.present, "declared are")
            raise ContentcastError(f"no space {name!r} is declared{near}; client.declare(space) declares one")
        return found
