"""All servers change the mapping specification or none, which the paper leaves open (Eide et al. 2003, section 4.4).

A mapping has an id that only grows. A server that learns of a newer one joins its groups *besides* those of the old one, and
says so (`hears`). A server sends by a mapping when all live members hear it; so nobody sends where somebody does not listen.
When all members say that they send by the new one (`uses`), the groups of the old one are left, after a moment for what is
under way.

    a, b, c      use 1, hear 1
    a: Proposal 2                a, b hear 1 2; c was stalled and hears 1       all still send by 1
    c wakes up                   c hears 1 2                                    each sends by 2 as soon as it knows
    all use 2                    all hear 2

Who was away asks for the newest mapping that it hears of. Until it has it, or when two halves of a parted LAN come together
with different mappings, there may be none that all hear: then events go to the control group, where everybody is. A server
that cannot accept a mapping never hears it, so nobody uses it: `state` of the others names who holds it up.
Rule: an event is sent once, to one group that every live member hears if it wants the event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from contentcast.model.errors import ContentcastError
from contentcast.routing.contract import Changed, Effect, SendGroup, SetTimer, Timer
from contentcast.routing.multicast.groups import MappingError
from contentcast.routing.multicast.mapping import BEST_EFFORT, RELIABLE, MappingId, MappingSpecification, Row
from contentcast.routing.multicast.mapping_check import checked
from contentcast.routing.multicast.members import ASK_WITHIN_S, Members
from contentcast.wire.multicast import Ask, MappingKey, Proposal

JOINED: Final = Timer("joined")
"""The groups of a new mapping were joined some time ago: say that they are heard."""
RETIRE: Final = Timer("retire")
"""All use the new mapping, and what was sent by the old one has arrived."""
LACKING: Final = Timer("lacking")
RETIRE_AFTER_S: Final = 0.5
MOST_STEP: Final = 1 << 20
"""A number that is further ahead of all mappings here is refused: after the last one of 64 bits there would be no next."""


class Agreement:
    """`join_s`: how long it takes until a group that was joined brings something."""

    def __init__(self, broker: str, mapping: MappingSpecification, members: Members, join_s: float) -> None:
        self.broker = broker
        self.uses = mapping.id
        self.control = mapping.control
        self._members = members
        self._join_s = join_s
        self._honoured: dict[MappingId, MappingSpecification] = {mapping.id: mapping}
        self._heard: set[MappingId] = {mapping.id}
        self._refused: dict[MappingId, str] = {}

    # --- what is told to others

    def status(self) -> tuple[MappingKey, tuple[MappingKey, ...]]:
        """`uses` and `hears` of what this server tells."""
        return self.uses, tuple(sorted(self._heard))

    def honoured(self) -> Iterable[MappingSpecification]:
        """The mappings whose groups are to be joined."""
        return self._honoured.values()

    def sending(self) -> MappingSpecification | None:
        """The mapping to send by; None: the control group, there is none that all hear."""
        if all(self.uses in each.hears for each in self._members.members.values()):
            return self._honoured[self.uses]
        common = [each for each in self._heard if all(each in member.hears for member in self._members.members.values())]
        return self._honoured[max(common)] if common else None

    # --- proposals

    def propose(self, proposal: Proposal, now: float) -> list[Effect]:
        """A mapping without a number is somebody's wish: it gets the next number, and all are told."""
        if proposal.number <= 0:
            others = (MappingId(*key) for key in self._others())
            newest = max((*self._honoured, *(each for each in others if not self._is_far_ahead(each))))
            mapping = mapping_of(proposal).renumbered(MappingId(newest.number + 1, self.broker))
            return [SendGroup(self.control, proposal_of(mapping)), *self._accept(checked(mapping), now)]
        id = MappingId(proposal.number, proposal.proposer)
        if id in self._honoured or id < self.uses:
            return []
        try:
            if self._is_far_ahead(id):
                raise MappingError(f"its number is more than {MOST_STEP:,} ahead of the mappings here")
            return self._accept(checked(mapping_of(proposal)), now)
        except ContentcastError as reason:
            self._refused[id] = str(reason)
            return [Changed()]

    def _is_far_ahead(self, id: MappingId) -> bool:
        return id.number > max(self._honoured).number + MOST_STEP

    def _accept(self, mapping: MappingSpecification, now: float) -> list[Effect]:
        if mapping.control != self.control:
            raise MappingError(f"the control group is {self.control} and cannot change while servers run")
        self._honoured[mapping.id] = mapping
        return [Changed(), SetTimer(JOINED, now + self._join_s)]

    def joined(self) -> bool:
        """The groups were joined: from now on they are heard. Says whether that is news."""
        news = self._heard != set(self._honoured)
        self._heard = set(self._honoured)
        return news

    def answer(self, asked: MappingKey) -> list[Effect]:
        found = self._honoured.get(MappingId(*asked))
        return [] if found is None else [SendGroup(self.control, proposal_of(found))]

    # --- after anything was heard

    def settle(self, now: float) -> tuple[bool, list[Effect]]:
        """Uses the newest mapping that all hear. Says whether the others must be told, and what else to do."""
        members = self._members.members.values()
        best = max((each for each in self._heard if all(each in one.hears for one in members)), default=self.uses)
        news = best > self.uses
        if news:
            self.uses = best
        effects: list[Effect] = [Changed()] if news else []
        if len(self._honoured) > 1 and self._can_retire():
            effects.append(SetTimer(RETIRE, now + RETIRE_AFTER_S))
        if self._lacking() is not None:
            effects.append(SetTimer(LACKING, now + ASK_WITHIN_S))
        return news, effects

    def retire(self) -> bool:
        """Leaves the mappings that nobody uses any more. Says whether there were some."""
        if not self._can_retire():
            return False
        old = [each for each in self._honoured if each < self.uses]
        for each in old:
            del self._honoured[each]
        self._heard &= set(self._honoured)
        return bool(old)

    def ask(self) -> list[Effect]:
        """For the newest mapping that somebody has and this server has not."""
        lacking = self._lacking()
        return [] if lacking is None else [SendGroup(self.control, Ask(lacking[1], lacking[0]))]

    def is_behind(self) -> bool:
        """Does somebody have a newer mapping than this server uses?"""
        return any(key > self.uses for key in self._others())

    def _can_retire(self) -> bool:
        return any(each < self.uses for each in self._honoured) and all(
            MappingId(*each.uses) >= self.uses for each in self._members.members.values()
        )

    def _others(self) -> list[MappingKey]:
        return [key for each in self._members.members.values() for key in each.hears]

    def _lacking(self) -> tuple[MappingKey, str] | None:
        """The newest id that a member hears, and who: None if this server has it, or refused it."""
        newest = max(self._honoured)
        heard = [(key, name) for name, each in sorted(self._members.members.items()) for key in each.hears]
        lacking = [each for each in heard if each[0] > newest and MappingId(*each[0]) not in self._refused]
        return max(lacking, default=None)

    def state(self) -> dict[str, Any]:
        holding_up = {
            str(each): sorted(name for name, one in self._members.members.items() if each not in one.hears)
            for each in self._honoured
            if each > self.uses
        }
        found: dict[str, Any] = {"uses": tuple(self.uses), "hears": sorted(map(tuple, self._heard))}
        if holding_up:
            found["held up by"] = holding_up
        if self._refused:
            found["refused"] = {str(each): reason for each, reason in self._refused.items()}
        return {"mapping": found}


def proposal_of(mapping: MappingSpecification) -> Proposal:
    """The mapping as a message; with number 0 it asks whoever gets it for the next number."""
    return Proposal(
        mapping.id.number,
        mapping.id.proposer,
        mapping.control,
        mapping.otherwise,
        tuple(row.group for row in mapping.rows),
        tuple(row.quality == RELIABLE for row in mapping.rows),
        tuple(row.filter for row in mapping.rows),
    )


def mapping_of(proposal: Proposal) -> MappingSpecification:
    rows = tuple(
        Row(filter, group, RELIABLE if reliable else BEST_EFFORT)
        for filter, group, reliable in zip(proposal.filters, proposal.groups, proposal.reliable, strict=True)
    )
    return MappingSpecification(rows, proposal.otherwise, proposal.control, MappingId(proposal.number, proposal.proposer))
