"""Matching: which subscriptions an event satisfies."""

from contentcast.matching.scan import Scan

__all__ = ["Scan"]
