"""Who has heard what: numbered records of every broker over named topics, told on until all have them.

Source: Banavar et al. 1999, section 2 ("changes to the subscription set are batched and periodically propagated to all
brokers") and 3.2 ("each broker knows the topology"). How is left open there; here it is done as link-state routing does it. A
broker tells its neighbours what is new about itself, numbered by version; who hears something new tells it on; two brokers
whose link comes up tell each other how far they have heard (`Known`) and send what the other lacks.

    a: something of a changed    version 5 of a topic: Told(a, version 5) to b
    b: Received                  new: the topic keeps it, b tells it on to c and d
    d: Received from c           already has version 5: silent

What a topic holds is the topic's own matter (`network_view`, `interest`, `spaces`, `advertising`); this part numbers and tells.
Rule: only a broker itself makes versions of what it has; everybody else stores and tells on, so equal versions are equal
contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from contentcast.routing.contract import Effect, Input, LinkLost, LinkUp, Received, Send
from contentcast.wire import Known, Mark, Message, Told


class Topic(Protocol):
    """What brokers tell each other about one subject."""

    topic: str

    def hear(self, told: Any) -> None:
        """Keep what is new. It follows without a gap on what was heard before, or (`since` 0) takes its place."""
        ...

    def forget(self, origin: str) -> None:
        """The broker has started again; what it told in its earlier life no longer holds."""
        ...

    def tell(self, origin: str, mark: Mark, since: int) -> Told:
        """What somebody lacks who has heard of this broker up to version `since`."""
        ...


@dataclass(slots=True)
class Heard:
    """How far one broker was heard of."""

    incarnation: int
    versions: dict[str, int] = field(default_factory=dict)

    def mark(self) -> Mark:
        return Mark(self.incarnation, dict(self.versions))


_UNHEARD = Mark(0, {})


class Versions:
    def __init__(self, broker: str, incarnation: int) -> None:
        self.broker = broker
        self.links: dict[str, float] = {}
        """The links that work, with their delays."""
        self._topics: dict[str, Topic] = {}
        self._heard: dict[str, Heard] = {broker: Heard(incarnation)}

    def take(self, topic: Topic) -> None:
        """From now on this topic is told and heard. Topics are told in the order in which they were taken."""
        self._topics[topic.topic] = topic

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case LinkUp(link, delay_s):
                self.links[link] = delay_s
                return [Send(link, Known(self.marks()))]
            case LinkLost(link):
                self.links.pop(link, None)
            case Received(sender, Told() as told):
                return self._hear(told, sender)
            case Received(sender, Known(marks)):
                return self._answer(marks, sender)
        return []

    # --- what this broker tells of itself

    def preset(self, origin: str, topic: str, incarnation: int = 1, version: int = 1) -> None:
        """This version of a topic is known from the configuration."""
        heard = self._heard.setdefault(origin, Heard(incarnation))
        heard.versions[topic] = version

    def mark(self, origin: str) -> Mark:
        heard = self._heard.get(origin)
        return _UNHEARD if heard is None else heard.mark()

    def version(self, origin: str, topic: str) -> int:
        heard = self._heard.get(origin)
        return 0 if heard is None else heard.versions.get(topic, 0)

    @property
    def incarnation(self) -> int:
        return self._heard[self.broker].incarnation

    def next(self, topic: str) -> int:
        """The number of this broker's new version of a topic."""
        mine = self._heard[self.broker].versions
        mine[topic] = mine.get(topic, 0) + 1
        return mine[topic]

    def tell(self, message: Message, heard_from: str | None = None) -> list[Effect]:
        return [Send(link, message) for link in sorted(self.links) if link != heard_from]

    # --- what others tell

    def _hear(self, told: Told, sender: str) -> list[Effect]:
        topic = self._topics.get(told.topic)
        heard = self._life(told.origin, told.incarnation)
        if topic is None or heard is None:
            return []
        known = heard.versions.get(told.topic, 0)
        if told.version <= known:
            return []
        if told.since > known:
            return [Send(sender, Known(self.marks()))]  # something is missing in between: ask for it
        topic.hear(told)
        heard.versions[told.topic] = told.version
        return self.tell(told, sender)

    def _life(self, origin: str, incarnation: int) -> Heard | None:
        """How far that life of the broker was heard of; None if this is old news, or news of this broker itself."""
        if origin == self.broker:
            return None
        heard = self._heard.get(origin)
        if heard is None:
            heard = self._heard[origin] = Heard(incarnation)
        if incarnation < heard.incarnation:
            return None
        if incarnation > heard.incarnation:
            for topic in self._topics.values():
                topic.forget(origin)
            heard.incarnation = incarnation
            heard.versions.clear()
        return heard

    def _answer(self, marks: Mapping[str, Mark], sender: str) -> list[Effect]:
        """What the neighbour lacks, of every broker."""
        lacking: list[Effect] = []
        for origin, heard in sorted(self._heard.items()):
            theirs = marks.get(origin, _UNHEARD)
            if heard.incarnation < theirs.incarnation:
                continue
            for name, topic in self._topics.items():
                since = theirs.of(name) if heard.incarnation == theirs.incarnation else 0
                if heard.versions.get(name, 0) > since:
                    lacking.append(Send(sender, topic.tell(origin, heard.mark(), since)))
        if any(self._lacks(origin, mark) for origin, mark in marks.items() if origin != self.broker):
            lacking.append(Send(sender, Known(self.marks())))
        return lacking

    def _lacks(self, origin: str, theirs: Mark) -> bool:
        mine = self.mark(origin)
        if theirs.incarnation != mine.incarnation:
            # A broker that has told nothing yet has nothing that anybody could lack; to ask for it would never end.
            return theirs.incarnation > mine.incarnation and any(theirs.of(topic) for topic in self._topics)
        return any(theirs.of(topic) > mine.of(topic) for topic in self._topics)

    # --- looking inside

    def marks(self) -> dict[str, Mark]:
        return {origin: heard.mark() for origin, heard in sorted(self._heard.items())}

    def sizes(self) -> dict[str, int]:
        return {"links": len(self.links)}

    def state(self) -> dict[str, Any]:
        return {
            "links": dict(sorted(self.links.items())),
            "marks": {origin: (mark.incarnation, dict(mark.versions)) for origin, mark in self.marks().items()},
        }
