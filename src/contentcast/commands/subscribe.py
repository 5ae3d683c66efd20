"""`contentcast subscribe`: events that match, as JSON lines on stdout, as they come."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Annotated, Any

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
    as_json_line,
    connection_options,
    read_space,
    run_loop,
    tell_changes,
)


def subscribe(
    space: Annotated[str, typer.Argument(help="The space.", show_default=False)],
    predicate: Annotated[str, typer.Argument(help="What you want of it.", show_default="everything")] = "TRUE",
    broker: Broker = DEFAULT_BROKER,
    declare: Declare = "",
    count: Annotated[int, typer.Option(min=0, help="Stop after so many events; 0: never.")] = 0,
    on_slow: Annotated[
        str, typer.Option(help="If you read too slowly: pause, skip or disconnect.", show_default="the broker's")
    ] = "",
    durable: Annotated[str, typer.Option(help="A name under which events are kept for you.", show_default=False)] = "",
    name: Name = "",
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Each line says the space and the event.")] = False,
) -> None:
    """Print events that match, as JSON lines, until Ctrl-C."""
    options = connection_options(name, token, authority, certificate, key)
    declared = read_space(space, declare) if declare else None
    run_loop(_subscribe(broker, space, predicate, declared, count, on_slow, durable, options, as_json))


async def _subscribe(
    broker: str,
    space: str,
    predicate: str,
    declared: Any,
    count: int,
    on_slow: str,
    durable: str,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    from contentcast.live.client import connect

    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        main.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    out = sys.stdout.buffer
    left = count
    try:
        async with connect(broker, on_change=tell_changes, **options) as client:
            if declared is not None:
                await client.declare(declared)
            async with client.batches(space, predicate, on_slow=on_slow, durable=durable) as batches:
                narrowed = batches.subscription.narrowed if batches.subscription else None
                typer.echo(f"contentcast: subscribed to {space} where {narrowed or predicate}", err=True)
                missed = 0
                async for batch in batches:
                    events = batch.to_dicts()
                    lines = events[:left] if count else events
                    out.write(b"".join(as_json_line({"space": space, "event": each} if as_json else each) for each in lines))
                    out.flush()
                    if client.missed > missed:
                        typer.echo(f"contentcast: too slow, {client.missed - missed:,} events were left out", err=True)
                        missed = client.missed
                    left -= len(lines)
                    if count and not left:
                        return
    except asyncio.CancelledError:
        if not interrupted:
            raise
        raise KeyboardInterrupt from None
