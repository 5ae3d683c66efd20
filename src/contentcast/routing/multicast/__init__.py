"""A LAN without brokers between its computers: events are mapped onto IP multicast groups (Eide et al. 2003)."""

from contentcast.routing.multicast.groups import Group
from contentcast.routing.multicast.mapping import MappingId, MappingSpecification, Row
from contentcast.routing.multicast.server import Multicast

__all__ = ["Group", "MappingId", "MappingSpecification", "Multicast", "Row"]
