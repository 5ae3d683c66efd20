"""`contentcast why`: what became of an event, or would become of it, hop by hop; and which test of a subscription stops it.

    --event and --subscription    the last event of this content that was published; if nobody remembers one, what would be
    --id and --subscription       the event with this id
    --subscription alone          what it has accepted, and the test that keeps it from the last events

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
from contentcast.commands.live.why_past import ARRIVES, LEFT_OUT, NO_MATCH, NOT_REACHED, UNKNOWN, WAITS, lines_of_past, outcome
from contentcast.model import ContentcastError

MOST_ID: Final = 2**63 - 1
SAID: Final = {
    ARRIVES: "it arrives",
    NO_MATCH: "it does not match",
    NOT_REACHED: "it matches, and does not reach the broker of the subscriber",
    UNKNOWN: "no broker has this subscription",
}
BECAME: Final = {
    ARRIVES: "it was handed to the subscriber",
    NO_MATCH: "it did not match",
    NOT_REACHED: "it matches, and was not handed to the subscriber",
    UNKNOWN: "no broker has this subscription",
    WAITS: "it waits",
    LEFT_OUT: "it was left out, because the subscriber was slow",
}


def why(
    space: Annotated[str, typer.Argument(help="The space.", show_default=False)],
    subscription: Annotated[int, typer.Option(help="The id of a subscription.", show_default=False)],
    event: Annotated[str, typer.Option(help="The event: JSON, or a file with one line of it.", show_default=False)] = "",
    id: Annotated[int | None, typer.Option("--id", help="The event by its id, as told before.", show_default=False)] = None,
    would: Annotated[bool, typer.Option("--would", help="What would become of it now, even if it was published.")] = False,
    broker: Broker = DEFAULT_BROKER,
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Say hop by hop what became of an event, or would, and why.

    Exit code 0: it arrives; 1: no match; 3: no way; 4: no such subscription; 5: it waits; 6: left out.
    """
    options = connection_options("", token, authority, certificate, key)
    for option, given in (("--subscription", subscription), ("--id", id)):
        if given is not None and not 0 <= given <= MOST_ID:
            raise ContentcastError(f"{option} is an id from 0 to {MOST_ID}, got {given}")
    read = _read_event(event) if event else None
    if read is None and id is None:
        code, told = run_loop(_judge(broker, space, subscription, options))
        lines = _counted_lines(told)
    else:
        code, told = run_loop(_ask(broker, space, read, subscription, options, id=id, would=would))
        lines = _lines(code, told)
    if as_json:
        typer.echo(json.dumps(told, default=str))
    else:
        for line in lines:
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
    broker: str,
    space: str,
    event: dict[str, Any] | None,
    subscription: int,
    options: dict[str, Any],
    *,
    id: int | None = None,
    would: bool = False,
) -> tuple[int, dict[str, Any]]:
    from contentcast.live.client.tracing import Tracer

    async with Tracer(broker, **options) as tracer:
        await tracer.open()
        judged = None if event is None else await tracer.explain(space, event, subscription)
        past = None if would else await tracer.past(space, event, id)
        if past is not None:
            code, place = outcome(past, subscription, judged)
            told = {"id": next(each["id"] for each in past), "became": past, "place": place}
            return code, {"outcome": BECAME[code], **told, "unreachable": tracer.unreachable, "judged": judged}
        if event is None:
            raise ContentcastError(f"no broker remembers an event {id}; they remember the last ones (limit remembered_bytes)")
        trace = await tracer.follow(space, event)
    code = UNKNOWN
    if judged is not None:
        arrives = any(each["subscription"] == subscription for each in trace.gets)
        code = NO_MATCH if not judged["matched"] else ARRIVES if arrives else NOT_REACHED
    return code, {"outcome": SAID[code], **trace.to_dict(), "judged": judged}


async def _judge(broker: str, space: str, subscription: int, options: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    from contentcast.live.client.tracing import Tracer

    async with Tracer(broker, **options) as tracer:
        await tracer.open()
        found = await tracer.judge(space, subscription)
    if found is None:
        return UNKNOWN, {"outcome": SAID[UNKNOWN]}
    code = ARRIVES if found["accepted"] else NO_MATCH
    return code, {"outcome": f"it has accepted {found['accepted']:,} events", **found}


def _counted_lines(told: dict[str, Any]) -> list[str]:
    if "client" not in told:
        return [told["outcome"]]
    lines = [f"{told['client']} at {told['broker']} wants {told['predicate']}"]
    if not told["accepted"]:
        lines.append(told["keeps"])
        lines += [
            f"{each['test']}: the events have {', '.join(map(repr, each['values']))}"
            for each in told.get("tests", ())
            if "values" in each
        ]
    return [*lines, told["outcome"]]


def _lines(code: int, told: dict[str, Any]) -> list[str]:
    judged = told["judged"]
    if "became" in told:
        lines = lines_of_past(told)
    else:
        lines = ["no broker remembers that it was published; if it were now, it", f"enters at {told['entered']}"]
        lines += [f"crosses {each}" for each in told["links"]]
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
    return [*lines, told["outcome"]]
