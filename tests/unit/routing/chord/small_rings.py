"""All rings of a few places, as numbers: every state that any order of steps can lead to, level by level, by columns.

A member of a ring of n places with lists of R = 2 has few values: absent, or its predecessor and its successors. They are
numbered; what a step makes of them is computed once for every pair by the functions that nodes run (`routing.chord.ring`) and
then looked up. A state is n such numbers in one int64.

    join        the absent place takes the list of the member before it
    fail        the environment takes a member away, if the invariants still hold: Zave's operating assumption
    leave       the same, and any of those that it tells has heard of it: every subset is a step of its own
    stabilise   with an answer of the first successor, and of the one between if there is one
    notify      the first successor rectifies

Rule: turning a ring by one place changes nothing (`test_turning_a_ring_changes_nothing` shows it for every table), so that of
all turned states one is visited.
"""

from __future__ import annotations

import itertools
import sys
from functools import cached_property

import numpy as np
import numpy.typing as npt

from contentcast.routing.chord.keys import Peer, strictly_between
from contentcast.routing.chord.ring import (
    Member,
    candidate,
    ideal,
    joined,
    rectified,
    stabilised,
    without_first,
    without_leaver,
)

R = 2
ABSENT = 0
States = npt.NDArray[np.int64]
"""One row for each state, one column for each place: the number of the member that stands there."""


def peers(count: int) -> list[Peer]:
    return [Peer(10 * (at + 1), f"n{at}") for at in range(count)]


