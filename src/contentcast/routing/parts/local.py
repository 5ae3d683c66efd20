"""What the clients of this broker ask for and announce: their subscriptions, their advertisements, and who gets an event.

Rule: nothing here is told to anybody. `interest` and `advertising` tell it on, for the protocols that need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from contentcast.model import Advertisement, EventBatch, Space, SubscriptionBatch
from contentcast.routing.audience import Audience, Change
from contentcast.routing.audience.audiences import Audiences
from contentcast.routing.audience.serving import serve
from contentcast.routing.contract import Advertised, Effect, Input, Subscribed, Unadvertised, Unsubscribed
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.setup import Setup

MOST_BLOCKS: Final = 64
"""Batches of subscriptions kept apart; more are joined, space by space."""


class Local:
    def __init__(self, broker: str, spaces: SpaceRegister, setup: Setup) -> None:
        self.broker = broker
        self.advertisements: dict[int, Advertisement] = {}
        self._subscribed: set[int] = set()
        self._blocks: list[SubscriptionBatch] = []
        self._gone: set[int] = set()
        """Ids that stand in a block and have ended. They are taken out together."""
        # Without the options of the set-up's forest: they are learnt for everybody's tree, not for one broker's.
        self._audiences = Audiences.of_one(
            spaces, lambda: ((self.broker, batch) for batch in self.batches()), count_steps=setup.count_steps
        )

    def handle(self, input: Input, now: float) -> list[Effect]:
        self.change(input)
        return []

    def change(self, input: Input) -> Change | None:
        """Takes an input of a client, and says what it changes about the subscriptions; None if nothing."""
        match input:
            case Subscribed(subscriptions):
                change = self._subscribe(subscriptions)
            case Unsubscribed(ids) if known := tuple(each for each in ids if each in self._subscribed):
                self._subscribed.difference_update(known)
                self._gone.update(known)
                change = Change(self.broker, known, None)
            case Advertised(advertisements):
                self.advertisements.update({each.id: each for each in advertisements})
                return None
            case Unadvertised(ids):
                for each in ids:
                    self.advertisements.pop(each, None)
                return None
            case _:
                return None
        self._audiences.note(change)
        return change

    def _subscribe(self, subscriptions: SubscriptionBatch) -> Change:
        ids = subscriptions.ids.tolist()
        again = tuple(each for each in ids if each in self._subscribed)
        if again or not self._gone.isdisjoint(ids):
            self._gone.update(again)
            self._take_out()
        self._subscribed.update(ids)
        if len(subscriptions):
            self._blocks.append(subscriptions)
        if len(self._blocks) > MOST_BLOCKS:
            self._take_out()
            by_space: dict[Space, list[SubscriptionBatch]] = {}
            for block in self._blocks:
                by_space.setdefault(block.space, []).append(block)
            self._blocks = [SubscriptionBatch.concat(each) for each in by_space.values()]
        return Change(self.broker, again, subscriptions)

    def _take_out(self) -> None:
        if self._gone:
            gone = np.fromiter(self._gone, np.int64)
            self._blocks = [kept for each in self._blocks if len(kept := each.without(gone))]
            self._gone.clear()

    def batches(self) -> Iterator[SubscriptionBatch]:
        """All that the clients want now."""
        self._take_out()
        return iter(self._blocks)

    def audience(self, space: Space) -> Audience:
        """The clients who want something of this space."""
        return self._audiences.of(space)

    def serve(self, events: EventBatch) -> list[Effect]:
        """Which of the clients get these events?"""
        return serve(self.audience(events.space), events)

    def sizes(self) -> dict[str, int]:
        """Of what the clients' own subscriptions are matched with."""
        return {**self._audiences.sizes(), "subscriptions": len(self._subscribed)}

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {"subscribed": sorted(self._subscribed)}
        if self.advertisements:
            found["advertised"] = sorted(self.advertisements)
        return found
