"""Durable delivery: every accepted event reaches every durable subscription that it matches, exactly once."""

from contentcast.routing.durable.router import Durable

__all__ = ["Durable"]