class SmallRings:
    """All rings of `count` places. What a member knows is numbered as its place sees it: 0 is itself, 1 the next place."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.peers = peers(count)
        lists = [(), *((a,) for a in range(1, count)), *((a, b) for a, b in itertools.permutations(range(1, count), 2))]
        self.seen = [None, *((before, *mine) for before in range(count) for mine in lists)]
        """Number -> (predecessor, successors ...) in steps from the member itself."""
        self.number = {each: at for at, each in enumerate(self.seen)}

    def member(self, number: int, at: int) -> Member:
        before, *after = self.seen[number]
        there = [self.peers[(at + step) % self.count] for step in (before, *after)]
        return Member(self.peers[at], there[0], tuple(there[1:]))

    def numbered(self, member: Member) -> int:
        at = self.peers.index(member.me)
        steps = [(self.peers.index(each) - at) % self.count for each in (member.predecessor, *member.successors)]
        return self.number[tuple(steps)]

    def state(self, ring: dict[str, Member]) -> States:
        return np.array([[self.numbered(ring[each.name]) if each.name in ring else ABSENT for each in self.peers]])

    # --- tables: what a step makes of a member at place `at`

    @cached_property
    def first(self) -> npt.NDArray[np.int64]:
        """Steps to the first successor; 0 for absent and alone."""
        return np.array([0 if each is None or len(each) == 1 else each[1] for each in self.seen])

    @cached_property
    def masks(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(places that its list names, places that an adjacent pair of [n] + list skips), bit k for k steps ahead."""
        named, skipped = np.zeros(len(self.seen), np.int64), np.zeros(len(self.seen), np.int64)
        for number, each in enumerate(self.seen):
            if each is None:
                continue
            chain = (0, *each[1:])
            named[number] = sum(1 << step for step in each[1:])
            for one, other in itertools.pairwise(chain):
                keys = [self.peers[step].key for step in (one, other)]
                skipped[number] |= sum(1 << at for at, peer in enumerate(self.peers) if strictly_between(peer.key, *keys))
        return named, skipped

    def pairs(self, at: int, step) -> npt.NDArray[np.int64]:
        """step(member at `at`, other number, where it stands) for every number of the member."""
        table = np.full(len(self.seen), ABSENT)
        for number in range(1, len(self.seen)):
            made = step(self.member(number, at))
            table[number] = ABSENT if made is None else self.numbered(made)
        return table

    def with_answers(self, at: int) -> npt.NDArray[np.int64]:
        """[member, steps to who answered, its number] -> the member with the list of that one."""
        size = len(self.seen)
        table = np.zeros((size, self.count, size), np.int32)
        mine = [Member.alone(self.peers[at]), *(self.member(number, at) for number in range(1, size))]
        for ahead in range(1, self.count):
            found = [self.member(number, (at + ahead) % self.count) for number in range(1, size)]
            # A list that is taken depends on who answered alone, the predecessor that is kept on the member alone.
            lists = [self.seen[self.numbered(stabilised(mine[0], each, R))][1:] for each in found]
            alone = [number for number, each in enumerate(found, 1) if not each.successors]
            for number in range(1, size):
                before = self.seen[number][0]
                table[number, ahead, 1:] = [self.number[before, *each] for each in lists]
                for each in alone:
                    table[number, ahead, each] = self.numbered(stabilised(mine[number], found[each - 1], R))
        return table

    @cached_property
    def answered(self) -> npt.NDArray[np.int64]:
        return self.with_answers(0)

    def candidates(self, at: int) -> npt.NDArray[np.int64]:
        """[steps to who answered, its number] -> steps to whoever might stand between; 0 for nobody."""
        table = np.zeros((self.count, len(self.seen)), np.int64)
        alone = Member.alone(self.peers[at])
        for ahead in range(1, self.count):
            for number in range(1, len(self.seen)):
                there = self.member(number, (at + ahead) % self.count)
                nearer = candidate(alone, there)
                table[ahead, number] = 0 if nearer is None else (self.peers.index(nearer) - at) % self.count
        return table

    @cached_property
    def between(self) -> npt.NDArray[np.int64]:
        return self.candidates(0)

    def dropping(self, at: int) -> npt.NDArray[np.int64]:
        return self.pairs(at, lambda member: without_first(member, R) if member.successors else member)

    @cached_property
    def dropped(self) -> npt.NDArray[np.int64]:
        return self.dropping(0)

    def notifying(self, at: int) -> npt.NDArray[np.int64]:
        """[steps to who notifies, is the predecessor dead, member]"""
        return np.array(
            [
                [
                    self.pairs(at, lambda member, by=by, dead=dead: rectified(member, self.peers[(at + by) % self.count], dead))
                    for dead in (False, True)
                ]
                for by in range(self.count)
            ]
        )

    @cached_property
    def notified(self) -> npt.NDArray[np.int64]:
        return self.notifying(0)

    def joining(self, at: int) -> npt.NDArray[np.int64]:
        """[steps to the member before the joiner, its number] -> the joiner; absent where that is not its place."""
        table = np.zeros((self.count, len(self.seen)), np.int64)
        me = self.peers[at]
        for ahead in range(1, self.count):
            for number in range(1, len(self.seen)):
                before = self.member(number, (at + ahead) % self.count)
                if before.successors and strictly_between(me.key, before.me.key, before.successor.key):
                    table[ahead, number] = self.numbered(joined(me, before, R))
        return table

    @cached_property
    def joins(self) -> npt.NDArray[np.int64]:
        return self.joining(0)

    def leaving(self, at: int) -> npt.NDArray[np.int64]:
        """[steps to the leaver, its number, member] -> the member that has heard of it."""
        size = len(self.seen)
        table = np.zeros((self.count, size, size), np.int32)
        mine = [None, *(self.member(number, at) for number in range(1, size))]
        for ahead in range(1, self.count):
            for number in range(1, size):
                gone = self.member(number, (at + ahead) % self.count)
                table[ahead, number, 1:] = [self.numbered(without_leaver(each, gone, R)) for each in mine[1:]]
        return table

    @cached_property
    def left(self) -> npt.NDArray[np.int64]:
        return self.leaving(0)

    # --- states

    def right(self, states: States) -> npt.NDArray[np.bool_]:
        """Zave's invariants: every member has a living successor, and at least R + 1 members are principals."""
        named, skipped = self.masks
        alive = self._present(states)
        fine = np.ones(len(states), bool)
        skipped_by_any = np.zeros(len(states), np.int64)
        for at in range(self.count):
            here = states[:, at]
            fine &= (here == ABSENT) | ((self._turned(named[here], at) & alive) != 0)
            skipped_by_any |= self._turned(skipped[here], at)
        principals = np.bitwise_count(alive & ~skipped_by_any)
        return fine & (principals >= np.minimum(R + 1, np.bitwise_count(alive)))

    def _present(self, states: States) -> npt.NDArray[np.int64]:
        return sum((states[:, at] != ABSENT).astype(np.int64) << at for at in range(self.count))

    def _turned(self, masks: npt.NDArray[np.int64], at: int) -> npt.NDArray[np.int64]:
        whole = (1 << self.count) - 1
        return ((masks << at) | (masks >> (self.count - at))) & whole

    def following(self, states: States) -> tuple[States, States]:
        """The states that one step leads to: (by what the environment does, by what members do)."""
        outside: list[States] = []
        inside: list[States] = []
        rows = np.arange(len(states))
        for at in range(self.count):
            here = states[:, at]
            living = here != ABSENT
            inside += self._joined(states, at, ~living)
            gone = states[living].copy()
            gone[:, at] = ABSENT
            allowed = (np.count_nonzero(gone, axis=1) > R) & self.right(gone)
            outside.append(gone[allowed])
            inside += self._told(states[living][allowed], gone[allowed], at)
            alone = living & (self.first[here] == 0)
            asked = (at + self.first[here]) % self.count
            found = np.where(living & ~alone, states[rows, asked], ABSENT)
            dead = living & ~alone & (found == ABSENT)
            inside.append(self._with(states[dead], at, self.dropped[here[dead]]))
            alive = living & ~alone & (found != ABSENT)
            part, mine, theirs = states[alive], here[alive], found[alive]
            ahead = self.first[mine]
            made = self.answered[mine, ahead, theirs].astype(np.int64)
            nearer = self.between[ahead, theirs]
            which = np.where(nearer > 0, part[np.arange(len(part)), (at + nearer) % self.count], ABSENT)
            made = np.where(which != ABSENT, self.answered[made, nearer, which], made)
            inside.append(self._with(part, at, made))
            inside += self._notified(part, at, ahead)
        return np.concatenate(outside), np.concatenate(inside)

    @staticmethod
    def _with(states: States, at: int, numbers: npt.NDArray[np.int64]) -> States:
        made = states.copy()
        made[:, at] = numbers
        return made

    def _joined(self, states: States, at: int, absent: npt.NDArray[np.bool_]) -> list[States]:
        found = []
        for ahead in range(1, self.count):
            before = states[:, (at + ahead) % self.count]
            steps = (ahead + self.first[before]) % self.count  # its first successor must be there to be asked
            there = states[np.arange(len(states)), (at + steps) % self.count] != ABSENT
            new = self.joins[ahead, before]
            chosen = absent & there & (new != ABSENT)
            found.append(self._with(states[chosen], at, new[chosen]))
        return found

    def _notified(self, states: States, by: int, ahead: npt.NDArray[np.int64]) -> list[States]:
        found = []
        for steps in range(1, self.count):
            part = states[ahead == steps]
            at = (by + steps) % self.count
            here = part[:, at]
            before = np.array([0 if each is None else each[0] for each in self.seen])[here]
            dead = part[np.arange(len(part)), (at + before) % self.count] == ABSENT
            found.append(self._with(part, at, self.notified[self.count - steps, dead.astype(int), here]))
        return found

    def _told(self, states: States, gone: States, leaver: int) -> list[States]:
        """Each subset of the others has heard that this one leaves; whoever is not told by it hears nothing."""
        found = []
        number = states[:, leaver]
        told = np.zeros(len(states), np.int64)
        for at, each in enumerate(self.seen):
            if each is not None:
                told[number == at] = sum(1 << step for step in {*each} - {0})
        told = self._turned(told, leaver)
        others = [at for at in range(self.count) if at != leaver]
        for count in range(1, R + 2):
            for subset in itertools.combinations(others, count):
                wanted = sum(1 << at for at in subset)
                chosen = ((told & wanted) == wanted) & (gone[:, list(subset)] != ABSENT).all(axis=1)
                made = gone[chosen].copy()
                for at in subset:
                    ahead = (leaver - at) % self.count
                    made[:, at] = self.left[ahead, number[chosen], made[:, at]]
                found.append(made)
        return found

    # --- visiting

    def packed(self, states: States) -> npt.NDArray[np.int64]:
        """One number for a state and all that it can be turned to: the least of them."""
        bits = len(self.seen).bit_length()
        turned = [
            sum(states[:, (at + turn) % self.count] << (bits * at) for at in range(self.count)) for turn in range(self.count)
        ]
        return np.minimum.reduce(turned)

    def unpacked(self, numbers: npt.NDArray[np.int64]) -> States:
        bits = len(self.seen).bit_length()
        return np.stack([(numbers >> (bits * at)) & ((1 << bits) - 1) for at in range(self.count)], axis=1)

    def visit(self, most_steps: int | None = None, slice_of: int = 200_000) -> list[int]:
        """New states of each level, until there are no more or after so many steps; a wrong one is an AssertionError."""
        start = self.packed(self.state(ideal(self.peers[: R + 1], R)))
        seen = level = np.unique(start)
        sizes = [len(level)]
        while len(level) and (most_steps is None or len(sizes) <= most_steps):
            found: list[npt.NDArray[np.int64]] = []
            for begin in range(0, len(level), slice_of):
                states = self.unpacked(level[begin : begin + slice_of])
                outside, inside = self.following(states)
                wrong = np.flatnonzero(~self.right(inside))
                assert not len(wrong), self.shown(inside[wrong[0]])
                found.append(np.unique(self.packed(np.concatenate([outside, inside]))))
            following = np.unique(np.concatenate(found))
            places = np.searchsorted(seen, following)
            new = following[(places == len(seen)) | (seen[np.minimum(places, len(seen) - 1)] != following)]
            seen = np.union1d(seen, new)
            level = new
            sizes.append(len(new))
        return sizes

    def shown(self, state: npt.NDArray[np.int64]) -> str:
        members = [self.member(int(number), at) for at, number in enumerate(state) if number != ABSENT]
        return "; ".join(f"{m.predecessor.name} < {m.me.name} > {[each.name for each in m.successors]}" for m in members)


if __name__ == "__main__":
    places, *bound = map(int, sys.argv[1:])
    new = SmallRings(places).visit(*bound)
    print(f"{places} places: {sum(new):,} states, new ones step by step: {new}")
