"""A LAN segment in virtual time: a message to a group is sent once, and every member gets a copy, or loses it.

    a: SendGroup(g)      one message on the segment
    b, c have joined g   a copy each after `delay_s`; each is lost with probability `loss`
    d has just joined    nothing: its membership takes effect after `join_s`
    part([{a, b}])       c is on the other side, and gets nothing

Rule: every pair of sender and receiver has dice of its own, made of the seed and their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from contentcast.routing.contract import Received, Via
from contentcast.simulation.agenda import Agenda, SimulationError
from contentcast.simulation.ways.parcels import Parcel


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """A LAN: its members (None: all brokers), the seconds a copy takes, how likely it is lost, how long joining takes."""

    name: str = "lan"
    members: tuple[str, ...] | None = None
    delay_s: float = 0.0002
    loss: float = 0.0
    join_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.loss <= 1:
            raise SimulationError(f"segment {self.name}: loss goes from 0 to 1, got {self.loss!r}")
        for what, value in (("delay_s", self.delay_s), ("join_s", self.join_s)):
            if not 0 <= value < float("inf"):
                raise SimulationError(f"segment {self.name}: {what} is a number of seconds from 0, got {value!r}")


Deliverer = Callable[[str, Received, int], None]


class Segment:
    """`arrive(member, input, size)` hands a copy over."""

    def __init__(self, plan: SegmentPlan, agenda: Agenda, seed: int, arrive: Deliverer) -> None:
        self.plan = plan
        self.messages = self.events = self.bytes = self.copies = self.lost = 0
        self._agenda = agenda
        self._seed = seed
        self._arrive = arrive
        self._joined: dict[str, dict[str, float]] = {}
        """Group -> member -> when its membership takes effect."""
        self._side: dict[str, int] = {}
        self._dice: dict[tuple[str, str], Random] = {}

    def has(self, broker: str) -> bool:
        return self.plan.members is None or broker in self.plan.members

    def join(self, broker: str, group: str) -> None:
        members = self._joined.setdefault(group, {})
        members.setdefault(broker, self._agenda.now + self.plan.join_s)

    def leave(self, broker: str, group: str | None = None) -> None:
        """One group, or (it is down) all of them."""
        for each in [group] if group is not None else list(self._joined):
            self._joined.get(each, {}).pop(broker, None)

    def part(self, groups: Sequence[Iterable[str]]) -> None:
        """Members of different groups do not hear each other; those that are in none make one together."""
        self._side = {broker: number for number, group in enumerate(groups, 1) for broker in group}

    def heal(self) -> None:
        self._side = {}

    def send(self, sender: str, group: str, parcel: Parcel, ready: float) -> None:
        self.messages += 1
        self.events += parcel.events
        self.bytes += parcel.size
        for member, effective in sorted(self._joined.get(group, {}).items()):
            if member == sender or effective > ready or self._side.get(member) != self._side.get(sender):
                continue
            if self.plan.loss and self._dice_of(sender, member).random() < self.plan.loss:
                self.lost += 1
                continue
            self.copies += 1
            self._agenda.put(ready + self.plan.delay_s, self._arrives, (member, sender, group, parcel))

    def _dice_of(self, sender: str, member: str) -> Random:
        found = self._dice.get((sender, member))
        if found is None:
            found = self._dice[sender, member] = Random(f"{self._seed} {self.plan.name} {sender} > {member}")
        return found

    def _arrives(self, told: tuple[str, str, str, Parcel]) -> None:
        member, sender, group, parcel = told
        if group in self._joined and member in self._joined[group]:
            self._arrive(member, Received(sender, parcel.opened(), Via("group", group)), parcel.size)
