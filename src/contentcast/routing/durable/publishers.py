"""The numbers of each publisher that were accepted here: what is sent again is told from what never came.

    accepted 1, 2, 5, 6     last 6, never accepted (3, 4)
    7                       is new, and so is 9
    5                       is a duplicate
    3                       was refused, or came too late: a `NumberError`, because its place in the order is past

The gaps of a publisher are kept from the newest on; what lies below them is known to nobody any more (`UNKNOWN`).
Rule: a number is called a duplicate only if its batch was accepted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import Final

from contentcast.model import ContentcastError
from contentcast.wire.client import PASSING

MOST_GAPS: Final = 1_000
"""Of one publisher. Who leaves out numbers between all batches can send the last thousand batches again."""
UNKNOWN: Final = 0
"""A gap that begins with this, which is no number, holds numbers that were accepted, and others."""


class NumberError(ContentcastError):
    """A publisher's number that was not accepted, and cannot be any more."""


class Publishers:
    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._last: dict[str, tuple[int, int]] = {}
        """The last number of each publisher, and its position."""
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        """Ranges of numbers below the last that were not accepted; they ascend."""
        self._passing: OrderedDict[str, None] = OrderedDict()
        """Those of one life of one client; the one that was silent for longest stands first."""

    def last(self, publisher: str) -> tuple[int, int]:
        return self._last.get(publisher, (0, 0))

    def check(self, publisher: str, number: int, last: int) -> None:
        """Raises for a number that was not accepted and is below the last one."""
        if number >= last:
            return
        gaps = self._gaps.get(publisher, [])
        at = bisect_right(gaps, number, key=lambda gap: gap[0]) - 1
        known, _ = self.last(publisher)
        if number <= known and (at < 0 or number > gaps[at][1]):
            return  # it was accepted
        if number <= known and gaps[at][0] == UNKNOWN:
            raise NumberError(
                f"number {number} is so old that broker {self._broker} does not know any more whether it was accepted: it "
                f"remembers {MOST_GAPS:,} gaps between the numbers of a publisher. Numbers without gaps are remembered for ever"
            )
        raise NumberError(
            f"number {number} was never accepted by broker {self._broker}, and number {last} of the same publisher was: "
            f"numbers must ascend. Publish these events under a number above {last}"
        )

    def note(self, publisher: str, number: int, position: int, most_passing: int) -> None:
        """It is accepted."""
        last, _ = self.last(publisher)
        if number > last + 1:
            gaps = self._gaps.setdefault(publisher, [])
            gaps.append((last + 1, number - 1))
            if len(gaps) > MOST_GAPS:
                gaps[:2] = [(UNKNOWN, gaps[1][1])]
        self._set(publisher, number, position, most_passing)

    def _set(self, publisher: str, number: int, position: int, most_passing: int) -> None:
        self._last[publisher] = (number, position)
        if publisher.startswith(PASSING):
            self._passing[publisher] = None
            self._passing.move_to_end(publisher)
            if len(self._passing) > most_passing:
                self.forget(next(iter(self._passing)))

    def forget(self, publisher: str) -> None:
        del self._last[publisher]
        self._gaps.pop(publisher, None)
        self._passing.pop(publisher, None)

    # --- for a checkpoint

    def table(self) -> dict[str, tuple[int, int]]:
        """Those of one life in the order in which they were heard."""
        named = {name: each for name, each in self._last.items() if name not in self._passing}
        return named | {name: self._last[name] for name in self._passing}

    def gaps(self) -> dict[str, list[tuple[int, int]]]:
        return {name: list(gaps) for name, gaps in self._gaps.items()}

    def restore(self, table: dict[str, tuple[int, int]], gaps: dict[str, list[tuple[int, int]]], most_passing: int) -> None:
        self._gaps = {name: list(each) for name, each in gaps.items()}
        for publisher, (number, position) in table.items():
            self._set(publisher, number, position, most_passing)

    def numbers(self) -> dict[str, int]:
        return {name: number for name, (number, _) in sorted(self._last.items())}
