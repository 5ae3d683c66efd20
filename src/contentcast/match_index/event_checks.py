"""Events as they are given to an index: checked, and fitted to its space.

Rule: what comes out has the space's attributes in the space's types; whatever does not fit is an `EventError` that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from contentcast.match_index.answers import Events
from contentcast.model.errors import EventError
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.events.fitting import as_records, check_fits
from contentcast.model.events.intake import How, Intake
from contentcast.model.events.json_lines import decode
from contentcast.model.events.rows import Rejection, RowChecker
from contentcast.model.space import Space

if TYPE_CHECKING:
    from contentcast.matching.index import ColumnChecks


class EventChecks:
    """The checks of one index; `columns` are compiled ones, once the index has its kernels."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self.columns: ColumnChecks | None = None
        self._fitting: tuple[Intake, pa.Schema] | None = None
        """The last schema of events that fitted as it was, and how they were to be taken."""
        self._checkers: dict[tuple[Intake, bool], RowChecker] = {}

    def one(self, event: Mapping[str, Any], how: How) -> Mapping[str, Any]:
        """A nested event without its nesting, with its values as their kinds have them."""
        if not isinstance(event, Mapping):
            raise EventError(f"one event is a dict of its attributes, not {type(event).__name__}; many go to match_batch")
        return self._checked(event, how, from_text=False)

    def json(self, event: bytes | str, how: How) -> Mapping[str, Any]:
        decoded = decode(event)
        if isinstance(decoded, Rejection):
            raise EventError(str(decoded))
        return self._checked(decoded, how, from_text=True)

    def _checked(self, event: Any, how: How, *, from_text: bool) -> dict[str, Any]:
        intake = _one_answer(Intake.of(how))
        checker = self._checkers.get((intake, from_text))
        if checker is None:
            checker = self._checkers[intake, from_text] = RowChecker(self._space, intake, from_text=from_text)
        found = checker.check(0, event)
        checker.left_out.clear()
        if isinstance(found, Rejection):
            raise EventError(str(found))
        return found

    def records(self, events: Events, intake: Intake) -> pa.RecordBatch:
        """The space's columns in the space's types."""
        if isinstance(events, EventBatch):
            if events.space is not self._space and events.space != self._space:
                raise EventError(f"a batch of the space {events.space.name} does not fit an index over {self._space.name}")
            return events.records
        fitting, checks = self._fitting, self.columns
        if checks is not None and isinstance(events, pa.RecordBatch) and fitting == (intake, events.schema):
            columns = {name: events.column(name) for name in checks.suspects(events)}
            if all(check_fits(self._space, name, each, intake) is each for name, each in columns.items()):
                return events
        records = as_records(self._space, events, _one_answer(intake))
        if records is events:
            self._fitting = intake, records.schema
        return records


def _one_answer(intake: Intake) -> Intake:
    if intake.on_error == "reject":
        raise EventError("what is rejected here could not be told; make an EventBatch with on_error='reject' and match that")
    return intake
