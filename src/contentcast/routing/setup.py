"""What a router is made with, besides the name of its broker. The same for every protocol.

A host makes routers through one function, `MakeRouter`: it gives the broker's name and the `Life` that begins.
`catalog.make_router` turns the name of a protocol into such a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from contentcast.model.transforms.transform import Transforms
from contentcast.model.values.kinds import Value
from contentcast.network.topology import Topology
from contentcast.routing.audience import Forest
from contentcast.routing.contract import Router
from contentcast.routing.dice import Dice

CLOCK_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Life:
    """What a host says about one life of a broker: how often it has started, its dice, and how fine its clock is."""

    incarnation: int = 1
    dice: Dice = field(default_factory=lambda: Dice("no host"))
    clock_s: float = CLOCK_S


MakeRouter: TypeAlias = Callable[[str, Life], Router]


@dataclass(frozen=True)
class Setup:
    incarnation: int = 1
    """How often this broker has started; each start must have a larger one than the last."""
    topology: Topology | None = None
    """The network as configured, taken to be up until told otherwise. None: learn it from LinkUp and from the neighbours."""
    forest: Forest = field(default_factory=Forest)
    """Where search trees grow. Brokers of one process may share it."""
    propagate_after_s: float = 0.05
    """Changes of the clients' subscriptions are gathered for so long and told to the other brokers at once."""
    wanted: Mapping[str, float] = field(default_factory=dict)
    """How likely somebody at a broker wants an event, if that was learnt (`LearntPlan.wanted`): the hybrid begins with it."""
    cuts: Mapping[str, Mapping[str, tuple[Value, ...]]] = field(default_factory=dict)
    """Space -> attribute -> values that divide the observed ones into equal parts (`LearntPlan.cuts`), for the overlay."""
    transforms: Transforms | None = None
    """What events of one space become in others, where they enter the network."""
    dice: Dice = field(default_factory=lambda: Dice("no host"))
    clock_s: float = CLOCK_S
    """The resolution of the host's clock: two times closer than this may be equal."""
    contacts: tuple[str, ...] = ()
    """Brokers that can be asked with `SendTo` by one who knows nobody yet; hosts know their addresses."""
    count_steps: bool = True
    """True: match with search trees, whose visited nodes are the steps that `Account` tells. False: with the fastest engine."""

    def living(self, life: Life) -> Setup:
        """The same for this life of a broker."""
        return replace(self, incarnation=life.incarnation, dice=life.dice, clock_s=life.clock_s)
