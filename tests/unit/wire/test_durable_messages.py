"""Messages of durable delivery, of its clients and of its checkpoints: bytes and back, and no other error from wrong bytes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import contentcast as cc
from contentcast.model import EventBatch
from contentcast.wire import Message, Publish, SpaceVersions, WireError, decode, encode
from contentcast.wire.checkpoints import Checkpoint, Dropped, Owed, Stripped, Tables, Waiting
from contentcast.wire.client import Acknowledge, DurableDelivery, Subscribe, Withdraw
from contentcast.wire.durable import Custody, Taken

TRADES = cc.Space("trades", issue="string", price="float")
EVENTS = EventBatch.from_dicts(TRADES, [{"issue": "IBM", "price": 1.0}, {"price": 2.0}])
PUBLISH = Publish("a", 1, 4, EVENTS)
SPACES = SpaceVersions()
SPACES.declare(TRADES)
ROWS, IDS = np.array([0, 1, 1]), np.array([7, 7, 8])
MESSAGES: list[Message] = [
    Custody(1, 2, 5, 3, ROWS, IDS, PUBLISH, np.array([7, 9])),
    Taken("a", 5, ROWS, IDS, PUBLISH, np.array([7, 9])),
    Owed("b", Custody(1, 2, 5, 3, ROWS, IDS, PUBLISH)),
    Waiting(7, 12, PUBLISH),
    Checkpoint((b"one", b"", b"three")),
    Tables(5, {"p": (3, 4)}, {"b": (0, 5)}, {"a": 9}, {7: (1, 20, 10)}, {"p": [(1, 2)]}),
    Stripped("b", 5),
    Dropped(7, 40),
    DurableDelivery(3, 12, EVENTS, 2),
    Acknowledge((3, 4), (12, 40)),
    Subscribe(1, "trades", (3,), ("TRUE",), "", "desk-7", 12),
    Withdraw(2, "presence", (3,), ("desk-7",)),
]


def plain(value: Any) -> Any:
    """Messages with arrays and events have no equality of their own."""
    if isinstance(value, Message):
        return (type(value), [plain(getattr(value, each.name)) for each in fields(value)])  # type: ignore[arg-type]
    if isinstance(value, EventBatch):
        return value.to_dicts()
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_bytes_and_back(message: Message) -> None:
    assert plain(decode(encode(message), SPACES)) == plain(message)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_cut_off_is_refused_or_another_message(message: Message) -> None:
    whole = encode(message)
    for end in range(len(whole)):
        try:
            found = decode(whole[:end], SPACES)
        except WireError:
            continue
        assert plain(found) != plain(message)
