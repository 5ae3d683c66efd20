"""The summary of this broker's own clients, space by space, as it follows from what they subscribe and take back.

Source: Triantafillou & Economides 2004, section 3, and its further work: a space that gains attributes lets the summary grow
(c3 grows); with subsumption, what another subscription of this broker covers is left out, and the broker still serves it.
Rule: nothing is told from here; `propagation` takes what has changed once in a period.
"""

from __future__ import annotations

from contentcast.matching.summaries import Columns, Precision, Summary
from contentcast.model import SubscriptionBatch
from contentcast.routing.audience import Change


class OwnSummary:
    def __init__(self, broker: str, precision: Precision, subsumption: bool) -> None:
        self.broker = broker
        self._precision, self._subsumption = precision, subsumption
        self._summaries: dict[str, Summary] = {}
        self._space_of: dict[int, str] = {}

    def note(self, change: Change) -> None:
        """Subscriptions of clients that have gone, then those that have come."""
        gone: dict[str, list[int]] = {}
        for each in change.removed or ():
            gone.setdefault(self._space_of.pop(each), []).append(each)
        for space, ids in gone.items():
            self._summaries[space].remove(self.broker, ids)
        if change.added is not None and len(change.added):
            self._add(change.added)

    def _add(self, batch: SubscriptionBatch) -> None:
        space = batch.space
        summary = self._summaries.get(space.name)
        if summary is None:
            summary = Summary(space, precision=self._precision, subsumption=self._subsumption)
            self._summaries[space.name] = summary
        wider = summary.space.joined(space)
        if wider is not summary.space:
            summary.grow(wider)
        summary.add(self.broker, batch.ids, batch.table)
        self._space_of.update(dict.fromkeys(batch.ids.tolist(), space.name))

    def parts(self) -> dict[str, Columns]:
        """As others see it, by the names of the spaces."""
        return {name: summary.part(self.broker) for name, summary in sorted(self._summaries.items())}
