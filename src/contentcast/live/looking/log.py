"""What a broker tells its operator: one line for each thing that one would ask about, as text or as JSON.

    2026-03-01T12:00:00.123Z nyc link up link=lon delay_ms=1
    {"at": "2026-03-01T12:00:00.123Z", "broker": "nyc", "what": "link up", "link": "lon", "delay_ms": 1}

Rule: no events, no predicates, no tokens and no keys stand in a log.
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO


class Log:
    def __init__(self, form: str, broker: str, out: TextIO | None = None) -> None:
        self._as_json = form == "json"
        self._broker = broker
        self._out = out

    def write_as(self, form: str) -> None:
        """`text` or `json`, from now on."""
        self._as_json = form == "json"

    def note(self, what: str, **facts: Any) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._as_json:
            line = json.dumps({"at": at, "broker": self._broker, "what": what, **facts}, default=str)
        else:
            told = "".join(f" {name}={_plain(value)}" for name, value in facts.items())
            line = f"{at} {self._broker} {what}{told}"
        print(line, file=self._out or sys.stderr, flush=True)

    def failure(self, what: str, reason: BaseException, **facts: Any) -> None:
        """Something that should not have happened, with where it did."""
        where = "".join(traceback.format_exception(reason)) if self._as_json else ""
        self.note(what, **facts, reason=f"{type(reason).__name__}: {reason}", **({"where": where} if where else {}))
        if not self._as_json:
            traceback.print_exception(reason, file=self._out or sys.stderr)


class Silent(Log):
    """For brokers inside a test or a benchmark."""

    def __init__(self) -> None:
        super().__init__("text", "")
        self.notes: list[tuple[str, dict[str, Any]]] = []

    def note(self, what: str, **facts: Any) -> None:
        self.notes.append((what, facts))


def _plain(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return json.dumps(text) if not text or any(each in text for each in ' "=\n') else text
