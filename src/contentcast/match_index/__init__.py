"""The face of `matching.index` for people who have predicates as text and events as dicts or Arrow.

    match_index     `MatchIndex`: which subscriptions of a space an event satisfies
    subscriptions   how they are added and removed, and which of two engines has them
    given           ids and predicates as they are given: read, and what is wrong with them named
    event_checks    events as they are given: checked, and fitted to the space
    answers         matches as Arrow record batches: pairs, or a list for each event
    threads         the threads that a large batch is split over

One level above `language` and `matching`, since it is where they meet.
"""

from contentcast.match_index.match_index import MatchIndex

__all__ = ["MatchIndex"]
