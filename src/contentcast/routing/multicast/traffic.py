"""What came over each group, and what of it was wanted here: the statistics from which a mapping is planned.

Source: Eide et al. 2003, section 7: "each server measuring and generating statistics about the notifications received and
required and the notifications received but discarded".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from contentcast.routing.contract import Deliver, Effect


@dataclass(slots=True)
class Counts:
    """Events of one group at one server."""

    sent: int = 0
    received: int = 0
    wanted: int = 0

    @property
    def discarded(self) -> int:
        return self.received - self.wanted


class Traffic:
    def __init__(self) -> None:
        self.groups: dict[str, Counts] = {}
        self.kept_back = 0
        """Events published here that no other server wanted: they never became a message."""

    def sent(self, group: str, events: int) -> None:
        self._of(group).sent += events

    def received(self, group: str, events: int, effects: Iterable[Effect]) -> None:
        counts = self._of(group)
        counts.received += events
        for effect in effects:
            if isinstance(effect, Deliver) and len(effect.rows):
                counts.wanted += 1 + int(np.count_nonzero(np.diff(effect.rows)))  # they ascend

    def _of(self, group: str) -> Counts:
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = Counts()
        return found

    def state(self) -> dict[str, Any]:
        return {
            "kept back": self.kept_back,
            "traffic": {
                group: {"sent": each.sent, "received": each.received, "wanted": each.wanted, "discarded": each.discarded}
                for group, each in sorted(self.groups.items())
            },
        }
