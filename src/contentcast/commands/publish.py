"""`contentcast publish`: events from stdin or files to a broker; done when the broker has accepted them all."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contentcast.commands.live_options import (
    DEFAULT_BROKER,
    Authority,
    Broker,
    Certificate,
    Declare,
    Key,
    Name,
    Token,
    connection_options,
    read_space,
    run_loop,
    tell_changes,
)
from contentcast.model import ContentcastError

TELL_EVERY_S: Final = 5.0
LINES_AT_ONCE: Final = 10_000
PART: Final = 10_000


def publish(
    space: Annotated[str, typer.Argument(help="The space.", show_default=False)],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILES]", help="JSON lines, CSV or Parquet.", show_default="JSON lines on stdin"),
    ] = None,
    broker: Broker = DEFAULT_BROKER,
    declare: Declare = "",
    publisher: Annotated[
        str, typer.Option(help="A name of yours: what was accepted under it is not published again.", show_default=False)
    ] = "",
    number: Annotated[int, typer.Option(min=1, help="With --publisher: the number of the first batch.")] = 1,
    rate: Annotated[float, typer.Option(min=0, help="Events per second; 0: as fast as it goes.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say who would get them; deliver nothing.")] = False,
    name: Name = "",
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Publish events: JSON lines from stdin, or files."""
    options = connection_options(name, token, authority, certificate, key)
    declared = read_space(space, declare) if declare else None
    if publisher and not files:
        raise ContentcastError("--publisher numbers the batches of files, which are the same every time; stdin is not")
    sent = (publisher, number) if publisher else None
    accepted, seconds = run_loop(_publish(broker, space, files or [], declared, rate, dry_run, sent, options))
    if as_json and not dry_run:
        typer.echo(json.dumps({"space": space, "accepted": accepted, "seconds": round(seconds, 3)}))
    elif not dry_run:
        typer.echo(f"{accepted:,} events accepted")


async def _publish(
    broker: str,
    space: str,
    files: list[Path],
    declared: Any,
    rate: float,
    dry_run: bool,
    sent: tuple[str, int] | None,
    options: dict[str, Any],
) -> tuple[int, float]:
    from contentcast.live.client import connect
    from contentcast.live.client.tracing import Tracer

    begun = told = time.monotonic()
    done = 0
    async with connect(broker, on_change=tell_changes, **options) as client:
        if declared is not None:
            await client.declare(declared)
        known = await client.space(space)
        async for batch in _batches(files, known, 0 if sent else rate):
            if dry_run:
                async with Tracer(broker, **options) as tracer:
                    await tracer.open()
                    await _tell_outcomes(tracer, space, batch)
                continue
            if sent is None:
                await client.publish(space, batch, wait=False)
            else:
                await client.publish(space, batch, wait=False, publisher=sent[0], number=sent[1])
                sent = (sent[0], sent[1] + 1)
            done += len(batch)
            if rate:
                await asyncio.sleep(max(0.0, begun + done / rate - time.monotonic()))
            if time.monotonic() - told > TELL_EVERY_S:
                told = time.monotonic()
                typer.echo(f"contentcast: {done:,} events, {done / (told - begun):,.0f}/s", err=True)
        await client.flush()
    return done, time.monotonic() - begun


async def _batches(files: list[Path], space: Any, rate: float) -> AsyncIterator[Any]:
    """Parts of at most a tenth of a second at the rate that was asked for."""
    from contentcast.model import read_events

    part = max(1, min(PART, round(rate / 10))) if rate else PART
    for path in files:
        events = read_events(path, space)
        for begin in range(0, len(events), part):
            yield events.slice(begin, part)
    if not files:
        async for events in _from_stdin(space):
            for begin in range(0, len(events), part):
                yield events.slice(begin, part)


async def _from_stdin(space: Any) -> AsyncIterator[Any]:
    """Lines as they come: those that are there already go together."""
    from contentcast.model import from_json_lines

    loop = asyncio.get_running_loop()
    number = 0
    while True:
        data = await loop.run_in_executor(None, _some_lines)
        if not data:
            return
        lines = [""] * number + data.splitlines()  # so that an error names the line of the input
        number = len(lines)
        yield from_json_lines(space, lines)


def _some_lines() -> str:
    """At least one line, and what came with it."""
    source = sys.stdin.buffer
    first = source.readline()
    if not first:
        return ""
    more = source.peek()[: 64 * 1024]  # type: ignore[union-attr]
    end = more.rfind(b"\n") + 1
    return (first + source.read(end)).decode("utf-8", "surrogateescape")


async def _tell_outcomes(tracer: Any, space: str, batch: Any) -> None:
    for event in batch.to_dicts():
        typer.echo(json.dumps((await tracer.follow(space, event)).to_dict(), default=str))
