"""An attacker's script: whatever comes over the socket, only named errors go back, and nobody else notices.

The seed of the mutated frames is printed; `CONTENTCAST_FUZZ_EXAMPLES` asks for more of them.
"""

from __future__ import annotations

import asyncio
import os
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.links.connection import READ_BYTES
from contentcast.live.looking.log import Silent
from contentcast.live.records import InMemory
from contentcast.live.settings.access import Access, Rights
from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.limits import Limits
from contentcast.live.settings.tls import client_context
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.wire import Interest, Known, Message, Publish, Unframer, decode, encode, frame
from contentcast.wire.client import (
    Advertise,
    Ask,
    Beat,
    Direct,
    Done,
    Failed,
    Hello,
    Post,
    Spaces,
    Subscribe,
    Welcome,
    Withdraw,
)
from tests.live.stories import TRADE, TRADES, Net, story, until
from tests.live.test_access import SECURE, Papers
from tests.messages import mutated, samples

LIMITS = Limits(
    connections=40,
    subscriptions_per_client=100,
    predicate_bytes=1000,
    spaces=20,
    attributes=50,
    advertisements_per_client=2,
)
IMPATIENT = replace(LIMITS, greeting_s=0.5)
"""Only for those who are to be late: on a busy machine others would be, too."""


