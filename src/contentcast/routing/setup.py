"""What a router is made with, besides the name of its broker. The same for every protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contentcast.model.transforms.transform import Transforms
from contentcast.network.topology import Topology
from contentcast.routing.audience import Forest


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
    transforms: Transforms | None = None
    """What events of one space become in others, where they enter the network."""
