"""Rights that are taken away while somebody uses them: what stands is narrowed or ends, and its client is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.errors import LiveError
from contentcast.live.looking.log import Silent
from contentcast.live.settings.access import Access, Rights
from tests.live.stories import TRADE, TRADES, Net, story, until
from tests.live.test_access import Tokens

FEED = Rights({"trades": "TRUE"}, {}, declare=True)
DESK = Rights({"trades": "TRUE"}, {"trades": "TRUE"})
IBM = Rights({"trades": "issue = 'IBM'"}, {"trades": "issue = 'IBM'"})
SAP = TRADE | {"issue": "SAP"}
tokens = Tokens()


def rights(**of: Rights) -> Access:
    return Access((tokens.public,), {"feed": FEED, **of})


def change(broker: Broker, access: Access) -> None:
    broker.reload(lambda: replace(broker.config, access=access))


class Desk(Net):
    """A broker, a feed, and a desk that notes what it gets and what it is told."""

    async def open(self, **settings: Any) -> Broker:
        a = await self.broker("a", access=rights(desk=DESK), **settings)
        self.feed = await self.client(a, token=tokens.of("feed"))
        await self.feed.declare(TRADES)
        self.got: list[Any] = []
        self.told: list[tuple[str, str]] = []
        self.desk = await self.client(a, token=tokens.of("desk"), on_change=lambda what, about: self.told.append((what, about)))
        return a


@story
async def test_subscriptions_are_narrowed_and_end_with_their_rights() -> None:
    async with Desk() as net:
        a = await net.open()
        await net.desk.subscribe("trades", "price < 1000", deliver=net.got.append)
        await net.feed.publish("trades", [SAP, TRADE])
        await until(lambda: net.got == [SAP, TRADE])
        change(a, rights(desk=IBM))
        await until(lambda: net.told)
        assert net.told[0][0] == "refused"
        assert "narrowed to issue = 'IBM' AND price < 1000.0" in net.told[0][1]
        await net.feed.publish("trades", [SAP, TRADE])
        await until(lambda: len(net.got) == 3)
        assert net.got[2] == TRADE
        change(a, rights(desk=Rights(subscribe={})))
        await until(lambda: len(net.told) == 2)
        assert "it needs the right subscribe" in net.told[1][1]
        await net.feed.publish("trades", [SAP, TRADE])
        await net.desk.ask("spaces")  # whatever was for it has come before this answer
        assert len(net.got) == 3
        assert len(a.deliveries) == 0
        change(a, rights(desk=DESK))
        await net.desk.subscribe("trades", "price < 1000", deliver=net.got.append)


@pytest.mark.parametrize("left", [{}, {"desk": Rights()}])
@story
async def test_an_identity_that_is_removed_gets_nothing_more(left: Mapping[str, Rights]) -> None:
    async with Desk() as net:
        a = await net.open()
        await net.desk.subscribe("trades", deliver=net.got.append)
        await net.desk.advertise("trades", "price < 5")
        change(a, rights(**left))
        await until(lambda: net.told)
        assert "and 1 more" in net.told[0][1]
        await net.feed.publish("trades", TRADE)
        with pytest.raises(LiveError, match="may not subscribe"):
            await net.desk.subscribe("trades", deliver=print)
        assert net.got == []
        assert a.router.local.advertisements == {}  # type: ignore[attr-defined]


@story
async def test_advertisements_are_narrowed_with_their_rights() -> None:
    async with Desk() as net:
        a = await net.open()
        await net.desk.advertise("trades", "price < 5")
        change(a, rights(desk=IBM))
        (left,) = a.router.local.advertisements.values()  # type: ignore[attr-defined]
        assert not left.allowed["issue"][0].accepts("SAP")
        assert not left.allowed["price"][0].accepts(7.0)


@story
async def test_who_shows_no_identity_is_served_no_longer_and_no_link_is_left_without_a_proof() -> None:
    async with Net() as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        stranger = await net.client(a)
        change(a, rights())
        await until(lambda: not a.neighbours.links and not b.neighbours.links)
        assert isinstance(a.log, Silent)
        assert any(what == "link no longer allowed" and facts["link"] == "b" for what, facts in a.log.notes)

        async def ended() -> bool:
            try:
                await stranger.spaces()
            except cc.ContentcastError as reason:
                return "a certificate or a token" in str(reason)
            return False

        await until(ended)


@story
async def test_a_durable_subscription_is_narrowed_whether_its_client_is_there_or_not(tmp_path: Path) -> None:
    """`here` is read, nobody reads `away`. What was accepted while the right held still comes."""
    async with Desk() as net:
        a = await net.open(data=tmp_path)
        await (await net.desk.subscribe("trades", durable="away", deliver=print)).leave()
        await net.desk.subscribe("trades", durable="here", deliver=net.got.append)
        await net.feed.publish("trades", [SAP, TRADE])
        await until(lambda: len(net.got) == 2)
        change(a, rights(desk=IBM))
        await net.feed.publish("trades", [SAP, TRADE])
        await until(lambda: len(net.got) == 3)
        assert net.got == [SAP, TRADE, TRADE]
        assert (await net.desk.place("away")).last == 3
        change(a, rights())
        await until(lambda: any(what == "taken-over" and "it needs the right subscribe" in why for what, why in net.told))
        await net.feed.publish("trades", [SAP, TRADE])
        await a.stop()
        config = replace(a.config, listen=a.addresses, access=rights(desk=DESK))
        await net.enter_async_context(Broker(config, log=Silent()))
        place = await net.desk.place("away")
        assert (place.predicate, place.last) == ("FALSE", 3), "nothing was kept for it, and nothing is widened by itself"
        again: list[Any] = []
        await net.desk.subscribe("trades", durable="away", deliver=again.append)
        await until(lambda: len(again) == 3)
        await net.feed.publish("trades", SAP)
        await until(lambda: again == [SAP, TRADE, TRADE, SAP])


@story
async def test_a_broker_that_starts_with_fewer_rights_keeps_less(tmp_path: Path) -> None:
    async with Desk() as net:
        a = await net.open(data=tmp_path)
        await (await net.desk.subscribe("trades", durable="away", deliver=print)).leave()
        await a.stop()
        config = replace(a.config, listen=a.addresses, access=rights(desk=IBM))
        await net.enter_async_context(Broker(config, log=Silent()))
        assert (await net.desk.place("away")).predicate == "issue = 'IBM'"
