"""The client without threads: `async with cc.connect("contentcast://host:port") as client`.

SIENA's five verbs and `declare`. It holds one connection to one of its brokers (`conversation`); when that is lost it connects
to the next address, declares, subscribes and advertises again, and sends again what was not accepted.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, overload

from contentcast.live.client.asking import Asking
from contentcast.live.client.conversation import GREETING_S, OnChange, ShownToken
from contentcast.live.client.durable import DurableSubscription, OnMissed, check_wanted
from contentcast.live.client.message_size import MANY, text_parts
from contentcast.live.client.publishing import Receipt, as_batch
from contentcast.live.client.subscribing import (
    MOST_WAITING,
    UNREAD,
    Batches,
    Deliver,
    Events,
    Subscription,
    Subscriptions,
    check_predicate,
)
from contentcast.live.errors import NotConnected
from contentcast.live.settings.address import Address
from contentcast.model import ContentcastError, Space
from contentcast.model.errors import counted
from contentcast.wire import Message
from contentcast.wire.client import (
    Advertise,
    Spaces,
    Subscribe,
    Withdraw,
)


@dataclass(frozen=True, slots=True)
class Advertised:
    """An advertisement of this client, to be handed to `unadvertise`."""

    number: int
    space: str
    predicate: str


class Client(Asking):
    """Made by `connect`."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        *,
        name: str = "",
        token: ShownToken = "",
        tls: ssl.SSLContext | None = None,
        reconnect: bool = True,
        on_change: OnChange | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        super().__init__(
            addresses,
            name=name,
            token=token,
            tls=tls,
            reconnect=reconnect,
            on_change=on_change,
            most_waiting=most_waiting,
        )
        self._advertised: dict[int, Advertised] = {}
        self._next_number = 1

    # --- the five verbs

    async def subscribe(
        self,
        space: str | Space,
        predicate: str = "TRUE",
        *,
        deliver: Deliver | None = None,
        batches: bool = False,
        on_slow: str = "",
        durable: str = "",
        after: int | None = None,
        acknowledge: bool = True,
        on_missed: OnMissed | None = None,
    ) -> Subscription:
        """From the moment it returns, every event of the space that matches comes. `on_slow`: pause, skip or disconnect.

        `durable`: a name under which the broker keeps it, also while nobody is there for it; see `DurableSubscription` for
        `after`. What the program is done with is acknowledged by itself, or with `acknowledge=False` by the program.
        A durable one may be made without `deliver`, and left: it keeps what comes for whoever reads it later.
        """
        if deliver is None and not durable:
            raise ContentcastError(UNREAD)
        return await self._make_subscription(
            space, predicate, deliver, batches, on_slow, durable, after, acknowledge, on_missed
        )

    async def _make_subscription(
        self,
        space: str | Space,
        predicate: str,
        deliver: Deliver | None = None,
        batches: bool = False,
        on_slow: str = "",
        durable: str = "",
        after: int | None = None,
        acknowledge: bool = True,
        on_missed: OnMissed | None = None,
    ) -> Subscription:
        check_wanted(durable, after, on_slow)
        name = await self._space_name(space)
        subscription: Subscription
        if durable:
            subscription = DurableSubscription(
                self, self._number(), name, predicate, deliver, batches, durable, after, acknowledge, on_missed
            )
        else:
            subscription = Subscription(self, self._number(), name, predicate, deliver, batches, on_slow)
        self._subscriptions[subscription.number] = subscription
        try:
            await self._subscribe(subscription)
        except BaseException:
            self._subscriptions.pop(subscription.number, None)
            subscription.end()
            raise
        return subscription

    async def subscribe_many(
        self,
        space: str | Space,
        predicates: Iterable[str] | Mapping[int | str, str],
        *,
        deliver: Deliver | None = None,
        on_slow: str = "",
    ) -> Subscriptions:
        """Many as one, read by the broker in bulk: each event comes once, with all of them that it satisfies.

        A mapping gives each an id of your own, `{"desk-7": "price < 120"}`; a list numbers them from 0.

        `deliver` is called with a `Delivered`; without it, `async for delivered in subscriptions` gives the same.
        """
        name = await self._space_name(space)
        made = Subscriptions(self, self._next_number, name, predicates, deliver, on_slow)
        self._next_number = made.end_number
        self._many.append(made)
        try:
            await self._subscribe_many(made)
        except BaseException:
            self._many.remove(made)
            made.end()
            if made.ids and self._closed is None:  # parts of it are in force
                asyncio.ensure_future(self._withdraw_many(made)).add_done_callback(self._said_again)
            raise
        return made

    async def unsubscribe_many(self, subscriptions: Subscriptions) -> None:
        if subscriptions in self._many:
            self._many.remove(subscriptions)
            subscriptions.end()
            await self._withdraw_many(subscriptions)
        await subscriptions.finish()

    async def _withdraw_many(self, subscriptions: Subscriptions) -> None:
        for begin in range(subscriptions.first, subscriptions.end_number, MANY):
            numbers = tuple(range(begin, min(begin + MANY, subscriptions.end_number)))
            await self._take_back(lambda number, numbers=numbers: Withdraw(number, "subscriptions", numbers))  # type: ignore[misc]

    async def _subscribe_many(self, made: Subscriptions) -> None:
        made.ids = ids = []
        for begin, end in text_parts(made.predicates, self._publishing.most_bytes):
            numbers = tuple(range(made.first + begin, made.first + end))
            ids += (await self._ask_for(made.space, numbers, tuple(made.predicates[begin:end]), made.on_slow))["ids"]

    async def change(self, subscription: Subscription, predicate: str) -> None:
        check_predicate(predicate)
        before, subscription.predicate = subscription.predicate, predicate
        try:
            await self._subscribe(subscription)
        except ContentcastError:
            subscription.predicate = before
            raise

    async def unsubscribe(self, subscription: Subscription | str | Iterable[Subscription]) -> None:
        """It ends; a durable one for good, with all that waits for it, as soon as its broker is there to hear it.

        A text is the name of a durable one.
        """
        if isinstance(subscription, str):
            await self._request(lambda number: Withdraw(number, "subscriptions", (), (subscription,)))
            return
        gone = [subscription] if isinstance(subscription, Subscription) else list(subscription)
        there = [each for each in gone if self._subscriptions.pop(each.number, None) is not None]
        names = tuple(each.durable for each in there if each.durable)
        numbers = tuple(each.number for each in there if not each.durable)
        for each in gone:
            each.end()
        if names and self._closed is None:  # by their names, because another connection knows no numbers
            await self._request(lambda number: Withdraw(number, "subscriptions", (), names))
        if numbers:
            await self._take_back(lambda number: Withdraw(number, "subscriptions", numbers))
        for each in gone:
            await each.finish()

    async def leave(self, subscription: DurableSubscription) -> None:
        if self._subscriptions.pop(subscription.number, None) is not None and self._closed is None:
            self._send_acknowledged()
            await self._take_back(lambda number: Withdraw(number, "presence", (subscription.number,)))
        subscription.forget_waiting()
        await subscription.finish()

    def events(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> Events:
        """`async for event in client.events("trades", "price < 120")`: a dict each. `options` as for `subscribe`."""
        return Events(lambda: self._make_subscription(space, predicate, **options))

    def batches(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> Batches:
        """`async for batch in client.batches(...)`: an `EventBatch` each. `options` as for `subscribe`."""
        return Batches(lambda: self._make_subscription(space, predicate, **options))

    @overload
    async def publish(
        self,
        space: str | Space,
        events: Any,
        *,
        wait: Literal[True] = True,
        keep_ids: bool = False,
        publisher: str = "",
        number: int = 0,
    ) -> Receipt: ...

    @overload
    async def publish(
        self,
        space: str | Space,
        events: Any,
        *,
        wait: Literal[False],
        keep_ids: bool = False,
        publisher: str = "",
        number: int = 0,
    ) -> asyncio.Future[Receipt]: ...

    async def publish(
        self,
        space: str | Space,
        events: Any,
        *,
        wait: bool = True,
        keep_ids: bool = False,
        publisher: str = "",
        number: int = 0,
    ) -> Receipt | asyncio.Future[Receipt]:
        """A dict, a list of dicts, an `EventBatch`, Arrow or pandas.

        Returns the receipt when the broker has accepted it. With `wait=False` it returns a future of the receipt as soon as
        the broker's window has room; `flush` waits for all of them. A refusal is told by the future,
        or else by `flush` or the end of the client. `keep_ids`: the events of an `EventBatch` keep its ids (needs the right
        `gateway`); the broker gives ids to all others. With a `publisher` and its ascending `number`, events
        that were accepted under it before, by any client, are not published again.
        """
        self._check_open()
        found = await self._space(space)
        if publisher or number:
            future = await self._publishing.numbered(as_batch(found, events), wait, publisher, number, keep_ids)
        elif isinstance(events, Mapping):
            future = await self._publishing.one(found, events, wait)
        else:
            future = await self._publishing.many(as_batch(found, events), wait, keep_ids)
        return await future if wait else future

    async def flush(self) -> None:
        """Everything that was published so far is accepted; raises a refusal of `wait=False` whose future nobody looked at."""
        self._check_open()
        await self._publishing.flush()

    async def advertise(self, space: str | Space, predicate: str = "TRUE") -> Advertised:
        """Says what this client may publish."""
        check_predicate(predicate)
        made = Advertised(self._number(), await self._space_name(space), predicate)
        await self._request(lambda number: Advertise(number, made.space, made.number, predicate))
        self._advertised[made.number] = made
        return made

    async def unadvertise(self, advertised: Advertised) -> None:
        if self._advertised.pop(advertised.number, None) is not None:
            await self._take_back(lambda number: Withdraw(number, "advertisements", (advertised.number,)))

    # --- opening and closing

    async def close(self) -> None:
        """What was published is accepted first, and what has come is handed over.

        Raises, when it is closed, what was not accepted of `wait=False` and whose future nobody looked at.
        """
        await self._close()
        self._publishing.raise_refused()

    async def _close(self) -> None:
        if self._closed is None and self.is_connected:
            self._publishing.send_gathered()
            with suppress(TimeoutError):
                async with asyncio.timeout(GREETING_S):
                    await self._publishing.settled()
        if self._closed is None and len(self._publishing):
            lost = counted(len(self._publishing), "event")
            where = self.broker if self.is_connected else f"{self.broker}, which is away,"
            self._publishing.give_up(NotConnected(f"the client was closed before broker {where} had accepted {lost}"))
        for each in self._subscriptions.values():
            if isinstance(each, DurableSubscription):
                each.forget_waiting()
                await each.finish()
        self._send_acknowledged()
        self._end(NotConnected("the client was closed"))
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()
        await asyncio.gather(*(each.finish() for each in self._inboxes()))
        self._subscriptions.clear()
        self._many.clear()
        await asyncio.sleep(0)  # who waits for a receipt is told first

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._close()
        if kind is None:  # another error that is on its way says more
            self._publishing.raise_refused()

    def _say_again(self) -> None:
        """Everything that the broker must know, in the order in which one thing needs the other."""
        if self._declared:
            self._background(lambda number: Spaces.of(self._declared.values(), number))
        asked = {
            number for each in self._requests.values() if isinstance(each.message, Subscribe) for number in each.message.numbers
        }
        for each in self._subscriptions.values():
            if each.number not in asked:
                self._subscribe_again(each)
        for many in self._many:
            asyncio.ensure_future(self._subscribe_many(many)).add_done_callback(self._said_again)
        for made in self._advertised.values():
            self._background(lambda number, made=made: Advertise(number, made.space, made.number, made.predicate))  # type: ignore[misc]
        for request in list(self._requests.values()):
            self._send_request(request)
        self._publishing.resend()

    def _subscribe_again(self, subscription: Subscription) -> None:
        if subscription.number in self._subscriptions:
            asyncio.ensure_future(self._subscribe(subscription)).add_done_callback(self._said_again)

    def _background(self, make: Callable[[int], Message]) -> None:
        asyncio.ensure_future(self._request(make)).add_done_callback(self._said_again)

    def _said_again(self, task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and (reason := task.exception()) is not None:
            self._tell("failed", str(reason))

    # --- requests

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    async def _subscribe(self, chosen: Subscription) -> None:
        asked = (chosen.space, (chosen.number,), (chosen.predicate,), chosen.on_slow, chosen.durable)
        durable = chosen if isinstance(chosen, DurableSubscription) else None
        answer = await self._ask_for(*asked, -1 if durable is None else durable.received)
        (chosen.id,) = answer["ids"]
        if durable is not None:
            self._keep_to_this_broker()
            durable.holds_at, durable.lacking = tuple(answer["holds_at"]), tuple(answer["lacking"])
            if durable.acknowledged > answer["after"]:
                self.acknowledge_later(durable.number, durable.acknowledged)
            if durable.received < 0:
                durable.received = answer["after"]
        chosen.narrowed = answer.get("narrowed", {}).get(chosen.number)

    async def _ask_for(
        self, space: str, numbers: tuple[int, ...], texts: tuple[str, ...], on_slow: str, durable: str = "", after: int = -1
    ) -> dict[str, Any]:
        return await self._request(lambda number: Subscribe(number, space, numbers, texts, on_slow, durable, after))
