"""Matching: which subscriptions an event satisfies."""

from contentcast.matching.contract import Engine, Pairs
from contentcast.matching.scan import Scan

__all__ = ["Engine", "Pairs", "Scan"]
