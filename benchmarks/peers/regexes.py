"""hyperscan: rules as regular expressions, all matched at once. An event of equality tests is one character per attribute.

a1 = 3 AND a3 = 2  over (a1, a2, a3)      ^3.2        the event 3, 1, 2 is the text 312
endswith(name, 'X')                       X$          the event is its text
"""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.peers.rules import Ints, Matches, Rules, Unsuitable

CHARACTERS: Final = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#%&,:;<=>@_~", np.uint8)
"""None of them means anything in a regular expression; the last is for a value that no rule names."""

COMPILE_LIMIT_S: Final = 120.0
SAMPLE: Final = 2_000
_TEXT_TESTS: Final = {"startswith": "^{}", "endswith": "{}$", "contains": "{}"}


class Hyperscan:
    def __init__(self, rules: Rules, limit_s: float = COMPILE_LIMIT_S) -> None:
        if rules.between:
            raise Unsuitable("regular expressions do not compare numbers")
        if rules.texts and rules.equal:
            raise Unsuitable("text tests together with others")
        self._rules = rules
        self._values: list[pa.Array] = []
        patterns = self._of_texts() if rules.texts else self._of_equalities()
        started = perf_counter()
        _compiled(patterns[:SAMPLE])
        expected_s = (perf_counter() - started) * len(patterns) / min(SAMPLE, len(patterns))
        if expected_s > limit_s:
            raise Unsuitable(f"compiling would take about {expected_s:.0f} s")
        self._database = _compiled(patterns)

    def _of_equalities(self) -> list[bytes]:
        cells = np.full((self._rules.count, len(self._rules.attributes)), ord("."), np.uint8)
        for at, name in enumerate(self._rules.attributes):
            tests = self._rules.equal[name]
            encoded = tests.value.dictionary_encode()
            if len(encoded.dictionary) >= len(CHARACTERS):
                raise Unsuitable(f"{name} has more values than there are characters")
            self._values.append(encoded.dictionary)
            cells[tests.rule, at] = CHARACTERS[encoded.indices.to_numpy()]
        return [b"^" + bytes(row) for row in cells]

    def _of_texts(self) -> list[bytes]:
        ((_, tests),) = self._rules.texts.items()
        found = {rule: _TEXT_TESTS[how].format(re.escape(text)) for rule, how, text in zip(*tests, strict=True)}
        return [found.get(rule, "").encode() for rule in range(self._rules.count)]

    def match(self, events: pa.RecordBatch) -> Matches:
        texts, text_of = self._texts(events)
        found: list[list[int]] = []
        for text in texts:
            some: list[int] = []
            # The handler gets number, start, end, flags and context; a result that is not None would end the scan.
            self._database.scan(text, match_event_handler=lambda number, *_, add=some.append: add(number))
            found.append(some)
        count = np.array([len(some) for some in found], np.int64)
        rule = np.array([each for some in found for each in some], np.int64)
        if text_of is None:
            return Matches(rule, counts=count)
        starts, count = (np.cumsum(count) - count)[text_of], count[text_of]
        nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return Matches(rule[np.repeat(starts, count) + nth], counts=count)

    def _texts(self, events: pa.RecordBatch) -> tuple[list[bytes], Ints | None]:
        """The texts to scan and, where each is scanned once for all events that have it, which one an event has."""
        if self._rules.texts:
            encoded = events.column(next(iter(self._rules.texts))).dictionary_encode()
            return [each.encode() for each in encoded.dictionary.to_pylist()], encoded.indices.to_numpy().astype(np.int64)
        cells = np.empty((events.num_rows, len(self._values)), np.uint8)
        for at, (name, values) in enumerate(zip(self._rules.attributes, self._values, strict=True)):
            code = pc.index_in(events.column(name), value_set=values).fill_null(len(CHARACTERS) - 1)
            cells[:, at] = CHARACTERS[code.to_numpy(zero_copy_only=False)]
        return [bytes(row) for row in cells], None


def _compiled(patterns: list[bytes]) -> Any:
    import hyperscan

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL
    database.compile(expressions=patterns, ids=list(range(len(patterns))), elements=len(patterns), flags=flags)
    return database
