"""How many events passed and how long they took, by space and by link: in all for Prometheus, and lately for who looks.

    published    from a client's post to the answer "accepted"; with a data folder the disk is part of it
    delivered    from the arrival of an event at this broker until it is handed to a client's connection
    link         from the arrival of an event at this broker until it is handed to the link's connection
    beats        half of the way there and back of each heartbeat of a link

Times of one broker are measured by its own clock, so no clocks need to agree. Events of one batch have the time of the batch.
Rule: there is a meter for a space and for a link, and never one for a client or a subscription.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

LATELY_S: Final = 10.0
"""What is told as "lately" is of the last one to two of these."""
BOUNDS_S: Final = tuple(1e-5 * 2 ** (step / 4) for step in range(81))
"""Upper bounds of the classes of time, from 10 microseconds to 10 seconds, each a fifth larger than the one before."""
TOLD_BOUNDS: Final = range(0, 81, 8)
"""The bounds that Prometheus is told: each four times the one before."""
SHARES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}


class Meter:
    """Counts of events by classes of time."""

    __slots__ = ("_before", "_before_s", "_began", "_lately", "events", "seconds", "total")

    def __init__(self, now: float) -> None:
        self.events = 0
        self.seconds = 0.0
        self.total = _zeros()
        self._lately, self._before = _zeros(), _zeros()
        self._began, self._before_s = now, 0.0

    def add(self, count: int, seconds: float, now: float) -> None:
        self._turn(now)
        at = bisect_left(BOUNDS_S, seconds)
        self.events += count
        self.seconds += count * seconds
        self.total[at] += count
        self._lately[at] += count

    def _turn(self, now: float) -> None:
        passed = now - self._began
        if passed < LATELY_S:
            return
        is_next = passed < 2 * LATELY_S
        self._before, self._before_s = (self._lately, LATELY_S) if is_next else (_zeros(), LATELY_S)
        self._lately = _zeros()
        self._began = self._began + LATELY_S if is_next else now

    def lately(self, now: float) -> dict[str, float]:
        """Events per second, and the upper bounds of the classes that the percentiles lie in; none without events."""
        self._turn(now)
        counts = [one + other for one, other in zip(self._lately, self._before, strict=True)]
        count = sum(counts)
        seconds = now - self._began + self._before_s
        told: dict[str, float] = {"per_s": round(count / seconds, 1) if seconds > 0 else 0.0}
        if count:
            told |= {name: _milliseconds(counts, share * count) for name, share in SHARES.items()}
        return told

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: up to each bound so many, the last without a bound."""
        found = [(f"{BOUNDS_S[at]:.6g}", float(sum(self.total[: at + 1]))) for at in TOLD_BOUNDS]
        return [*found, ("+Inf", float(self.events))]


class Meters:
    """`since`: when the event loop was given what is handled now."""

    def __init__(self, now: float) -> None:
        self.since = now
        self._began = now
        self.published: dict[str, Meter] = defaultdict(self._meter)
        self.delivered: dict[str, Meter] = defaultdict(self._meter)
        self.links: dict[str, Meter] = defaultdict(self._meter)
        self.beats: dict[str, Meter] = defaultdict(self._meter)
        self.received: dict[str, int] = defaultdict(int)
        """Events that came from each of the other brokers."""

    def _meter(self) -> Meter:
        return Meter(self._began)

    def turn(self, now: float) -> None:
        """For meters that are made from now on."""
        self.since = self._began = now

    def spaces(self, now: float) -> dict[str, Any]:
        return {
            name: {
                what: {"events": meters[name].events, **meters[name].lately(now)}
                for what, meters in (("published", self.published), ("delivered", self.delivered))
                if name in meters
            }
            for name in sorted({*self.published, *self.delivered})
        }

    def link(self, name: str, now: float) -> dict[str, Any]:
        passed, beats = self.links.get(name), self.beats.get(name)
        return {
            "events_in": self.received.get(name, 0),
            "events_out": passed.events if passed else 0,
            "passing": passed.lately(now) if passed else {"per_s": 0.0},
            "delay": {key: value for key, value in beats.lately(now).items() if key != "per_s"} if beats else {},
        }

    def between_brokers(self) -> dict[str, int]:
        """Events that came from other brokers and went to them, each counted once for every broker that it went to."""
        return {"received": sum(self.received.values()), "sent": sum(each.events for each in self.links.values())}

    def histograms(self) -> Iterator[tuple[str, str, str, dict[str, Meter]]]:
        """For Prometheus: the name, what it is, the label and the meters."""
        yield "contentcast_publish_seconds", "From a post of a client to its acceptance", "space", self.published
        yield "contentcast_deliver_seconds", "From arrival here until handed to a client", "space", self.delivered
        yield "contentcast_link_seconds", "From arrival here until handed to a link", "link", self.links
        yield "contentcast_link_delay_seconds", "Half of a heartbeat's way there and back", "link", self.beats


def _zeros() -> list[int]:
    return [0] * (len(BOUNDS_S) + 1)


def _milliseconds(counts: list[int], wanted: float) -> float:
    passed = 0
    for at, count in enumerate(counts):
        passed += count
        if passed >= wanted and count:
            return round(1000 * BOUNDS_S[min(at, len(BOUNDS_S) - 1)], 3)
    return round(1000 * BOUNDS_S[-1], 3)
