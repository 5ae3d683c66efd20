"""`contentcast publish`: events from stdin or files to a broker; done when the broker has accepted them all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contentcast.commands.live.options import (
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
from contentcast.commands.live.stdin_events import events_from_stdin
from contentcast.commands.shared.intake_options import Epoch, Finer, Nan, OnError, Unknown, how_of
from contentcast.model import ContentcastError, How
from contentcast.model.errors import counted

STDIN: Final = "-"
TOLD: Final = 10
"""Of the events that are set aside, so many are told one by one."""
TELL_EVERY_S: Final = 5.0
DRAIN_S: Final = 3.0
"""How long Ctrl-C waits until the broker has accepted what was sent."""
PART: Final = 10_000
NUMBERED_BYTES: Final = 8 * 2**20
"""What the events of one numbered batch take together at most.

A constant, because the same file must be cut in the same way every time. It is half of what a broker accepts by default.
"""


def publish(
    space: Annotated[str, typer.Argument(help="The space.", show_default=False)],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]", help="JSON lines, CSV or Parquet; also patterns.", show_default="JSON lines on stdin (-)"
        ),
    ] = None,
    broker: Broker = DEFAULT_BROKER,
    declare: Declare = None,
    publisher: Annotated[
        str, typer.Option(help="A name of yours: what was accepted under it is not published again.", show_default=False)
    ] = "",
    number: Annotated[int, typer.Option(min=1, help="With --publisher: the number of the first batch.")] = 1,
    rate: Annotated[float, typer.Option(min=0, help="Events per second; 0: as fast as it goes.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say who would get them; deliver nothing.")] = False,
    unknown: Unknown = None,
    on_error: OnError = None,
    nan: Nan = None,
    finer: Finer = None,
    epoch: Epoch = None,
    name: Name = "",
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Publish events: JSON lines from stdin, or files."""
    options = connection_options(name, token, authority, certificate, key)
    declared = None if declare is None else read_space(space, declare)
    if publisher and (not files or STDIN in files):
        raise ContentcastError("--publisher numbers the batches of files, which are the same every time; stdin is not")
    if publisher and "," in broker:
        raise ContentcastError("--publisher goes to one broker, not to several: it alone knows what it has accepted")
    _check_there(files or [])
    sent = (publisher, number) if publisher else None
    how = how_of(unknown, on_error, nan, finer, epoch)
    work = _publish(broker, space, files or [STDIN], declared, rate, dry_run, sent, how, options)
    accepted, rejected, seconds = run_loop(work)
    if as_json and not dry_run:
        typer.echo(json.dumps({"space": space, "accepted": accepted, "rejected": rejected, "seconds": round(seconds, 3)}))
    elif not dry_run:
        typer.echo(f"{counted(accepted, 'event')} accepted" + (f", {rejected:,} set aside" if rejected else ""))


def _check_there(files: list[str]) -> None:
    """A misspelt file is told before a broker is looked for, and before the files in front of it are published."""
    from contentcast.model.events.event_files import expand
    from contentcast.model.plain_files import check_plain

    for each in expand(files) if files else ():
        path = Path(each)
        if each == STDIN or path.is_file():
            continue
        check_plain(path)
        what = f"{each} is a folder, not a file" if path.is_dir() else f"there is no file {each}"
        raise ContentcastError(f"{what}; nothing was published")


async def _publish(
    broker: str,
    space: str,
    files: list[str],
    declared: Any,
    rate: float,
    dry_run: bool,
    sent: tuple[str, int] | None,
    how: How,
    options: dict[str, Any],
) -> tuple[int, int, float]:
    from contentcast.live.client import connect
    from contentcast.live.client.tracing import Tracer

    begun = told = time.monotonic()
    done = rejected = 0
    async with connect(broker, on_change=tell_changes, **options) as client:
        if declared is not None:
            await client.declare(declared)
        try:
            known = await client.space(space)
        except ContentcastError as reason:
            if "is declared" not in str(reason):
                raise
            made = f"{space}.toml"
            look = f"contentcast space {' '.join(files)} --name {space} --out {made}"
            raise ContentcastError(f"{reason} (`{look}` makes one by looking; then --declare {made})") from None
        batches = _batches(files, known, rate, how) if sent is None else _numbered_batches(files, known, how)
        try:
            async for batch in batches:
                for each in batch.rejected:
                    if (rejected := rejected + 1) <= TOLD:
                        typer.echo(f"contentcast: {each}", err=True)
                if not len(batch):
                    continue
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
                    typer.echo(f"contentcast: {counted(done, 'event')}, {done / (told - begun):,.0f}/s", err=True)
        except asyncio.CancelledError:
            if not dry_run:
                await _tell_interrupted(client, done)
            raise
        if dry_run:
            await _tell_not_known(broker, options)
        await client.flush()
    return done, rejected, time.monotonic() - begun


async def _tell_interrupted(client: Any, done: int) -> None:
    """Ctrl-C: how far it has come is said, so that one knows where to go on."""
    try:
        async with asyncio.timeout(DRAIN_S):
            await client.flush()
    except (TimeoutError, ContentcastError) as reason:
        why = "" if isinstance(reason, TimeoutError) else f": {reason}"
        typer.echo(f"contentcast: interrupted; of {counted(done, 'event')} not all were accepted{why}", err=True)
    else:
        typer.echo(f"contentcast: interrupted; at least the first {counted(done, 'event')} were accepted", err=True)


async def _batches(files: list[str], space: Any, rate: float, how: How) -> AsyncIterator[Any]:
    """Parts of at most a tenth of a second at the rate that was asked for."""
    from contentcast.model import read_events
    from contentcast.model.events.event_files import expand

    part = max(1, min(PART, round(rate / 10))) if rate else PART
    for path in expand(files):
        if path == STDIN:
            async for events in events_from_stdin(space, how):
                for each in _parts(events, part):
                    yield each
        else:
            for each in _parts(read_events(path, space, **how), part):
                yield each


def _parts(events: Any, part: int) -> Iterator[Any]:
    """What was rejected goes with the first part."""
    for begin in range(0, max(1, len(events)), part):
        yield replace(events.slice(begin, part), rejected=events.rejected if not begin else ())


async def _numbered_batches(files: list[str], space: Any, how: How) -> AsyncIterator[Any]:
    """Parts that are the same every time, and that a broker accepts: each has a number, and must stay one message."""
    import numpy as np

    from contentcast.model import read_events
    from contentcast.model.events.event_files import expand
    from contentcast.wire.encodings.sizes import event_bytes

    for path in expand(files):
        events = read_events(path, space, **how)
        upto = np.cumsum(event_bytes(events))
        begin = taken = 0
        while begin < max(1, len(events)):
            fitting = int(np.searchsorted(upto, taken + NUMBERED_BYTES, "right"))
            end = max(begin + 1, min(begin + PART, fitting))
            yield replace(events.slice(begin, end - begin), rejected=events.rejected if not begin else ())
            begin = end
            taken = int(upto[begin - 1]) if len(upto) else 0


async def _tell_not_known(broker: str, options: dict[str, Any]) -> None:
    """After a dry run: what is behind a lost link does not count there."""
    from contentcast.live.client.tracing import Tracer

    async with Tracer(broker, **options) as tracer:
        await tracer.open()
        for each in await tracer.not_known():
            typer.echo(f"contentcast: {each}; somebody there or behind it may want the events, and is not counted", err=True)


async def _tell_outcomes(tracer: Any, space: str, batch: Any) -> None:
    for event in batch.to_dicts():
        typer.echo(json.dumps((await tracer.follow(space, event)).to_dict(), default=str))
