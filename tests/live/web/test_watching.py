"""Looking at brokers that move: one that another broker told of is dialled where it listens by now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from contentcast.live.client import watching
from contentcast.live.client.watching import Watcher
from contentcast.model import ContentcastError
from tests.live.stories import story

A, OLD, NEW = (f"contentcast://127.0.0.1:{port}" for port in (7001, 7002, 7003))


class Network:
    """Which broker answers at which address, and where a says that b listens."""

    def __init__(self) -> None:
        self.at = {A: "a", OLD: "b"}
        self.told = OLD

    async def connect(self, urls: Iterable[str], **_: Any) -> Connected:
        for url in urls:
            if url in self.at:
                return Connected(self, url)
        raise ContentcastError("no broker answers")


class Connected:
    def __init__(self, network: Network, url: str) -> None:
        self.network, self.url, self.broker, self.name = network, url, network.at[url], "web"

    @property
    def is_connected(self) -> bool:
        return self.url in self.network.at

    async def ask(self, what: str, **_: Any) -> Mapping[str, Any]:
        if not self.is_connected:
            raise ContentcastError("the connection is lost")
        return {"addresses": {"a": [A], "b": [self.network.told]}}

    async def close(self) -> None:
        pass


@story
async def test_a_broker_that_has_moved_is_looked_at_where_others_say_that_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network()
    monkeypatch.setattr(watching, "connect", network.connect)
    watcher = Watcher([A], follow=True)

    async def look() -> dict[str, str]:
        return {each.name: each.problem for each in await watcher.look()}

    assert await look() == {"a": "", "b": ""}
    network.at = {A: "a", NEW: "b"}
    assert await look() == {"a": "", "b": "the connection is lost"}
    network.told = NEW
    await look()  # a tells where b is
    assert await look() == {"a": "", "b": ""}
    await watcher.close()


@story
async def test_a_mistake_of_ours_is_raised_once_and_the_next_look_asks_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network()
    monkeypatch.setattr(watching, "connect", network.connect)
    watcher = Watcher([A])
    with monkeypatch.context() as mistaken:
        mistaken.setattr(Connected, "ask", None)
        with pytest.raises(TypeError):
            await watcher.look()
    assert [each.problem for each in await watcher.look()] == [""]
    await watcher.close()
