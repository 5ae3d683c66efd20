"""What the clients of each broker have asked for: they outlive their broker, and ask again when it is back.

A durable subscriber also keeps what it got by number, drops what comes twice or does not continue what it has, and
acknowledges. It says to its broker what it has when it comes back, and when its broker does.
Rule: folded only when a broker starts again; until then a change costs one append.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from contentcast.model import Space, Subscription, SubscriptionBatch
from contentcast.routing.contract import (
    Accepted,
    Acknowledged,
    DeliverDurably,
    DurablySubscribed,
    DurablyUnsubscribed,
    Holds,
    Input,
    Resumed,
    Subscribed,
    Suspended,
    Unsubscribed,
)
from contentcast.simulation.agenda import Agenda, SimulationError


class Clients:
    """Of one broker."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: list[Subscribed | Unsubscribed] = []

    def note(self, change: Subscribed | Unsubscribed) -> None:
        self._changes.append(change)

    def wanted(self) -> list[Subscribed]:
        """What they want now: one batch for each space, in the order in which the spaces came."""
        held: dict[int, tuple[SubscriptionBatch, int]] = {}
        for change in self._changes:
            if isinstance(change, Subscribed):
                for row, each in enumerate(change.subscriptions.ids.tolist()):
                    held.pop(each, None)
                    held[each] = (change.subscriptions, row)
            else:
                for each in change.ids:
                    held.pop(each, None)
        parts: dict[Space, dict[int, tuple[SubscriptionBatch, list[int]]]] = {}
        for batch, row in held.values():
            parts.setdefault(batch.space, {}).setdefault(id(batch), (batch, []))[1].append(row)
        folded = [
            Subscribed(SubscriptionBatch.concat([batch.take(np.array(sorted(rows))) for batch, rows in batches.values()]))
            for batches in parts.values()
        ]
        self._changes = list(folded)
        return folded


MISSED: Final = -1

DurableInput: TypeAlias = DurablySubscribed | DurablyUnsubscribed | Resumed | Suspended | Acknowledged


@dataclass(slots=True)
class DurableClient:
    """One durable subscription, as its client sees it."""

    broker: str
    subscription: Subscription
    present: bool = True
    got: list[int] = field(default_factory=list)
    """The ids of its events, `MISSED` for those that a limit took: number 1 stands first."""


class DurableClients:
    """Of all brokers. `enter(broker, input)` tells a broker something; what a broker tells is heard `delay_s` later."""

    def __init__(self, agenda: Agenda, delay_s: float, enter: Callable[[str, Input], None]) -> None:
        self.accepted: list[tuple[str, Accepted]] = []
        """(broker, what it told), in the order in which the publishers heard it."""
        self.clients: dict[int, DurableClient] = {}
        self.holds: dict[int, list[tuple[float, tuple[str, ...]]]] = {}
        """Subscription -> when it heard that it holds, and at which brokers."""
        self._agenda = agenda
        self._delay_s = delay_s
        self._enter = enter
        self._crashes: dict[str, int] = {}

    def crashed(self, broker: str) -> None:
        """What is under way from it to its clients is lost."""
        self._crashes[broker] = self._crashes.get(broker, 0) + 1

    def said(self, broker: str, input: DurableInput) -> list[Input]:
        """What a client wants its broker to be told: the same, and where it stands."""
        match input:
            case DurablySubscribed(subscriptions):
                for each in subscriptions:
                    known = self.clients.setdefault(each.id, DurableClient(broker, each))
                    known.subscription = each
                return [input, *(Resumed(each.id, len(self.clients[each.id].got)) for each in subscriptions)]
            case DurablyUnsubscribed(ids):
                for number in ids:
                    self.clients.pop(number, None)
            case Resumed(subscription):
                client = self._client(subscription)
                client.present = True
                return [Resumed(subscription, len(client.got))]
            case Suspended(subscription):
                self._client(subscription).present = False
        return [input]

    def _client(self, subscription: int) -> DurableClient:
        found = self.clients.get(subscription)
        if found is None:
            raise SimulationError(f"nobody has the durable subscription {subscription}; there are {sorted(self.clients)}")
        return found

    def wanted(self, broker: str) -> list[Input]:
        """What the clients of a broker tell it when it has started: one that did not hear of a subscription hears of it now."""
        found: list[Input] = []
        for number, client in sorted(self.clients.items()):
            if client.broker == broker:
                found.append(DurablySubscribed(SubscriptionBatch.of(client.subscription)))
                found += [Resumed(number, len(client.got))] if client.present else []
        return found

    def told(self, at: float, broker: str, effect: Accepted | DeliverDurably | Holds) -> None:
        self._agenda.put(at + self._delay_s, self._hears, (broker, self._crashes.get(broker, 0), effect))

    def _hears(self, told: tuple[str, int, Accepted | DeliverDurably | Holds]) -> None:
        broker, crashes, effect = told
        if crashes != self._crashes.get(broker, 0):
            return
        if isinstance(effect, Accepted):
            self.accepted.append((broker, effect))
            return
        if isinstance(effect, Holds):
            for number in effect.subscriptions:
                self.holds.setdefault(number, []).append((self._agenda.now, effect.brokers))
            return
        client = self.clients.get(effect.subscription)
        if client is None or not client.present:
            return
        client.got += [MISSED] * min(effect.missed, effect.first - 1 - len(client.got))
        fresh = len(client.got) + 1 - effect.first
        if fresh < 0:
            return  # of an older connection, on which the numbers between were lost
        client.got += effect.events.ids.to_pylist()[fresh:]
        self._enter(broker, Acknowledged(effect.subscription, len(client.got)))
