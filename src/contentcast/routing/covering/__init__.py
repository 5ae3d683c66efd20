"""Covering as in SIENA: a subscription stops where one that covers it has passed."""

from contentcast.routing.covering.router import Covering

__all__ = ["Covering"]
