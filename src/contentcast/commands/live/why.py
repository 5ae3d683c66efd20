"""`contentcast why`: what became of an event, or would become of it, hop by hop; and which test of a subscription stops it.

Rule: the exit code says the outcome, so that a script can ask.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contentcast.commands.live.options import (
    DEFAULT_BROKER,
    Authority,
    Broker,
    Certificate,
    Key,
    Token,
    connection_options,
    run_loop,
)
from contentcast.model import ContentcastError

ARRIVES, NO_MATCH, NOT_REACHED, UNKNOWN = 0, 1, 3, 4
SAID: Final = {
    ARRIVES: "it arrives",
    NO_MATCH: "it does not match",
    NOT_REACHED: "it matches, and does not reach the broker of the subscriber",
    UNKNOWN: "no broker has this subscription",
}


def why(
    space: Annotated[str, typer.Argument(help="The space.", show_default=False)],
    event: Annotated[str, typer.Option(help="The event: JSON, or a file with one line of it.", show_default=False)],
    subscription: Annotated[int, typer.Option(help="The id of a subscription.", show_default=False)],
    broker: Broker = DEFAULT_BROKER,
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Say hop by hop why an event reaches a subscription, or why not. Exit code 0, 1 (no match), 3 (no way) or 4 (unknown)."""
    options = connection_options("", token, authority, certificate, key)
    code, told = run_loop(_ask(broker, space, _read_event(event), subscription, options))
    if as_json:
        typer.echo(json.dumps({"outcome": SAID[code], **told}, default=str))
    else:
        for line in _lines(code, told):
            typer.echo(line)
    if code:
        raise typer.Exit(code)


def _read_event(text: str) -> dict[str, Any]:
    given = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
    try:
        found = json.loads(given)
    except ValueError as reason:
        raise ContentcastError(f"--event is one event as JSON: {reason}") from None
    if not isinstance(found, dict):
        raise ContentcastError("--event is one event, an object with attributes")
    return found


async def _ask(
    broker: str, space: str, event: dict[str, Any], subscription: int, options: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    from contentcast.live.client.tracing import Tracer

    async with Tracer(broker, **options) as tracer:
        await tracer.open()
        trace = await tracer.follow(space, event)
        judged = await tracer.explain(space, event, subscription)
    told = {**trace.to_dict(), "judged": judged}
    if judged is None:
        return UNKNOWN, told
    if not judged["matched"]:
        return NO_MATCH, told
    return (ARRIVES if any(each["subscription"] == subscription for each in trace.gets) else NOT_REACHED), told


def _lines(code: int, told: dict[str, Any]) -> list[str]:
    judged = told["judged"]
    lines = [f"enters at {told['entered']}", *(f"crosses {each}" for each in told["links"])]
    lines += [
        f"does not take {each}: nobody behind it wants it, or another way leads there" for each in told["links not taken"]
    ]
    lines += [f"{name} could not be asked: {reason}" for name, reason in told["unreachable"].items()]
    if judged is not None:
        narrowed = ", narrowed by its right," if judged["narrowed"] else ""
        lines.append(f"{judged['client']} at {judged['broker']}{narrowed} wants {judged['predicate']}")
        lines += [f"fails: {each['test']}, and the event has {each['value']!r}" for each in judged["failed"]]
        if judged["queued_bytes"]:
            state = "paused, " if judged["paused"] else ""
            lines.append(
                f"the client is slow: {state}{judged['queued_bytes']:,} bytes wait, {judged['missed']:,} events were left out"
            )
    return [*lines, SAID[code]]
