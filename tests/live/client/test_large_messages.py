"""What does not fit into one message of a client is cut, or refused by the call that made it; and nothing is sent for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import contentcast as cc
from contentcast.live.client.client import Client
from contentcast.live.client.message_size import text_parts
from contentcast.live.errors import LiveError
from contentcast.live.links.dialling import BackOff
from contentcast.live.settings.limits import Limits
from contentcast.wire.client import Ask
from tests.live.stories import TRADE, Net, Process, story, until

BLOBS = cc.Space("blobs", b="bytes", n="int")
SMALL = Limits(client_message_bytes=100_000)
NAMED = "limit client_message_bytes"


async def small_broker(net: Net) -> Client:
    """A client at a broker that accepts messages of 100,000 bytes."""
    client = await net.client(await net.broker("a", limits=SMALL))
    await client.declare(BLOBS)
    return client


@story
async def test_an_event_that_is_too_large_is_the_error_of_its_call() -> None:
    async with Net() as net:
        client = await small_broker(net)
        large = {"b": bytes(200_000)}
        with pytest.raises(LiveError, match=rf"an event of blobs takes 200,\d+ bytes.* accepts 100,000 .*{NAMED}"):
            await client.publish("blobs", large)
        with pytest.raises(LiveError, match=NAMED):
            await client.publish("blobs", [{"b": b"small"}, large])
        sent = await client.publish("blobs", large, wait=False)
        with pytest.raises(LiveError, match=NAMED):
            await sent
        assert (await client.publish("blobs", {"b": b"small"})).events == 1
        assert client.reconnections == 0


@story
async def test_an_event_that_fits_into_no_frame_at_all_is_refused_as_well() -> None:
    """Beyond 64 MiB there is no message, whatever the broker says."""
    async with Net() as net:
        client = await net.client(await net.broker("a"))
        await client.declare(BLOBS)
        with pytest.raises(LiveError, match=NAMED):
            await client.publish("blobs", {"b": bytes(65 * 2**20)})
        assert (await client.publish("blobs", {"b": b"small"})).events == 1


@story
async def test_events_one_by_one_go_in_as_many_messages_as_they_need() -> None:
    async with Net() as net:
        client = await small_broker(net)
        got: list[Any] = []
        await client.subscribe("blobs", deliver=got.append)
        for n in range(200):
            await client.publish("blobs", {"b": bytes(10_000), "n": n}, wait=False)
        await client.flush()
        await until(lambda: len(got) == 200)
        assert [each["n"] for each in got] == list(range(200))
        assert client.reconnections == 0


@story
async def test_a_batch_with_few_large_events_is_cut_where_it_must_be() -> None:
    """Its mean says nothing about the end, where the large ones are."""
    async with Net() as net:
        client = await small_broker(net)
        got: list[Any] = []
        await client.subscribe("blobs", deliver=got.append)
        events = [{"n": n} for n in range(1000)] + [{"n": n, "b": bytes(40_000)} for n in range(1000, 1010)]
        assert (await client.publish("blobs", events)).events == 1010
        await until(lambda: len(got) == 1010)
        assert [each["n"] for each in got] == list(range(1010))
        assert client.reconnections == 0


@story
async def test_a_batch_with_a_number_is_not_cut_but_refused() -> None:
    async with Net() as net:
        client = await small_broker(net)
        events = [{"b": bytes(10_000)}] * 20
        with pytest.raises(LiveError, match=rf"batch 1 of the publisher 'feed' takes .*{NAMED}.*publish smaller batches"):
            await client.publish("blobs", events, publisher="feed", number=1)
        assert not (await client.publish("blobs", events[:5], publisher="feed", number=1)).duplicate


@story
async def test_many_long_predicates_go_in_as_many_messages_as_they_need() -> None:
    async with Net() as net:
        client = await small_broker(net)
        texts = [f"n = {n} OR {' OR '.join(f'n = {n * 10}' for _ in range(30))}" for n in range(1000)]
        assert sum(map(len, texts)) > 2 * SMALL.client_message_bytes
        many = await client.subscribe_many("blobs", texts)
        assert len(many.ids) == 1000
        assert client.reconnections == 0
        with pytest.raises(cc.PredicateError):
            await client.subscribe_many("blobs", [*texts, "n ="])
        await until(lambda: len(net.brokers["a"].deliveries) == 1000)  # the parts before the mistake are taken back
        await many.unsubscribe()
        assert len(net.brokers["a"].deliveries) == 0


def test_parts_of_texts_cover_all_of_them() -> None:
    assert list(text_parts(["x" * 30] * 5, 200)) == [(0, 2), (2, 4), (4, 5)]
    assert list(text_parts(["x" * 500, "y"], 200)) == [(0, 1), (1, 2)]
    assert list(text_parts([], 200)) == []


@story
async def test_a_question_that_no_message_can_hold_harms_no_later_one() -> None:
    """Neither now nor after the next reconnection, when what waits for an answer is sent again."""
    async with Net() as net:
        a, client = await net.alone()
        with pytest.raises(cc.ContentcastError, match="does not fit the wire"):
            await client.ask("state", number=2**70)
        with pytest.raises(cc.ContentcastError, match="does not fit the wire"):
            await client.subscribe("trades", "issue = '\ud800'", deliver=print)
        with pytest.raises(LiveError, match=rf"the message Ask takes .*{NAMED}"):
            await client.ask("state", text="x" * 17 * 2**20)
        a.serving.sessions[client.name].connection.abort()
        await until(lambda: client.reconnections == 1)
        assert (await client.publish("trades", TRADE)).events == 1


@story
async def test_what_a_broker_cannot_handle_is_sent_twice_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time the client waits before it connects again."""
    pauses = 0

    def pause(_: BackOff) -> float:
        nonlocal pauses
        pauses += 1
        return 0.0

    monkeypatch.setattr(BackOff, "wait_s", pause)
    async with Net() as net:
        a, client = await net.alone()
        asked = 0

        def fail(*_: Any) -> None:
            nonlocal asked
            asked += 1
            raise RuntimeError("a mistake of the broker")

        monkeypatch.setattr(a.serving, "_handlers", {**a.serving._handlers, Ask: fail})
        with pytest.raises(LiveError, match="broker a has twice refused what was under way: broker a failed with this message"):
            await client.ask("state")
        assert asked == 2
        await client.publish("trades", TRADE)
        assert (client.reconnections, pauses) == (2, 2)


def test_a_file_of_long_lines_is_published_under_a_number(tmp_path: Path) -> None:
    """Its batches are cut by bytes, and in the same way every time."""

    @story
    async def told() -> None:
        file = tmp_path / "big.jsonl"
        line = json.dumps({"issue": "x" * 2_000, "price": 1.0}) + "\n"
        file.write_text(line * 10_000)
        async with Net() as net:
            a, _ = await net.alone()
            words = ["publish", "trades", str(file), "--publisher", "feed", "--broker", str(a.addresses[0])]
            for _ in range(2):
                publisher = Process(tmp_path, *words)
                assert await publisher.ended() == 0, publisher.complained()
                assert publisher.said() == "10,000 events accepted\n"
            assert a.serving.published == 10_000

    told()
