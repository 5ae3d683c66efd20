"""A node that keeps its place on the ring by asking others: one question, one answer, a round now and then.

Source: the steps of `ring` (Zave's correct Chord). An Ask is also the notification; an Answer is what the answering node knows.

    every round     Ask my first successor                     I learn its list, and who stands between us
                    Ask two of the nodes that I heard of       dead ones are noticed, other rings found
                    Locate one finger's place                  the node before it answers
    Answer of x     x is my first successor, or stands between: my list becomes [x] + its list
    no answer       for `suspect_after_s` of asking: the node counts as dead until anything is heard of it
                    the longer it is dead, the more rarely it is asked; after GIVEN_UP_AFTER_S it is forgotten

Two rings become one (a partition has healed, a node joins) because nodes remember whom they knew and ask them again: whoever
answers and stands between a node and its first successor becomes its first successor. What a node was given at its start, its
contacts and the configured ring, it never gives up: by these, rings that were parted for days find each other.
Rule: nobody is taken for a successor who has not answered. Fingers and nodes heard of are hints only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from contentcast.routing.chord.keys import BITS, Peer, between, distance, peer, strictly_between
from contentcast.routing.chord.mcast import Finger, fingers_of
from contentcast.routing.chord.ring import (
    Member,
    candidate,
    closest_before,
    ideal,
    joined,
    rectified,
    stabilised,
    without_first,
    without_leaver,
)
from contentcast.routing.contract import Changed, Effect, SendTo
from contentcast.wire import Message
from contentcast.wire.chord import Answer, Ask, Leaving, Locate

SUCCESSORS: Final = 4
"""r: the ring holds while fewer than r neighbours fail between two repairs."""
SUSPECT_AFTER_S: Final = 4.0
LEAST_TRIES: Final = 4
"""A node that was asked less often is not taken for dead: answers get lost."""
MOST_KNOWN: Final = 512
MOST_NOTED: Final = 4 * MOST_KNOWN
"""Names with a note of when they were asked or heard. Those that matter are known, neighbours or fingers: half as many."""
GIVEN_UP_AFTER_S: Final = 3600.0
WAITED_SHARE: Final = 1 / 16
"""A node that has been dead for 16 s is asked once a second, ..."""
LONGEST_WAIT_S: Final = 30.0
"""... and from 8 minutes on twice a minute."""
MOST_HOPS: Final = 128
ASKED_A_ROUND: Final = 2
PATIENT_ROUNDS: Final = 4
"""A node that is alone asks for so many rounds before it makes a ring with another that is alone too: else two that join at the
same time could find each other before they find the ring, and what they are sent meanwhile would be lost."""


@lru_cache(maxsize=8)
def configured(names: tuple[str, ...], length: int, bits: int) -> dict[str, Member]:
    """The ring of all these nodes, computed once for all brokers of a process."""
    return ideal((peer(each, bits) for each in names), length)


class ChordNode:
    def __init__(
        self, name: str, *, bits: int = BITS, length: int = SUCCESSORS, suspect_after_s: float = SUSPECT_AFTER_S
    ) -> None:
        self.bits = bits
        self.length = length
        self.suspect_after_s = suspect_after_s
        self.me = peer(name, bits)
        self.member = Member.alone(self.me)
        self.mapping = 0
        """The version of the mapping, which travels with questions and answers."""
        self._configured: Mapping[str, Member] = {}
        self._contacts: tuple[str, ...] = ()
        self._known: dict[str, Peer] = {}
        """Nodes that were heard of, the longest known first."""
        self._arcs: dict[Peer, Finger] = {}
        self._asked: dict[str, tuple[float, int, float]] = {}
        """Since when, how often, and when last, a node has been asked without an answer."""
        self._heard: dict[str, float] = {}
        self._round = 0
        self._rounds_alone = 0
        self._asked_this_round: set[Peer] = set()
        """Nodes nearer than the successor: asked once a round, else every answer would ask all of them again."""

    def start(self, members: Iterable[str]) -> None:
        """All these are taken to be on the ring, this node too."""
        names = tuple(sorted({*members, self.me.name}))
        self._configured = configured(names, self.length, self.bits)
        self.member = self._configured[self.me.name]
        for each in names[-MOST_KNOWN - 1 :]:
            self.learn(each)

    def meet(self, contacts: Iterable[str]) -> None:
        """These were named to it; whether they are on the ring will be seen."""
        self._contacts = tuple(contacts)
        for each in self._contacts:
            self.learn(each)

    def _is_given(self, name: str) -> bool:
        return name in self._configured or name in self._contacts

    def learn(self, name: str) -> None:
        if name != self.me.name and name not in self._known:
            if len(self._known) >= MOST_KNOWN:
                strangers = (each for each in self._known if each not in self._contacts)
                silent = (each for each in self._known if each not in self._heard and each not in self._contacts)
                del self._known[next(silent, next(strangers, next(iter(self._known))))]
            self._known[name] = peer(name, self.bits)

    # --- who is alive

    def is_dead(self, one: Peer, now: float) -> bool:
        since, tries, _ = self._asked.get(one.name, (now, 0, now))
        return tries >= LEAST_TRIES and now - since >= self.suspect_after_s

    def _is_due(self, one: Peer, now: float) -> bool:
        """Dead nodes may come back, and another ring may be behind them: they are asked ever more rarely."""
        since, _, last = self._asked.get(one.name, (now, 0, now))
        return not self.is_dead(one, now) or now - last >= min(LONGEST_WAIT_S, (now - since) * WAITED_SHARE)

    def suspect(self, name: str, now: float) -> None:
        """Somebody else has tried long enough."""
        self._asked[name] = (now - self.suspect_after_s, LEAST_TRIES, now)

    def heard(self, name: str, now: float) -> None:
        """Anything came from this node: it is alive."""
        self.learn(name)
        self._heard_of(name, now)

    def _heard_of(self, name: str, now: float) -> None:
        self._asked.pop(name, None)
        self._heard[name] = now

    def _is_gone(self, one: Peer, now: float) -> bool:
        """For the predecessor, which asks every round: silence is enough."""
        return self.is_dead(one, now) or now - self._heard.setdefault(one.name, now) >= self.suspect_after_s

    def bury(self, now: float) -> bool:
        """Takes dead nodes out of the successor list and the fingers; says whether the list has changed."""
        before = self.member
        while self.member.successors and self.is_dead(self.member.successor, now):
            self.member = without_first(self.member, self.length, self.bits)
        alive = tuple(each for each in self.member.successors if not self.is_dead(each, now))
        if alive != self.member.successors:
            self.member = replace(self.member, successors=alive)
        for each in [each for each in self._arcs if self.is_dead(each, now)]:
            del self._arcs[each]
        return self.member != before

    def _forget(self, now: float) -> None:
        """Gives up who has been dead for long, and drops the notes about names that mean nothing here any more."""
        given_up = [each for each, (since, _, _) in self._asked.items() if now - since >= GIVEN_UP_AFTER_S]
        for name in given_up:
            if not self._is_given(name) and self.is_dead(self._known_as(name), now):
                self._known.pop(name, None)
                self._asked.pop(name)
                self._heard.pop(name, None)
        if max(len(self._asked), len(self._heard)) > MOST_NOTED:
            near = (self.member.predecessor, *self.member.successors, *self._arcs)
            kept = self._known.keys() | {each.name for each in near}
            self._asked = {name: noted for name, noted in self._asked.items() if name in kept}
            self._heard = {name: noted for name, noted in self._heard.items() if name in kept}

    # --- a round

    def tick(self, now: float) -> list[Effect]:
        """One round of questions."""
        effects: list[Effect] = [Changed()] if self.bury(now) else []
        self._forget(now)
        self._round += 1
        self._asked_this_round.clear()
        self._rounds_alone = 0 if self.member.successors else self._rounds_alone + 1
        if self._known and 0 < self._rounds_alone <= PATIENT_ROUNDS:
            effects.append(Changed())  # who is about to join is not quiet
        if self.member.successors:
            effects.append(self._ask(self.member.successor, now, notify=True))
        elif self.member.predecessor != self.me and self._is_due(self.member.predecessor, now):
            effects.append(self._ask(self.member.predecessor, now))
        effects += [self._ask(each, now) for each in self._some_known(now)]
        target = self._finger_place()
        if target is not None:
            hop = self.next_hop(target, now)
            if hop != self.me:
                effects.append(SendTo(hop.name, Locate(target, self.me.name)))
        return effects

    def _ask(self, other: Peer, now: float, notify: bool = False) -> Effect:
        since, tries, _ = self._asked.get(other.name, (now, 0, now))
        self._asked[other.name] = (since, tries + 1, now)
        if not self.member.successors and not notify:
            return SendTo(other.name, Locate(self.me.key, self.me.name))
        return SendTo(other.name, Ask(notify, self.mapping))

    def _some_known(self, now: float) -> list[Peer]:
        """The next ones of those who were heard of, in turn."""
        others = [each for each in self._known.values() if each != self.member.successor and self._is_due(each, now)]
        count = min(ASKED_A_ROUND, len(others))
        begin = self._round * ASKED_A_ROUND
        return [others[(begin + each) % len(others)] for each in range(count)]

    def _finger_place(self) -> int | None:
        """The place of one finger beyond the successor list; None where the list goes round the whole ring."""
        if len(self.member.successors) < self.length:
            return None
        reach = distance(self.me.key, self.member.successors[-1].key, self.bits)
        least = reach.bit_length()
        if least >= self.bits:
            return None
        exponent = least + self._round % (self.bits - least)
        return (self.me.key + (1 << exponent)) % (1 << self.bits)

    # --- messages

    def receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        self.learn(sender)
        self._heard_of(sender, now)
        match message:
            case Ask(notify):
                effects: list[Effect] = [SendTo(sender, self.answer())]
                if notify:
                    before = self.member
                    gone = self._is_gone(before.predecessor, now)
                    self.member = rectified(before, self._known_as(sender), gone)
                    effects += [Changed()] if self.member != before else []
                return effects
            case Answer(predecessor, successors):
                return self._answered(sender, predecessor, successors, now)
            case Locate(key, asker, hops):
                return self._locate(key, asker, hops, now)
            case Leaving(predecessor, successors):
                return self._leaves(sender, predecessor, successors, now)
        return []

    def answer(self) -> Answer:
        return Answer(self.member.predecessor.name, tuple(each.name for each in self.member.successors), self.mapping)

    def leaving(self) -> list[Effect]:
        told = Leaving(self.member.predecessor.name, tuple(each.name for each in self.member.successors))
        names = dict.fromkeys([self.member.predecessor.name, *(each.name for each in self.member.successors)])
        return [SendTo(each, told) for each in names if each != self.me.name]

    def _known_as(self, name: str) -> Peer:
        return self.me if name == self.me.name else peer(name, self.bits)

    def _answered(self, sender: str, predecessor: str, successors: tuple[str, ...], now: float) -> list[Effect]:
        for each in (predecessor, *successors):
            self.learn(each)
        found = Member(self._known_as(sender), self._known_as(predecessor), tuple(map(self._known_as, successors)))
        self._note_arcs(found, now)
        before = self.member
        if not before.successors:
            self.member = self._first_answer(before, found)
        elif found.me == before.successor or strictly_between(found.me.key, self.me.key, before.successor.key):
            self.member = stabilised(before, replace(found, successors=self._living(found.successors, now)), self.length)
        effects: list[Effect] = [Changed()] if self.member != before else []
        first = candidate(self.member, found)
        nearer = {*found.successors, *([] if first is None else [first])} - {self.me, self.member.successor}
        for one in sorted(nearer):
            if one in self._asked_this_round or self.is_dead(one, now):
                continue
            if strictly_between(one.key, self.me.key, self.member.successor.key):
                self._asked_this_round.add(one)
                effects.append(SendTo(one.name, Ask(False, self.mapping)))
        return effects

    def _living(self, peers: tuple[Peer, ...], now: float) -> tuple[Peer, ...]:
        return tuple(each for each in peers if not self.is_dead(each, now))

    def _first_answer(self, before: Member, found: Member) -> Member:
        """Alone until now: join before the answering node's first successor, in one step, if that is the place."""
        if not found.successors and self._rounds_alone <= PATIENT_ROUNDS:
            return before
        if not found.successors or between(self.me.key, found.me.key, found.successor.key):
            return joined(self.me, found, self.length)
        return before

    def _note_arcs(self, found: Member, now: float) -> None:
        if found.predecessor != found.me:
            self._arcs[found.me] = Finger(found.me, found.predecessor.key)
        for each in fingers_of(found, (), self.bits):
            if each.peer != self.me and not self.is_dead(each.peer, now):
                self._arcs[each.peer] = each
        while len(self._arcs) > MOST_KNOWN:
            del self._arcs[next(iter(self._arcs))]

    def _locate(self, key: int, asker: str, hops: int, now: float) -> list[Effect]:
        self.learn(asker)
        if asker == self.me.name or hops >= MOST_HOPS:
            return []
        member = self.member
        if not member.successors or between(key, self.me.key, member.successor.key):
            return [SendTo(asker, self.answer())]
        hop = self.next_hop(key, now, but=asker)
        if hop == self.me:
            return [SendTo(asker, self.answer())]
        return [SendTo(hop.name, Locate(key, asker, hops + 1))]

    def _leaves(self, sender: str, predecessor: str, successors: tuple[str, ...], now: float) -> list[Effect]:
        gone = Member(self._known_as(sender), self._known_as(predecessor), tuple(map(self._known_as, successors)))
        self._known.pop(sender, None)
        self._arcs.pop(gone.me, None)
        before = self.member
        self.member = without_leaver(before, gone, self.length)
        if before.successors and not self._living(self.member.successors, now):
            # Its word may come late, when it is back and the others are dead: an entry too many is no harm.
            self.member = replace(self.member, successors=before.successors)
        if before.predecessor == gone.me:
            self._heard[self.member.predecessor.name] = now
        return [Changed()] if self.member != before else []

    # --- ways

    def next_hop(self, key: int, now: float, but: str = "") -> Peer:
        """The node to ask about a key: the nearest one before it that is known and not dead, or the first successor."""
        if self.member.successors and between(key, self.me.key, self.member.successor.key):
            return self.member.successor
        hints = (*self.member.successors, *self._arcs)
        return closest_before(key, self.me, hints, self.bits, lambda each: each.name != but and not self.is_dead(each, now))

    def fingers(self, now: float) -> list[Finger]:
        """All that messages to keys go over: the successors and the nodes whose arcs are known, nearest first."""
        return fingers_of(self.member, (each for each in self._arcs.values() if not self.is_dead(each.peer, now)), self.bits)

    def state(self) -> dict[str, Any]:
        return {
            "key": self.me.key,
            "share": self.me.key / (1 << self.bits),
            "predecessor": self.member.predecessor.name,
            "successors": [each.name for each in self.member.successors],
            "fingers": sorted(each.name for each in self._arcs),
        }
