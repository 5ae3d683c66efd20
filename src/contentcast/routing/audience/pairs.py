"""From the rows that events satisfy to what a router wants to know: the links or brokers to send to, the clients to serve.

    event 0 satisfies rows 0 and 2, event 1 row 2         offsets [0, 2, 3]      rows [0, 2, 2]
    words_of_events     words [001, 010, 100]             101   100              the links behind which somebody wants it
    first_of_each       who [0, 1, 0]                     (0, 0) (1, 2)          subscriber 0 gets both, by rows 0 and 2
    rows_of_links       masks [001, 110]                  [0]   [0, 1]           the events for each neighbour

Rule: a row beyond the arrays beside it, or with no bit and no subscriber there, counts for nobody (`members.Found`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from contentcast.routing.audience.members import Found, Ints

Words = npt.NDArray[np.uint64]


def words_of_events(found: Found, words: Words) -> Words:
    """The words of all rows that an event satisfies, OR-ed together."""
    joined = np.zeros((len(found.offsets) - 1, words.shape[1]), np.uint64)
    _join_words(found.offsets, found.rows, words, joined)
    return joined


def first_of_each(found: Found, who: Ints, subscribers: int) -> tuple[Ints, Ints]:
    """Each (event, subscriber) once: the event, and a place in `found.rows` with one of the subscriber's rows."""
    events, places = np.empty(len(found.rows), np.int64), np.empty(len(found.rows), np.int64)
    count = _first_of_each(found.offsets, found.rows, who, np.full(subscribers, -1, np.int64), events, places)
    return events[:count], places[:count]


def rows_of_links(yes: Words, masks: Words) -> list[Ints]:
    """For each mask the events that have a bit of it in `yes`."""
    rows, ends = np.empty(len(yes) * len(masks), np.int64), np.empty(len(masks), np.int64)
    _rows_of_links(yes, masks, rows, ends)
    begin, found = 0, []
    for end in ends.tolist():
        found.append(rows[begin:end])
        begin = end
    return found


@njit(cache=True, nogil=True)
def _join_words(offsets, rows, words, joined):  # type: ignore[no-untyped-def]
    for event in range(len(joined)):
        for at in range(offsets[event], offsets[event + 1]):
            row = rows[at]
            if row < len(words):
                for word in range(words.shape[1]):
                    joined[event, word] |= words[row, word]


@njit(cache=True, nogil=True)
def _first_of_each(offsets, rows, who, last, events, places):  # type: ignore[no-untyped-def]
    """`last`: for each subscriber the last event that was theirs, so nothing has to be sorted."""
    count = 0
    for event in range(len(offsets) - 1):
        for at in range(offsets[event], offsets[event + 1]):
            if rows[at] >= len(who):
                continue
            subscriber = who[rows[at]]
            if subscriber >= 0 and last[subscriber] != event:
                last[subscriber] = event
                events[count], places[count] = event, at
                count += 1
    return count


@njit(cache=True, nogil=True)
def _rows_of_links(yes, masks, rows, ends):  # type: ignore[no-untyped-def]
    count = 0
    for link in range(len(masks)):
        for event in range(len(yes)):
            wanted = np.uint64(0)
            for word in range(yes.shape[1]):
                wanted |= yes[event, word] & masks[link, word]
            rows[count] = event
            count += wanted != 0
        ends[link] = count
