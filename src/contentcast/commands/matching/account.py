"""What `contentcast match` tells at the end, whichever way it went: totals, a sentence, counts of the rules, an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer

from contentcast.model.errors import counted
from contentcast.speed import per_second, shown_speed

NOTHING_USABLE: Final = 1
MATCHES, QUARANTINE, REFUSED, COUNTS = "matches", "quarantine", "refused", "counts"


def totals_of(
    *, events: int, bad: int, rules: int, refused: int, pairs: int | None, took: float, out: str | None, to: str | None = None
) -> dict[str, Any]:
    """`pairs` is None where they go to an address, and nobody counts them."""
    return {
        "events": events,
        "bad records": bad,
        "subscriptions": rules,
        "bad predicates": refused,
        "pairs": pairs,
        "seconds": round(took, 3),
        "events/s": per_second(events, took),
        "out": out,
        "to": to,
    }


def summary(totals: dict[str, Any], out: Path | None) -> str:
    """`out` is None where the matches went to standard output."""
    bad, refused = totals["bad records"], totals["bad predicates"]
    said_bad = f" ({bad:,} bad{f', in {out / QUARANTINE}' if out else ''})" if bad else ""
    said_refused = f" ({refused:,} more refused{f', in {out / REFUSED}' if out else ''})" if refused else ""
    if totals["to"]:
        found = f"matches went to {totals['to']}"
    else:
        found = counted(totals["pairs"], "pair") + (f" in {out / MATCHES}" if out else "")
    return (
        f"{counted(totals['events'], 'event')}{said_bad} met {counted(totals['subscriptions'], 'subscription')}{said_refused}: "
        f"{found}, {shown_speed(totals['events/s'])} events/s."
    )


def exit_code(totals: dict[str, Any]) -> int:
    """1 if no record was an event, or no rule could be read: whoever calls it in a script must not take that for "no match"."""
    no_events = totals["events"] > 0 and totals["events"] == totals["bad records"]
    no_rules = totals["subscriptions"] == 0 and totals["bad predicates"] > 0
    return NOTHING_USABLE if no_events or no_rules else 0


def tell_counts(counts: Any) -> None:
    """The matches of each rule, the most wanted first, on standard error."""
    for row in counts.sort_by([("matches", "descending"), (counts.column_names[0], "ascending")]).to_pylist():
        typer.echo(f"{row['matches']:>12,}  {row['subscription']}", err=True)