class Attacker:
    """A raw socket, and what the broker says to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._unframer = Unframer()
        self.heard: list[Message] = []

    async def send(self, *what: bytes | Message) -> None:
        for each in what:
            self.writer.write(frame(encode(each)) if isinstance(each, Message) else each)
        with suppress(OSError):  # the broker has had enough
            await self.writer.drain()

    async def rest(self) -> list[Message]:
        """All that comes until the broker closes."""
        with suppress(OSError):
            while data := await self.reader.read(65536):
                self.heard += [decode(each, {"trades": TRADES}) for each in self._unframer.feed(data)]
        return self.heard

    async def next(self, wanted: type[Message]) -> Any:
        while True:
            for each in self.heard:
                if isinstance(each, wanted):
                    self.heard.remove(each)
                    return each
            data = await self.reader.read(65536)
            assert data, f"the broker closed before it said {wanted.__name__}"
            self.heard += [decode(each, {"trades": TRADES}) for each in self._unframer.feed(data)]


class Stage:
    """A broker under attack, with honest clients who must not notice."""

    def __init__(self, net: Net, broker: Broker, publisher: Any, stream: Any) -> None:
        self.net, self.broker, self._publisher, self._stream = net, broker, publisher, stream
        self._sent = 0

    async def attacker(self, *greeting: Message) -> Attacker:
        address = self.broker.addresses[0]
        found = Attacker(*await asyncio.open_connection(address.host, address.port))
        self.net.callback(found.writer.close)
        await found.send(*greeting)
        return found

    async def check(self) -> None:
        """An event still goes through, and nothing has failed inside."""
        self._sent += 1
        async with asyncio.timeout(10):
            await self._publisher.publish("trades", {"issue": "honest", "price": float(self._sent)})
            assert (await anext(self._stream))["price"] == float(self._sent)
        assert self.broker.reception.failures == 0


@asynccontextmanager
async def stage(limits: Limits = LIMITS, **settings: Any) -> AsyncIterator[Stage]:
    async with Net() as net:
        broker = await net.broker("a", limits=limits, **settings)
        publisher, subscriber = await net.client(broker), await net.client(broker)
        await publisher.declare(TRADES)
        yield Stage(net, broker, publisher, await subscriber.events("trades", "issue = 'honest'").ready())


CLIENT = Hello("client", "mallory")
GOOD = frame(encode(CLIENT))


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "message"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "message"),
        (b"CC\x63" + bytes(8), "message"),
        (b"CC\x01" + struct.pack("<II", 2**31, 0), "message"),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "message"),
        (frame(b"\xff"), "message"),
        (frame(b"\x42\xc1"), "message"),
        (frame(encode(Beat(1.0))), "message"),
        (frame(encode(Hello("king", "mallory"))), "message"),
        (frame(encode(Hello("client", ""))), "message"),
        (frame(encode(Hello("client", "x" * 1000))), "message"),
        (frame(encode(Hello("client", "mallory", version=99, least_version=99))), "message"),
        (frame(encode(Hello("link", "b", protocol="flooding"))), "broker"),
        (frame(encode(Hello("link", "a", protocol="link-matching"))), "broker"),
        (GOOD[:10], "limit greeting_s"),
        (b"", "limit greeting_s"),
    ],
)
def test_who_says_nothing_sensible_is_told_so(sent: bytes, code: str) -> None:
    @story
    async def told() -> None:
        async with stage(IMPATIENT if code == "limit greeting_s" else LIMITS) as on:
            attacker = await on.attacker()
            await attacker.send(sent)
            (failed,) = await attacker.rest()
            assert isinstance(failed, Failed)
            assert failed.code == code
            await on.check()

    told()


@story
async def test_a_client_that_asks_for_too_much_is_told_the_limit() -> None:
    async with stage() as on:
        attacker = await on.attacker(CLIENT)
        await attacker.next(Welcome)
        wide = {"name": "w", "attributes": {f"a{at}": "int" for at in range(60)}}
        for message, code in (
            (Subscribe(1, "trades", tuple(range(200)), ("TRUE",) * 200), "limit subscriptions_per_client"),
            (Subscribe(2, "trades", (1,), ("price < 1" + " OR price < 1" * 100,)), "limit predicate_bytes"),
            (Subscribe(3, "trades", (1,), ("(" * 400 + ")" * 400,)), "predicate"),
            (Subscribe(4, "trades", (1, 1), ("TRUE", "TRUE")), "message"),
            (Subscribe(5, "nothing", (1,), ("TRUE",)), "request"),
            (Spaces(6, (wide,)), "limit attributes"),
            (Spaces(7, ({"name": "x", "attributes": {"y": "colour"}},)), "space"),
            (Spaces(8, tuple({"name": f"s{at}", "attributes": {"y": "int"}} for at in range(30))), "limit spaces"),
            (Withdraw(9, "everything", (1,)), "message"),
            (Ask(10, "secrets"), "request"),
            (Advertise(11, "trades", 1, "price < 1" + " OR price < 1" * 100), "limit predicate_bytes"),
            (Advertise(12, "trades", 1, "price = 1 OR volume = 5 OR issue = 'x'"), "limit advertisements_per_client"),
        ):
            await attacker.send(message)
            failed = await attacker.next(Failed)
            assert (failed.request, failed.code) == (message.request, code)
        await on.check()


@story
async def test_a_client_cannot_speak_for_a_broker() -> None:
    """Routing messages, direct ones, and deliveries from somebody who said that he is a client."""
    events = EventBatch.from_dicts(TRADES, [TRADE])
    forged = (Publish("b", 1, 1, events), Known({}), Interest("b", 1, 0, 1), Direct(Known({})), Welcome("b"))
    for message in forged:
        async with stage() as on:
            attacker = await on.attacker(CLIENT)
            await attacker.next(Welcome)
            await attacker.send(message)
            await attacker.rest()
            assert any(isinstance(each, Failed) and each.code == "message" for each in attacker.heard)
            assert on.broker.router.state()["brokers"] == ["a"]
            await on.check()


@pytest.mark.parametrize(
    ("what", "document"),
    [
        ("explain", {}),
        ("explain", {"subscription": "x", "space": "trades", "event": {}}),
        ("judge", {"subscription": [], "events": 5}),
        ("past", {}),
        ("past", {"id": "seven"}),
        ("past", {"space": "trades", "event": 7}),
        ("last events", {}),
        ("hop", {}),
        ("hop", {"message": 5}),
        ("hop", {"message": b"\xff"}),
        ("hop", {"message": encode(Interest("b", 1, 0, 1)), "sender": "b"}),
        ("hop", {"message": encode(Known({}))}),
        ("forget", {"broker": 5}),
        ("secrets", {}),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_and_teaches_the_broker_nothing(what: str, document: dict[str, Any]) -> None:
    @story
    async def told() -> None:
        async with stage() as on:
            attacker = await on.attacker(CLIENT)
            await attacker.next(Welcome)
            await attacker.send(Ask(1, what, document))
            failed = await attacker.next(Failed)
            assert failed.request == 1
            assert on.broker.router.state()["brokers"] == ["a"]
            await on.check()

    told()


@story
async def test_a_greeting_in_the_wake_up_in_which_its_time_is_over_is_too_late() -> None:
    async with stage() as on:
        attacker, reception = await on.attacker(), on.broker.reception
        await until(lambda: reception.strangers)
        (connection,) = reception.strangers
        reception._too_late(connection)
        reception.hear(connection, encode(CLIENT))
        (failed,) = await attacker.rest()
        assert failed.code == "limit greeting_s"
        assert (reception.failures, "mallory" in on.broker.serving.sessions) == (0, False)
        await on.check()


@story
async def test_floods_of_connections_and_slow_bytes_end_by_themselves() -> None:
    async with stage(IMPATIENT) as on:
        attackers = [await on.attacker() for _ in range(60)]
        for at, each in enumerate(attackers):
            await each.send(GOOD[: at % 12])
        await until(lambda: not on.broker.reception.strangers)
        said = [await each.rest() for each in attackers]
        codes = {failed.code for heard in said for failed in heard if isinstance(failed, Failed)}
        assert codes == {"limit connections", "limit greeting_s"}
        await on.check()


@story
async def test_a_huge_frame_is_not_waited_for_in_memory() -> None:
    """A client announces the largest frame and sends little of it: what is kept is what came."""
    async with stage() as on:
        attacker = await on.attacker(CLIENT)
        await attacker.next(Welcome)
        await attacker.send(b"CC\x01" + struct.pack("<II", LIMITS.client_message_bytes, 0) + bytes(1000))
        session = on.broker.serving.sessions["mallory"]
        await until(lambda: len(session.connection._half) > 0)
        assert len(session.connection._half) < 2000
        await on.check()


@pytest.mark.parametrize("role", ["link", "direct"])
def test_who_calls_himself_a_broker_does_not_get_round_the_rights(role: str, tmp_path: Path) -> None:
    """Brokers subscribe to and publish everything; so where there are rights, a broker proves its name, also on loopback."""

    @story
    async def told() -> None:
        papers = Papers(tmp_path)
        access = Access(rights={"*": Rights({"trades": "TRUE"}, {"trades": "issue = 'honest'"}, declare=True)})
        async with stage(access=access) as on:
            attacker = await on.attacker(Hello(role, "mallory", incarnation=1, protocol="link-matching"))
            everything = SubscriptionBatch.of(cc.subscription(TRADES, 1, "TRUE", subscriber="mallory"))
            await attacker.send(Spaces(0, (TRADES.to_dict(),)), Interest("mallory", 1, 0, 1, (everything,)))
            (failed,) = await attacker.rest()
            assert failed.code == "broker"
            assert failed.reason.endswith("it needs the URI contentcast://broker/mallory")
            certificate, key = papers.certificate("client", "mallory")
            await on.check()
            assert on.broker.router.state()["brokers"] == ["a"]
        async with Net() as net:
            a = await net.broker("a", listen=SECURE, tls=papers.tls("a"), access=access)
            address, context = a.addresses[0], client_context(papers.authority, certificate, key)
            attacker = Attacker(*await asyncio.open_connection(address.host, address.port, ssl=context))
            await attacker.send(Hello(role, "mallory", incarnation=1, protocol="link-matching"))
            (failed,) = await attacker.rest()
            assert failed.code == "broker", "a client's certificate makes no broker"
            attacker.writer.close()

    told()


@story
async def test_posts_that_are_sent_again_are_not_published_again() -> None:
    async with stage() as on:
        attacker = await on.attacker(CLIENT)
        await attacker.next(Welcome)
        events = EventBatch.from_dicts(TRADES, [{"price": -1.0}])
        before = on.broker.serving.published
        await attacker.send(*[Post(1, events, "mallory")] * 50)
        await until(lambda: on.broker.serving.sessions["mallory"].connection.frames_in > 50)
        await on.check()
        assert on.broker.serving.published == before + 2, "one of mallory's, one of the check"


@story
async def test_what_another_broker_repeats_or_makes_up_changes_nothing() -> None:
    """Over a link come events of a third broker five times, and news in the name of the very broker that hears it."""
    async with stage() as on:
        mallory = await on.attacker(Hello("link", "mallory", incarnation=1, protocol="link-matching"))
        await mallory.next(Welcome)
        await mallory.send(Spaces(0, (TRADES.to_dict(),)))
        events = EventBatch.from_dicts(TRADES, [{"issue": "honest", "price": -1.0}])
        await mallory.send(*[Publish("c", 1, 1, events)] * 5)
        assert (await anext(on._stream))["price"] == -1.0
        a = on.broker
        mine = await until(lambda: a.router.state()["subscriptions"].get("a"))
        everything = SubscriptionBatch.of(cc.subscription(TRADES, 1, "TRUE", subscriber="mallory"))
        await mallory.send(
            Interest("a", a.incarnation + 1, 0, 9, (everything,)), Interest("a", a.incarnation, 0, 9, (everything,))
        )
        before = a.inputs
        await mallory.send(Known({}))
        await until(lambda: a.inputs > before)
        await on.check()  # the next event that comes is the honest one: the four copies went nowhere
        assert a.router.state()["subscriptions"]["a"] == mine


@story
async def test_a_flood_of_subscriptions_ends_at_a_limit_and_is_forgotten_with_its_client() -> None:
    async with Net() as net:
        broker = await net.broker("a", limits=Limits(subscriptions=300, requests_per_s=1.0))
        honest = await net.client(broker)
        await honest.declare(TRADES)
        await honest.subscribe("trades", "price < 1", deliver=print)
        flood = Stage(net, broker, None, None)
        attacker = await flood.attacker(CLIENT)
        await attacker.next(Welcome)
        numbers = iter(range(10**6))
        for request in range(1, 5):
            hundred = tuple(next(numbers) for _ in range(100))
            await attacker.send(Subscribe(request, "trades", hundred, ("TRUE",) * 100))
        failed = await attacker.next(Failed)
        assert (failed.request, failed.code) == (3, "limit subscriptions")
        for request in range(5, 30):
            await attacker.send(Subscribe(request, "trades", (next(numbers),), ("TRUE",)))
        async with asyncio.timeout(10):
            while failed.code != "limit requests_per_s":
                failed = await attacker.next(Failed)
        assert len(broker.deliveries) <= 300
        attacker.writer.close()
        await until(lambda: len(broker.deliveries) == 1)
        assert (await honest.publish("trades", TRADE)).events == 1


@story
async def test_who_publishes_beyond_the_window_is_not_read_until_the_disk_has_it(tmp_path: Path) -> None:
    class Stuck(InMemory):
        """A disk that takes everything and has synced nothing yet."""

        def append(self, record: bytes) -> None:
            self._count += 1

        def go_on(self) -> None:
            self._synced(self._count)
            self.append = super().append  # type: ignore[method-assign]

    limits = Limits(window_bytes=100_000)
    disks: list[Stuck] = []

    def make(synced: Any) -> Stuck:
        disks.append(Stuck(synced))
        return disks[0]

    config = BrokerConfig(name="a", data=tmp_path / "a", limits=limits)
    async with Net() as net, Broker(config, log=Silent(), make_records=make) as broker:
        attacker = await Stage(net, broker, None, None).attacker(CLIENT)
        await attacker.next(Welcome)
        await attacker.send(Spaces(1, (TRADES.to_dict(),)))
        await attacker.next(Done)
        events = EventBatch.from_dicts(TRADES, [{"issue": "x" * 10_000}])
        posts = [frame(encode(Post(number, events, "mallory"))) for number in range(1, 3001)]
        pouring = asyncio.create_task(attacker.send(*posts))
        await until(lambda: broker.throttle.held)
        session = broker.serving.sessions["mallory"]
        stopped_at = session.unanswered_bytes
        assert stopped_at < 2 * limits.window_bytes + 2 * READ_BYTES
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert session.unanswered_bytes == stopped_at, "nothing more is read"
        disks[0].go_on()
        await until(lambda: broker.serving.published == len(posts))
        await pouring
        await until(lambda: not broker.throttle.held and not session.unanswered_bytes)


@story
async def test_mutated_frames_of_clients_and_brokers() -> None:
    """Of all types of messages, in either role."""
    count = int(os.environ.get("CONTENTCAST_FUZZ_EXAMPLES", "3000"))
    seed = int(os.environ.get("CONTENTCAST_FUZZ_SEED", "609283"))
    print(f"seed {seed}")
    dice, good = random.Random(seed), [encode(each) for each in samples()]
    async with stage() as on:
        done = 0
        while done < count:
            role = dice.choice(["client", "link"])
            name = f"m{done}"
            attacker = await on.attacker(Hello(role, name, incarnation=done + 1, protocol="link-matching"))
            await attacker.next(Welcome)
            frames = [mutated(dice, good) for _ in range(20)]
            done += len(frames)
            await attacker.send(*frames)
            attacker.writer.write_eof()
            await attacker.rest()
            attacker.writer.close()
        assert on.broker.reception.failures == 0, on.broker.log.notes[-5:]
        await until(lambda: len(on.broker.reception.connections) == 2)
        await on.check()
