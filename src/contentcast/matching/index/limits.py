"""Sizes and counts from which on the index does something else: when it plans anew, in which steps, how much it remembers.

They decide speed and memory, never matches. Tests hand in small ones, so that a few dozen subscriptions show what otherwise
takes a hundred thousand.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one index."""

    replan_factor: int = 3
    """A new plan is made when there are this many times the subscriptions that the plan was made for ..."""
    replan_least: int = 2000
    """... and at least this many."""
    rebuild_from: int = 8
    """The new plan is made at once if this many times what comes is more than what is there; else by a migration."""
    least_sample: int = 4_096
    """Subscriptions that a migration plans for: an eighth of all, but at least this many ..."""
    most_sample: int = 16_384
    """... and at most this many."""
    paid_per_change: int = 4
    """Work that each change pays for during a migration. Filing a subscription counts 2, so for each that comes two move."""
    paid_in_order: int = 6
    """The same where each subscription is read a first time, for its place in the order. As many come meanwhile as half of
    those that move, so each round is half as long as the round before it.
    """
    piece: int = 64
    """Subscriptions that move at a time, at least: each call has a price of its own."""
    filed_at_once: int = 256
    """Subscriptions that may be left to move in the last step."""
    step_work: int = 48
    """Work that a step of planning counts, beside what it says itself."""
    most_remembered: int = 200_000
    """Text values whose answers are kept between batches, of all attributes together."""
    most_tried: int = 20_000
    """How often new text tests are tried on values that were asked for before, some 20 ms; if more often, all is forgotten."""
    few_events: int = 1024
    """Batches of at most this many events are matched with one call, without preparing for many pieces."""
    streamed_from: int = 3 << 20
    """Ids from which on results are written past the caches: they would not stay there until somebody reads them."""


DEFAULT = Limits()
