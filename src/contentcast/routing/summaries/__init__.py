"""Subscription summaries (Triantafillou & Economides 2004, section 4): propagation by degree, and events with BROCLI."""

from contentcast.routing.summaries.degrees import Degrees
from contentcast.routing.summaries.router import Summaries

__all__ = ["Degrees", "Summaries"]
