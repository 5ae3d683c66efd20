"""Algorithm 1 by bitmaps: for each event the entries that every attribute lets pass, and who they belong to.

Source: Triantafillou & Economides 2004, section 3.3. The paper keeps a counter for each id and compares it with the number of
attributes in c3. An entry reaches that number exactly when every attribute either satisfies it or is not in its c3; a bitmap
for each attribute says that for 64 entries at a time, and the AND of all attributes is the answer. For two entries and one
attribute

    0: price BETWEEN 5 AND 9      1: (does not name price)       2: price = 7          bit e of a bitmap: entry e may pass

    codes     0: below 5   1: [5, 7)   2: 7       3: [8, 9]   4: from 10
    bitmap    010          011         111        011         010
    toggles   [0, 2, 2, 0]     ends [0, 1, 2, 3, 4]     bitmap of a code: that of no value, toggles[:ends[code]] turned over

Bitmaps are kept for some codes only, `step` toggles apart; what lies between is turned over for the event at hand.

    words    all bitmaps, `width` words each       full   bit w of word w >> 6: word w of the bitmap is not 0

Rule: `flips` and `extra` are all zero before and after every event.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contentcast.kernels.kernel import kernel
from contentcast.matching.bits import lowest_bit as _lowest_bit

lowest_bit: Any = _lowest_bit  # called from kernels, where it takes the word alone

ABSENT, ANY, FREE = -1, -2, -3
"""As a code: the event does not carry the attribute; every entry passes; only entries that do not name the attribute pass."""


@kernel
def lay_bitmaps(free, toggles, ends, step):  # type: ignore[no-untyped-def]
    """The bitmaps, one after the other, and for each code the nearest bitmap and the toggles between the two (begin, stop).

    A code gets a bitmap of its own once `step` toggles have come together since the last one. Turning over what lies between is
    the same in both directions, so a code may also go back from the next bitmap.
    """
    width = len(free)
    bitmap_of, begin_of, stop_of = np.zeros(len(ends), np.int32), np.zeros(len(ends), np.int32), np.zeros(len(ends), np.int32)
    count, begin = 1, 0
    for code in range(len(ends)):
        if ends[code] - begin >= step:
            count += 1
            begin = ends[code]
        bitmap_of[code], begin_of[code] = count - 1, begin
    words = np.empty(count * width, np.uint64)
    state = free.copy()
    words[:width] = state
    at = 0
    for code in range(len(ends)):
        if bitmap_of[code] and begin_of[code] == ends[code] and at < ends[code]:
            for each in range(at, ends[code]):
                entry = toggles[each]
                state[entry >> 6] ^= np.uint64(1) << np.uint64(entry & 63)
            at = ends[code]
            words[bitmap_of[code] * width : (bitmap_of[code] + 1) * width] = state
    following, place = -1, 0
    for code in range(len(ends) - 1, -1, -1):
        stop_of[code] = ends[code]
        if begin_of[code] == ends[code]:
            following, place = bitmap_of[code], ends[code]
        elif following >= 0 and place - ends[code] < ends[code] - begin_of[code]:
            bitmap_of[code], begin_of[code], stop_of[code] = following, ends[code], place
    return words, bitmap_of, begin_of, stop_of


@kernel
def find_full(words, width):  # type: ignore[no-untyped-def]
    """Which words of each bitmap are not 0."""
    wide = (width + 63) >> 6
    count = len(words) // width
    full = np.zeros(count * wide, np.uint64)
    for number in range(count):
        for word in range(width):
            if words[number * width + word]:
                full[number * wide + (word >> 6)] |= np.uint64(1) << np.uint64(word & 63)
    return full


@kernel
def match_codes(  # type: ignore[no-untyped-def]
    codes, sets, set_at, set_items, words, full, bitmap_of, first_bitmap, absent_bitmap, toggles, begins, stops, code_at, valid,
    target_of, targets, most_flips,
):  # fmt: skip
    """offsets, found: event e has the targets found[offsets[e]:offsets[e + 1]], ascending, each once.

    codes[attribute, event]; sets[attribute, event]: the entries set_items[set_at[s]:set_at[s + 1]] pass as well (patterns), or
    -1.
    """
    one, low6 = np.uint64(1), np.uint64(63)
    attributes, events = codes.shape
    width = len(valid)
    wide = (width + 63) >> 6
    flips, extra = np.zeros(attributes * width, np.uint64), np.zeros(wide, np.uint64)
    alive, bitmaps = np.empty(wide, np.uint64), np.empty(attributes, np.int64)
    touched = np.empty(most_flips, np.int64)
    marks = np.zeros((targets + 63) >> 6, np.uint64)
    marked = np.zeros((len(marks) + 63) >> 6, np.uint64)
    offsets = np.zeros(events + 1, np.int64)
    found = np.empty(max(1024, 4 * events), np.int32)
    count = 0
    for event in range(events):
        top = 0
        for high in range(wide):
            alive[high] = ~np.uint64(0)
        living = True
        for at in range(attributes):
            code = codes[at, event]
            row = at * width
            if code >= 0:
                place = code_at[at] + code
                bitmap = bitmap_of[place]
                for each in range(begins[place], stops[place]):
                    entry = toggles[each]
                    word = entry >> 6
                    flips[row + word] ^= one << (np.uint64(entry) & low6)
                    extra[word >> 6] |= one << (np.uint64(word) & low6)
                    touched[top] = row + word
                    top += 1
            elif code == ABSENT:
                bitmap = absent_bitmap[at]
            elif code == ANY:
                bitmap = 0
            else:
                bitmap = first_bitmap[at]
            if sets[at, event] >= 0:
                for each in range(set_at[sets[at, event]], set_at[sets[at, event] + 1]):
                    entry = set_items[each]
                    word = entry >> 6
                    bit = one << (np.uint64(entry) & low6)
                    if not (words[bitmap * width + word] ^ flips[row + word]) & bit:
                        flips[row + word] ^= bit
                        extra[word >> 6] |= one << (np.uint64(word) & low6)
                        touched[top] = row + word
                        top += 1
            bitmaps[at] = bitmap * width
            some = np.uint64(0)
            for high in range(wide):
                alive[high] &= full[bitmap * wide + high] | extra[high]
                extra[high] = 0
                some |= alive[high]
            if not some:  # most events of a summary with many attribute sets end here
                living = False
                break
        if living:
            for high in range(wide):
                left = alive[high]
                while left:
                    word = (high << 6) + np.int64(lowest_bit(left))
                    left &= left - one
                    if word >= width:
                        break
                    passing = valid[word]
                    for at in range(attributes):
                        passing &= words[bitmaps[at] + word] ^ flips[at * width + word]
                        if not passing:
                            break
                    while passing:
                        target = target_of[(word << 6) + np.int64(lowest_bit(passing))]
                        passing &= passing - one
                        marks[target >> 6] |= one << (np.uint64(target) & low6)
                        marked[target >> 12] |= one << (np.uint64(target >> 6) & low6)
        for each in range(top):
            flips[touched[each]] = 0
        if living:
            for high in range(len(marked)):
                while marked[high]:
                    word = (high << 6) + np.int64(lowest_bit(marked[high]))
                    marked[high] &= marked[high] - one
                    mark = marks[word]
                    marks[word] = 0
                    if count + 64 > len(found):
                        more = np.empty(2 * len(found) + 64, np.int32)
                        more[:count] = found[:count]
                        found = more
                    while mark:
                        found[count] = (word << 6) + np.int64(lowest_bit(mark))
                        mark &= mark - one
                        count += 1
        offsets[event + 1] = count
    return offsets, found[:count]
