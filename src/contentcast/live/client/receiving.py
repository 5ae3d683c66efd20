"""What comes to a client: events for its subscriptions, each handed to the one that it is for, and what is acknowledged.

Rule: what waits for the program is counted here, over all subscriptions.

    full                         nothing more is read, and the broker does what `on_slow` says
    full, an answer is due       it is read on: the answer stands behind events, and the program may wait for it to go on
    twice as much, and still     events are left out and counted; durable ones come again when there is room
"""

from __future__ import annotations

import asyncio
import ssl
from abc import abstractmethod
from contextlib import suppress

import numpy as np

from contentcast.live.client.conversation import Conversation, OnChange, ShownToken
from contentcast.live.client.durable import DurableSubscription
from contentcast.live.client.subscribing import Delivered, Ints, Subscription, Subscriptions
from contentcast.live.errors import LiveError
from contentcast.live.settings.address import Address
from contentcast.model import EventBatch
from contentcast.wire.client import Acknowledge, Delivery, DurableDelivery


class Receiving(Conversation):
    """The part of a client that has subscriptions; `Client` has the verbs."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        *,
        name: str,
        token: ShownToken,
        tls: ssl.SSLContext | None,
        reconnect: bool,
        on_change: OnChange | None,
        most_waiting: int,
    ) -> None:
        super().__init__(addresses, name=name, token=token, tls=tls, reconnect=reconnect, on_change=on_change)
        self.missed = 0
        """Events that the broker left out because this client was slow, or away for too long."""
        self._subscriptions: dict[int, Subscription] = {}
        self._many: list[Subscriptions] = []
        self._acknowledged: dict[int, int] = {}
        """Numbers of durable subscriptions that the broker is to be told at the end of this wake-up."""
        self._behind: set[DurableSubscription] = set()
        """Those of which events were left out: they are asked for again."""
        self._waiting = 0
        self._most_waiting = most_waiting

    def _end_inboxes(self) -> None:
        for each in self._inboxes():
            each.end()

    def _inboxes(self) -> list[Subscription | Subscriptions]:
        return [*self._subscriptions.values(), *self._many]

    # --- what comes

    def _deliver(self, delivery: Delivery) -> None:
        self.missed += delivery.missed
        numbers, events = delivery.numbers, delivery.events
        if self._is_overfull:
            self._leave_out(delivery)
            return
        if not len(numbers):
            self._miss(events.space.name, delivery.missed)
            return
        first, last = int(numbers.min()), int(numbers.max())
        if first == last and len(numbers) == len(events):
            self._hand_in(first, events, delivery.missed)
        else:
            rows = np.repeat(np.arange(len(events)), np.diff(delivery.ends, prepend=0))
            for many in self._many:
                if many.first <= last and first < many.end_number:
                    mine = np.flatnonzero((numbers >= many.first) & (numbers < many.end_number))
                    self._hand_in_many(many, events, rows[mine], numbers[mine], delivery.missed)
                    numbers, rows = np.delete(numbers, mine), np.delete(rows, mine)
            for each in np.unique(numbers).tolist():
                self._hand_in(each, events.take(rows[numbers == each]), delivery.missed)
        self._check_room()

    def _leave_out(self, delivery: Delivery) -> None:
        self.missed += len(delivery.events)
        numbers, counts = np.unique(delivery.numbers, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            for each in self._inboxes():
                if each.has(number):
                    each.missed += count + delivery.missed

    def _check_room(self) -> None:
        if self._is_full and not self._answer_is_due and self._connection is not None:
            self._connection.pause_reading()

    def _miss(self, space: str, missed: int) -> None:
        """The broker has left out events at the end of a burst."""
        for each in self._inboxes():
            if each.space == space and not isinstance(each, DurableSubscription):
                each.missed += missed

    def _deliver_durably(self, delivery: DurableDelivery) -> None:
        subscription = self._subscriptions.get(delivery.number)
        if isinstance(subscription, DurableSubscription):
            if self._is_overfull:
                self._behind.add(subscription)
                return  # what comes behind it has a gap in front of it, and is not taken either
            self.missed += delivery.missed
            self._waiting += subscription.take_numbered(delivery.first, delivery.events, delivery.missed)
            self._check_room()

    def _taken_over(self, durable: str, reason: LiveError) -> None:
        for each in list(self._subscriptions.values()):
            if isinstance(each, DurableSubscription) and each.durable == durable:
                del self._subscriptions[each.number]
                each.taken_over(reason)
        self._tell("taken-over", str(reason))

    def stopped(self, subscription: DurableSubscription, reason: Exception) -> None:
        """Its callback has failed: it stays at the broker, and this client leaves it."""
        self._tell("failed", f"{subscription.durable}: {reason}")
        leaving = asyncio.ensure_future(subscription.leave())
        leaving.add_done_callback(lambda task: task.cancelled() or task.exception())  # a client that ends has left as well

    def drop(self, subscription: Subscription) -> None:
        """Left in the event loop: whoever collects the program's garbage may be any thread."""

        def leave() -> None:
            if subscription.number in self._subscriptions:
                leaving = asyncio.ensure_future(subscription.leave())
                leaving.add_done_callback(lambda task: task.cancelled() or task.exception())

        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(leave)

    def acknowledge_later(self, number: int, upto: int) -> None:
        """With all others of this wake-up."""
        self._acknowledged[number] = upto
        self._turns.want()

    def _send_acknowledged(self) -> None:
        if self._acknowledged:
            told, self._acknowledged = self._acknowledged, {}
            self._send(Acknowledge(tuple(told), tuple(told.values())))

    def _turn(self) -> None:
        self._send_acknowledged()
        super()._turn()

    def _hand_in(self, number: int, events: EventBatch, missed: int) -> None:
        subscription = self._subscriptions.get(number)
        if subscription is not None:
            self._waiting += len(events)
            subscription.take(events, missed)
            return
        for many in self._many:
            if many.first <= number < many.end_number:
                rows = np.arange(len(events))
                self._hand_in_many(many, events, rows, np.full(len(events), number), missed)

    def _hand_in_many(self, many: Subscriptions, events: EventBatch, rows: Ints, numbers: Ints, missed: int) -> None:
        if not len(rows):
            return
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        chosen = rows[begins]
        part = events if len(chosen) == len(events) else events.take(chosen)
        self._waiting += len(part)
        many.take(Delivered(part, np.append(begins[1:], len(rows)), numbers - many.first, many.names), missed)

    @property
    def _is_full(self) -> bool:
        return self._waiting >= self._most_waiting

    @property
    def _is_overfull(self) -> bool:
        return self._waiting >= 2 * self._most_waiting and self._answer_is_due

    def taken(self, count: int) -> None:
        """The program has taken so many events."""
        self._waiting -= count
        if self._waiting <= self._most_waiting // 2 and self._connection is not None:
            self._connection.resume_reading()
            while self._behind:
                self._subscribe_again(self._behind.pop())

    @abstractmethod
    def _subscribe_again(self, subscription: Subscription) -> None: ...
