"""From the rows that events satisfy to what a router wants to know: the links or brokers to send to, the clients to serve.

    event 0 satisfies rows 0 and 2, event 1 row 2         offsets [0, 2, 3]      rows [0, 2, 2]
    words_of_events     words [001, 010, 100]             101   100              the links behind which somebody wants it
    first_of_each       who [0, 1, 0]                     (0, 0) (1, 2)          subscriber 0 gets both, by rows 0 and 2
    bits_of_events                                        (0, 0) (0, 2) (1, 2)   each event and each bit that it has
    rows_of_links       masks [001, 110]                  [0]   [0, 1]           the events for each neighbour
    clients_and_links   all of it in one call, for the clients here and the neighbours

Rule: a row beyond the arrays beside it, or with no bit and no subscriber there, counts for nobody (`members.Found`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel
from contentcast.routing.audience.members import Found, Ints

Words = npt.NDArray[np.uint64]
Onward = list[tuple[str, Ints | None]]


def words_of_events(found: Found, words: Words) -> Words:
    """The words of all rows that an event satisfies, OR-ed together."""
    joined = np.zeros((len(found.offsets) - 1, words.shape[1]), np.uint64)
    _join_words(found.offsets, found.rows, words, joined)
    return joined


def bits_of_events(yes: Words) -> tuple[Ints, Ints]:
    """Each (event, number of a bit that it has), ascending."""
    out = np.empty((2, 64 * yes.size), np.int64)
    count = _bits_of_events(yes, out)
    return out[0, :count], out[1, :count]


def first_of_each(found: Found, who: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Each (event, subscriber) once: the event, and a place in `found.rows` with one of the subscriber's rows.

    `last` is of the subscribers, as `stamps` makes it, and is kept from call to call.
    """
    out = np.empty((2, len(found.rows)), np.int64)
    count = _first_of_each(found.offsets, found.rows, who, last, out)
    return out[0, :count], out[1, :count]


def clients_and_links(
    found: Found, who: Ints, last: Ints, words: Words, masks: Words, neighbours: Sequence[str]
) -> tuple[Ints, Ints, Onward]:
    """Each (event, client) once, as two arrays; and the events for each neighbour that gets some (None: all of them): those
    that have a bit of its mask in the words of their rows.

    `last` as for `first_of_each`.
    """
    count, links, pairs = len(found.offsets) - 1, len(masks), len(found.rows)
    out = np.empty(1 + links + 2 * pairs + links * count, np.int64)
    _clients_and_links(found.offsets, found.rows, who, last, words, masks, out)
    served, *ends = out[: 1 + links].tolist()
    begin = 1 + links + 2 * pairs
    onward: Onward = []
    for neighbour, end in zip(neighbours, ends, strict=True):
        if end > begin:
            onward.append((neighbour, None if end - begin == count else out[begin:end]))
            begin = end
    return out[1 + links : 1 + links + served], out[1 + links + pairs : 1 + links + pairs + served], onward


def rows_of_links(yes: Words, masks: Words) -> list[Ints]:
    """For each mask the events that have a bit of it in `yes`."""
    rows, ends = np.empty(len(yes) * len(masks), np.int64), np.empty(len(masks), np.int64)
    _rows_of_links(yes, masks, rows, ends)
    begin, found = 0, []
    for end in ends.tolist():
        found.append(rows[begin:end])
        begin = end
    return found


@kernel
def _clients_and_links(offsets, rows, who, last, words, masks, out):  # type: ignore[no-untyped-def]
    """To `out`: how many clients, where the events of each link end; room for the events, and the clients, of as many pairs as
    there are rows; the events of each link."""
    count, links, wide = len(offsets) - 1, len(masks), words.shape[1]
    events, clients, served = 1 + links, 1 + links + len(rows), 0
    yes = np.zeros((count, wide), np.uint64)
    before = last[len(last) - 1] + 1
    for event in range(count):
        for at in range(offsets[event], offsets[event + 1]):
            row = rows[at]
            if row >= len(who):
                continue
            for word in range(wide):
                yes[event, word] |= words[row, word]
            client = who[row]
            if client >= 0 and last[client] != before + event:
                last[client] = before + event
                out[events + served], out[clients + served] = event, client
                served += 1
    last[len(last) - 1] += count
    out[0] = served
    at = clients + len(rows)
    for link in range(links):
        for event in range(count):
            wanted = np.uint64(0)
            for word in range(wide):
                wanted |= yes[event, word] & masks[link, word]
            if wanted != 0:
                out[at] = event
                at += 1
        out[1 + link] = at


@kernel
def _join_words(offsets, rows, words, joined):  # type: ignore[no-untyped-def]
    for event in range(len(joined)):
        for at in range(offsets[event], offsets[event + 1]):
            row = rows[at]
            if row < len(words):
                for word in range(words.shape[1]):
                    joined[event, word] |= words[row, word]


@kernel
def _bits_of_events(yes, out):  # type: ignore[no-untyped-def]
    count = 0
    for event in range(len(yes)):
        for word in range(yes.shape[1]):
            bits = yes[event, word]
            for bit in range(64):
                if bits == 0:
                    break
                out[0, count], out[1, count] = event, 64 * word + bit
                count += bits & np.uint64(1) != 0
                bits >>= np.uint64(1)
    return count


@kernel
def _first_of_each(offsets, rows, who, last, out):  # type: ignore[no-untyped-def]
    count, before = 0, last[len(last) - 1] + 1
    for event in range(len(offsets) - 1):
        for at in range(offsets[event], offsets[event + 1]):
            if rows[at] >= len(who):
                continue
            subscriber = who[rows[at]]
            if subscriber >= 0 and last[subscriber] != before + event:
                last[subscriber] = before + event
                out[0, count], out[1, count] = event, at
                count += 1
    last[len(last) - 1] += len(offsets) - 1
    return count


@kernel
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
