"""Kernels are compiled and loaded before a broker serves: the first event then waits for nothing, and no heartbeat is late.

A throw-away router of the same protocol matches a few events of a throw-away space, in a thread of its own. Compiling takes a
minute or two the first time on a machine, loading what was compiled takes less than a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from contentcast import catalog
from contentcast.language import parse_predicate
from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.routing.contract import Declared, Published, Started, Subscribed, Unsubscribed
from contentcast.routing.setup import Life, Setup

SPACE: Final = Space("warming", s="string", i="int", f="float", b="bool", t="timestamp")
EVENT: Final = {"s": "x", "i": 1, "f": 1.0, "b": True, "t": datetime(2026, 1, 1, tzinfo=UTC)}
TEXTS: Final = ("s = 'x'", "i < 5 AND f > 0", "b OR t > TIMESTAMP '2025-01-01 00:00:00'", "startswith(s, 'x')", "TRUE")
BATCHES: Final = (1, 2, 300)

WARM_S: Final = 5.0
"""Longer than it takes to load kernels that were compiled before."""

_warm: set[str] = set()


def warm(protocol: str, options: dict[str, Any]) -> None:
    """Once for each protocol in a process."""
    if protocol in _warm:
        return
    router = catalog.make_router(protocol, Setup(count_steps=False), **options)("warming", Life())
    asked = [Subscription(at, parse_predicate(SPACE, text), f"x#{at}") for at, text in enumerate(TEXTS)]
    router.handle(Started(), 0.0)
    router.handle(Declared(SPACE), 0.0)
    router.handle(Subscribed(SubscriptionBatch.of(asked)), 0.0)
    for count in BATCHES:
        router.handle(Published(EventBatch.from_dicts(SPACE, [EVENT] * count)), 0.0)
    router.handle(Unsubscribed((0,)), 0.0)
    router.handle(Published(EventBatch.from_dicts(SPACE, [EVENT])), 0.0)
    _warm.add(protocol)


async def warm_up(protocol: str, options: dict[str, Any], note: Callable[[str], None]) -> None:
    """In a thread of its own, with a note to the operator if it takes long."""
    loop = asyncio.get_running_loop()
    late = loop.call_later(WARM_S, note, "compiling for this machine, which happens once and takes a minute or two")
    try:
        await asyncio.to_thread(warm, protocol, options)
    finally:
        late.cancel()
