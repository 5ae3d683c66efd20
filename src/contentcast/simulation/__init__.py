"""A network of brokers in virtual time: the real routers, run by steps on an agenda. Same seed, same trace, byte for byte.

    world = World(topology, make_router("flooding"))
    world.put("c", Subscribed(CHEAP)); world.put("a", Published(TRADE), at=1.0); world.run()
    world.delivered                                                     # [("desk-7", 1)]

`load` has the clients of a workload scenario, `faults` the stories in which everything goes wrong.
"""

from contentcast.hosting.costs import FREE, OURS, PAPER, PAPER_FAST, Costs
from contentcast.simulation.agenda import SimulationError
from contentcast.simulation.trace import Trace
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.world import World

__all__ = ["FREE", "OURS", "PAPER", "PAPER_FAST", "Costs", "LinkQuality", "SimulationError", "Trace", "World"]
