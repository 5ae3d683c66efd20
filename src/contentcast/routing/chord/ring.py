"""What one member knows of the ring, and the steps by which members keep it one ring. Values and pure functions only.

Source: Zave, "How to make Chord correct" (arXiv 1502.06461) and "Reasoning about identifier spaces" (arXiv 1610.01140); no
Chord as published before is correct.

    join          the joiner takes the whole list of the member m before it, and m as its predecessor, in one step
    stabilise     first successor dead: drop it, pad with (last + 1); alive: [s] + its list; if its predecessor lies between,
                  [c] + the list of that one, if it is alive
    rectify       who notifies becomes the predecessor if it lies between, or if the predecessor is dead; never nobody

Rule: after every step each member has a live entry in its list, and at least r + 1 members are *principals*: no adjacent pair
of any [n] + list skips them. The two imply one ordered ring; tests/unit/routing/chord checks them after every step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from contentcast.routing.chord.keys import BITS, Peer, between, distance, strictly_between


@dataclass(frozen=True, slots=True)
class Member:
    """`successors` has the next members clockwise, nearest first; alone on the ring it has none and is its own predecessor."""

    me: Peer
    predecessor: Peer
    successors: tuple[Peer, ...] = ()

    @classmethod
    def alone(cls, me: Peer) -> Member:
        return cls(me, me)

    @property
    def successor(self) -> Peer:
        return self.successors[0] if self.successors else self.me

    @property
    def arc(self) -> tuple[int, int]:
        """The keys that it covers: (low, high]."""
        return self.predecessor.key, self.me.key

    def covers(self, key: int) -> bool:
        return between(key, *self.arc)


def listed(me: Peer, first: Peer, others: Iterable[Peer], length: int) -> tuple[Peer, ...]:
    """[first] + its list as a successor list of `me`: it ends where the ring comes round to `me`, and nobody stands twice."""
    found: list[Peer] = []
    for each in (first, *others):
        if each == me:
            break
        if each not in found:
            found.append(each)
    return tuple(found[:length])


def joined(me: Peer, before: Member, length: int) -> Member:
    """The joiner, when `before` is the member with the joiner between itself and its first successor.

    Or with the joiner as its first successor: it has been there before and is not missed yet.
    """
    others = tuple(each for each in before.successors if each != me) or (before.me,)
    return Member(me, before.me, listed(me, others[0], others[1:], length))


def without_first(member: Member, length: int, bits: int = BITS) -> Member:
    """Its first successor does not answer. Nobody left: it is alone.

    Zave pads the list with (last + 1), a place and not a member; here the list is short until the next stabilisation.
    """
    left = member.successors[1:]
    if not left and member.predecessor not in (member.me, member.successor):
        # The last resort: the member before it is the next one clockwise, as far as it knows.
        left = (member.predecessor,)
    return replace(member, successors=left[:length]) if left else Member.alone(member.me)


def stabilised(member: Member, found: Member, length: int) -> Member:
    """After an answer of its first successor, or of a member that lies between them: [found] + the list of that one.

    Who has no list has just started, perhaps under the name of a member that crashed: its answer takes nothing away.
    """
    return replace(member, successors=listed(member.me, found.me, found.successors or member.successors, length))


def candidate(member: Member, found: Member) -> Peer | None:
    """Who might be a nearer successor: the predecessor of the first successor, if it lies between."""
    other = found.predecessor
    return other if strictly_between(other.key, member.me.key, found.me.key) else None


def rectified(member: Member, notifier: Peer, predecessor_is_dead: bool) -> Member:
    """Somebody says that this member is its first successor."""
    if notifier == member.me or notifier == member.predecessor:
        return member
    nearer = strictly_between(notifier.key, member.predecessor.key, member.me.key) or member.predecessor == member.me
    return replace(member, predecessor=notifier) if nearer or predecessor_is_dead else member


def without_leaver(member: Member, gone: Member, length: int) -> Member:
    """`gone` has said that it leaves, with what it knew: it is out of the list, and who stood before it is the predecessor.

    The list is not filled up with what the leaver knew, unless nobody is left in it: that may be older than what is here.
    """
    me = member.me
    successors = tuple(each for each in member.successors if each != gone.me)
    if member.successor == gone.me and not successors:
        successors = listed(me, gone.successor, gone.successors[1:], length) if gone.successors else ()
    predecessor = member.predecessor
    if predecessor == gone.me:
        predecessor = gone.predecessor if gone.predecessor != gone.me else me
    if not successors and predecessor == me:
        return Member.alone(me)
    return Member(me, predecessor, successors)


def ideal(peers: Iterable[Peer], length: int) -> dict[str, Member]:
    """The ring when all is settled: what every member knows."""
    ring = sorted(set(peers))
    count = len(ring)
    found = {}
    for at, me in enumerate(ring):
        others = tuple(ring[(at + step) % count] for step in range(1, min(length, count - 1) + 1))
        found[me.name] = Member(me, ring[at - 1], others)
    return found


def principals(members: Mapping[str, Member]) -> set[Peer]:
    """Members that no adjacent pair of any [n] + list skips."""
    found = {member.me for member in members.values()}
    for member in members.values():
        chain = (member.me, *member.successors)
        for one, other in itertools.pairwise(chain):
            found -= {each for each in found if strictly_between(each.key, one.key, other.key)}
    return found


def closest_before(
    key: int, me: Peer, hints: Iterable[Peer], bits: int = BITS, alive: Callable[[Peer], bool] | None = None
) -> Peer:
    """Of these nodes, the one nearest before the key, clockwise from `me`; `me` if there is none between."""
    best, near = me, distance(me.key, key, bits) or (1 << bits)
    for each in hints:
        ahead = distance(each.key, key, bits)
        if 0 < ahead < near and strictly_between(each.key, me.key, key) and (alive is None or alive(each)):
            best, near = each, ahead
    return best
