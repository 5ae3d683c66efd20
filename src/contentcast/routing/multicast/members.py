"""The other servers of the LAN: what each of them wants, as soft state that is refreshed and forgotten when it is not.

Source: Eide et al. 2003, sections 4.5 and 5.5. A server tells on the control group what changed, at once, and everything again
periodically; who was not heard of for EXPIRE_AFTER_S is forgotten, for whatever reason.
Departs from it in one point: changes are numbered, so that one that was lost is noticed at the next and asked for.
A server that holds back has only the number in its periodic message, and keeps silent about what others have told
(`held_back`).

    b: Subscribed             Wants(4 > 5, + price < 100)
    c: Received, has 4        c's audience has it
    d: Received, has 3        something is missing: Ask b, after a moment
    b: refresh                Wants(0 > 5, everything)

Rule: only a server itself says what it wants; nobody tells it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from contentcast.model import Predicate, Space, SubscriptionBatch, covers
from contentcast.routing.audience import Audience, Change
from contentcast.routing.audience.audiences import Audiences
from contentcast.routing.contract import Changed, Effect, SendGroup, SetTimer, Timer
from contentcast.routing.dice import Dice
from contentcast.routing.multicast.mapping import RELIABLE
from contentcast.routing.parts.interest import Record
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.wire.multicast import Ask, MappingKey, Wants

EXPIRE: Final = Timer("expire")
ASK: Final = "ask"
"""The timer to ask again; it is about the server that is asked."""

REFRESH_EVERY_S: Final = 2.0
EXPIRE_AFTER_S: Final = 7.0
"""Three refreshes may be lost."""
ASK_WITHIN_S: Final = 0.02
"""Who lacks something asks after a random wait of at most this long: the answer to another may bring it before."""


MOST_TELLERS: Final = 3
"""A want that so many others tell need not be told. The publisher may be one of them, since it does not count its own wants;
another may have just left, unknown to this server. The third is left."""
HELD_WHILE_S: Final = 4.5
"""A server whose want was held back tells it when one of those others was not heard for so long: before they are forgotten."""


@dataclass(slots=True)
class Member:
    """Another server, in one of its lives."""

    incarnation: int
    heard_at: float
    record: Record = field(default_factory=Record)
    told: int = 0
    """The greatest version heard of; more than `record.version` if something is missing."""
    uses: MappingKey = (0, "")
    hears: frozenset[MappingKey] = frozenset()
    promises: bool = False

    @property
    def lacks(self) -> bool:
        return self.told > self.record.version


class Members:
    def __init__(self, control: str, dice: Dice, spaces: SpaceRegister, *, count_steps: bool = True) -> None:
        self.members: dict[str, Member] = {}
        self._control = control
        self._dice = dice
        self._audiences = Audiences.of_one(spaces, self._everything, count_steps=count_steps)

    # --- hearing

    def hear(self, sender: str, wants: Wants, now: float) -> list[Effect]:
        if wants.leaving:
            known = self.members.get(sender)
            return self.forget(sender) if known is not None and known.incarnation <= wants.incarnation else []
        member = self.members.get(sender)
        if member is not None and wants.incarnation < member.incarnation:
            return []
        effects: list[Effect] = []
        if member is None or wants.incarnation > member.incarnation:
            effects += self.forget(sender)
            effects += [Changed(), *self._alarm(now)]
            member = self.members[sender] = Member(wants.incarnation, now)
        member.heard_at = now
        status = wants.uses, frozenset(wants.hears), wants.promises
        if (member.uses, member.hears, member.promises) != status:
            member.uses, member.hears, member.promises = status
            effects.append(Changed())
        member.told = max(member.told, wants.version)
        if wants.version <= member.record.version:
            return effects
        if wants.since and wants.since > member.record.version:
            return [*effects, Changed(), self._ask_later(sender, now)]
        self._apply(sender, member, wants)
        return [*effects, Changed()]

    def _apply(self, sender: str, member: Member, wants: Wants) -> None:
        if wants.since == 0:
            if member.record.blocks:
                self._audiences.note(Change(sender, None, None))
            member.record = Record()
            removed: tuple[int, ...] = ()
        else:
            again = [each for batch in wants.added for each in batch.ids.tolist()]
            removed = tuple(dict.fromkeys((*wants.removed, *again)))
        member.record.apply(wants.version, wants.added, removed)
        if removed:
            self._audiences.note(Change(sender, removed, None))
        for batch in wants.added:
            self._audiences.note(Change(sender, (), batch))

    def _ask_later(self, sender: str, now: float) -> SetTimer:
        return SetTimer(Timer(ASK, sender), now + ASK_WITHIN_S * self._dice.random())

    def ask(self, sender: str, now: float) -> list[Effect]:
        """The wait is over: still missing?"""
        member = self.members.get(sender)
        if member is None or not member.lacks:
            return []
        again = SetTimer(Timer(ASK, sender), now + ASK_WITHIN_S * (1 + self._dice.random()))
        return [SendGroup(self._control, Ask(sender)), again]

    # --- forgetting

    def forget(self, sender: str) -> list[Effect]:
        member = self.members.pop(sender, None)
        if member is None:
            return []
        if member.record.blocks:
            self._audiences.note(Change(sender, None, None))
        return [Changed()]

    def expired(self, now: float) -> list[str]:
        """Servers that were silent too long."""
        return [name for name, each in self.members.items() if each.heard_at + EXPIRE_AFTER_S <= now]

    def next_alarm(self) -> list[Effect]:
        if not self.members:
            return []
        oldest = min(each.heard_at for each in self.members.values())
        return [SetTimer(EXPIRE, oldest + EXPIRE_AFTER_S, background=True)]

    def _alarm(self, now: float) -> list[Effect]:
        return [] if self.members else [SetTimer(EXPIRE, now + EXPIRE_AFTER_S, background=True)]

    # --- what follows from it

    def tellers(self, predicate: Predicate, before: str, heard_since: float) -> int:
        """Servers with smaller names that tell something, by best effort, of which this is a part; MOST_TELLERS are enough.

        The names decide, so that no two servers each keep silent because of the other.
        """
        count = 0
        for name, member in self.members.items():
            if name < before and member.heard_at >= heard_since and not member.lacks and _tells(member, predicate):
                count += 1
                if count == MOST_TELLERS:
                    break
        return count

    def anyone_promises(self) -> bool:
        """Do clients of another server advertise reliably?"""
        return any(each.promises for each in self.members.values())

    def audience(self, space: Space) -> Audience:
        """What the other servers want of this space; an origin is a server, a name the quality that it asks for."""
        return self._audiences.of(space)

    def _everything(self) -> Iterator[tuple[str, SubscriptionBatch]]:
        for name, member in sorted(self.members.items()):
            yield from ((name, batch) for _, batch in member.record.blocks)

    def life(self, name: str) -> tuple[str, int]:
        """A server and its life, which is what somebody owes something to."""
        member = self.members.get(name)
        return name, 0 if member is None else member.incarnation

    def sizes(self) -> dict[str, int]:
        return {**self._audiences.sizes(), "members": len(self.members)}

    def state(self) -> dict[str, Any]:
        return {
            "members": {
                name: {
                    "incarnation": each.incarnation,
                    "wants": sorted(id for _, batch in each.record.blocks for id in batch.ids.tolist()),
                    "lacks": each.lacks,
                    "uses": each.uses,
                    "hears": sorted(each.hears),
                }
                for name, each in sorted(self.members.items())
            }
        }


def _tells(member: Member, predicate: Predicate) -> bool:
    """What is wanted reliably does not count, nor so what gateways want: they leave each other's wants out."""
    return any(
        each.subscriber != RELIABLE and covers(each.predicate, predicate)
        for _, batch in member.record.blocks
        if batch.space == predicate.space
        for each in batch
    )
