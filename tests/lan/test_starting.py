"""How servers start: with a mapping of their own, together with others of their process, and not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from contentcast.language import advertisement
from contentcast.live.lan import connect_lan, connecting
from contentcast.live.lan.server import LanServer
from contentcast.model import ContentcastError, Space
from contentcast.routing.multicast import Group, MappingId, MappingSpecification, Row
from tests.lan.loopback import TRADES, Lan, heard, members, run, trades


def by_issue(lan: Lan, first: int, issue: str = "IBM", number: int = 0) -> MappingSpecification:
    control = Group.of(f"udp_ipm://239.192.77.0:{lan.port}")
    filter = {**dict.fromkeys(TRADES.names, "ANY"), "issue": f"issue = '{issue}'"}
    row = Row(advertisement(TRADES, 0, filter), str(control.following(first)))
    return MappingSpecification((row,), (str(control.following(first + 1)),), str(control), MappingId(number))


@pytest.mark.parametrize("left", [0, 3, None])
def test_programs_that_start_with_different_mappings_agree_on_one_and_lose_nothing(left: int | None) -> None:
    """Two mappings without a number had the same id, so nobody noticed; events went where their reader did not listen."""

    async def story(lan: Lan) -> None:
        publisher = await lan.client(mapping=None if left is None else by_issue(lan, 50, number=left))
        reader = await lan.client(mapping=by_issue(lan, 70))
        got: list[float] = []
        await reader.subscribe("trades", deliver=lambda each: got.append(each["price"]))
        await heard(publisher)
        for each in trades(20):
            await publisher.publish("trades", [each])
        agreements = [each.server.router.agreement for each in (publisher, reader)]
        await reader.until(lambda: len({each.uses for each in agreements}) == 1 and agreements[0].sending() is not None)
        for each in trades(20, 20):
            await publisher.publish("trades", [each])
        await reader.until(lambda: len(got) == 40)
        assert sorted(got) == [float(at) for at in range(40)]  # once each; in order within a group only
        groups = {row.group for each in agreements for row in each.sending().rows}  # type: ignore[union-attr]
        greater = {0: (50, 70), 3: (50,), None: (70,)}[left]  # of equal numbers either, but the same everywhere
        assert len(groups) == 1
        assert groups <= {by_issue(lan, each).rows[0].group for each in greater}

    run(story)


def test_who_proposes_a_mapping_right_after_joining_waits_for_its_own() -> None:
    """It used to take the mapping with which it caught up for the one that it had proposed."""

    async def story(lan: Lan) -> None:
        first = await lan.client()
        await lan.client()
        await first.propose(by_issue(lan, 50))
        operator = await lan.client()
        await operator.until(lambda: len(members(operator)) == 2)
        id = await operator.propose(by_issue(lan, 70))
        assert id == (2, operator.server.name)
        assert operator.server.router.agreement.uses == id

    run(story)


def test_of_two_proposals_at_the_same_moment_one_is_told_that_the_other_holds() -> None:
    async def story(lan: Lan) -> None:
        one, other = [await lan.client() for _ in range(2)]
        await one.until(lambda: len(members(one)) == 1 and len(members(other)) == 1)
        both = await asyncio.gather(one.propose(by_issue(lan, 50)), other.propose(by_issue(lan, 70)), return_exceptions=True)
        held = [each for each in both if isinstance(each, MappingId)]
        (refused,) = [str(each) for each in both if isinstance(each, ContentcastError)]
        assert f"the servers use the mapping {held[0]}, which came at the same moment" in refused

    run(story)


def test_clients_of_one_process_with_different_mappings_have_servers_of_their_own() -> None:
    async def story(lan: Lan) -> None:
        one = await connect_lan(lan.url(), mapping=by_issue(lan, 50))
        same = await connect_lan(lan.url(), mapping=by_issue(lan, 50))
        other = await connect_lan(lan.url(), mapping=by_issue(lan, 50, "SAP"))
        assert one.server is same.server
        assert other.server is not one.server
        for each in (one, same, other):
            await each.close()
        assert connecting._shared == {}

    run(story)


def test_a_client_that_gives_up_leaves_the_server_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients start the server that they share; one runs out of time."""
    starting = LanServer.start
    go = asyncio.Event()

    async def slow(self: LanServer) -> LanServer:
        await go.wait()
        return await starting(self)

    monkeypatch.setattr(LanServer, "start", slow)

    async def story(lan: Lan) -> None:
        async def connected() -> Any:
            return await connect_lan(lan.url(), spaces=(TRADES,))

        hasty, patient = asyncio.create_task(connected()), asyncio.create_task(connected())
        await asyncio.sleep(0)
        hasty.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hasty
        go.set()
        client = await patient
        got: list[Any] = []
        await client.subscribe("trades", deliver=got.append)
        await client.publish("trades", trades(1))
        assert len(got) == 1
        await client.close()
        assert connecting._shared == {}

    run(story)


def test_a_client_whose_spaces_are_refused_leaves_no_server_behind() -> None:
    async def story(lan: Lan) -> None:
        async with connect_lan(lan.url(), spaces=(TRADES,)):
            with pytest.raises(ContentcastError):
                await connect_lan(lan.url("insecure=no"), spaces=(TRADES, Space("trades", issue="int")))
            assert len(connecting._shared) == 1

    run(story)
