"""Link matching (Banavar et al. 1999, section 3): trits on the search tree, virtual links, and the hybrid with flooding."""

from contentcast.routing.link_matching.hybrid import Hybrid
from contentcast.routing.link_matching.router import LinkMatching

__all__ = ["Hybrid", "LinkMatching"]
