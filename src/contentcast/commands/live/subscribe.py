"""`contentcast subscribe`: events that match, as JSON lines on stdout, as they come."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from typing import Annotated, Any

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
    as_json_line,
    connection_options,
    read_space,
    run_loop,
    tell_changes,
)
from contentcast.model import ContentcastError
from contentcast.model.errors import counted


def subscribe(
    space: Annotated[str, typer.Argument(help="The space.", show_default=False)],
    predicate: Annotated[str, typer.Argument(help="What you want of it.", show_default="everything")] = "TRUE",
    broker: Broker = DEFAULT_BROKER,
    declare: Declare = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many events; 0: never.")] = 0,
    on_slow: Annotated[
        str, typer.Option(help="If you read too slowly: pause, skip or disconnect.", show_default="the broker's")
    ] = "",
    durable: Annotated[str, typer.Option(help="A name under which events are kept for you.", show_default=False)] = "",
    after: Annotated[
        int | None, typer.Option(min=0, help="With --durable: the number up to which you have them.", show_default=False)
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="End the durable subscription, with all that waits for it.")] = False,
    name: Name = "",
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Each line says the space, the number and the event.")] = False,
) -> None:
    """Print events that match, as JSON lines, until Ctrl-C. Standard error says the id of the subscription, for `why`."""
    options = connection_options(name, token, authority, certificate, key)
    if not durable and (end or after is not None):
        raise ContentcastError("--after and --end are for a durable subscription; add --durable NAME")
    if durable and on_slow:
        raise ContentcastError("--on-slow is for what is not durable: what a durable subscriber has not taken waits on disk")
    if end:
        run_loop(_end(broker, durable, options))
        return
    declared = None if declare is None else read_space(space, declare)
    wanted = {"on_slow": on_slow} if not durable else {"durable": durable, "after": after, "acknowledge": False}
    run_loop(_subscribe(broker, space, predicate, declared, count, wanted, options, as_json))


async def _end(broker: str, durable: str, options: dict[str, Any]) -> None:
    from contentcast.live.client import connect
    from contentcast.live.errors import LiveError

    async with connect(broker, on_change=tell_changes, **options) as client:
        try:
            await client.place(durable)
        except LiveError as reason:
            if reason.code != "no-durable":
                raise
            raise ContentcastError(
                f"broker {client.broker} keeps no durable subscription {durable!r}; none has ended"
            ) from None
        await client.unsubscribe(durable)
    typer.echo(f"the durable subscription {durable} has ended")


async def _subscribe(
    broker: str,
    space: str,
    predicate: str,
    declared: Any,
    count: int,
    wanted: dict[str, Any],
    options: dict[str, Any],
    as_json: bool,
) -> None:
    from contentcast.live.client import connect
    from contentcast.live.client.durable import DurableSubscription, Missed

    def tell_missed(missed: Missed) -> None:
        typer.echo(f"contentcast: numbers {missed.first} to {missed.last} were dropped by a limit of the broker", err=True)

    if "durable" in wanted:
        wanted["on_missed"] = tell_missed

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
            async with client.batches(space, predicate, **wanted) as batches:
                subscription = batches.subscription
                assert subscription is not None
                durable = subscription if isinstance(subscription, DurableSubscription) else None
                wants = f"{space} where {subscription.narrowed or predicate}"
                typer.echo(f"contentcast: subscribed to {wants} (subscription {subscription.id})", err=True)
                if durable is not None and durable.lacking:
                    missing = ", ".join(durable.lacking)
                    typer.echo(
                        f"contentcast: not reached, so what they accept until they are does not come: {missing}", err=True
                    )
                missed = 0
                async for batch in batches:
                    events = batch.to_dicts()
                    lines = events[:left] if count else events
                    first = durable.position - len(events) + 1 if durable is not None else 0
                    out.write(b"".join(_lines(space, lines, first) if as_json else map(as_json_line, lines)))
                    out.flush()
                    if durable is not None:
                        durable.acknowledge(first + len(lines) - 1)
                    elif client.missed > missed:
                        typer.echo(f"contentcast: too slow, {counted(client.missed - missed, 'event')} left out", err=True)
                        missed = client.missed
                    left -= len(lines)
                    if count and not left:
                        return
    except asyncio.CancelledError:
        if not interrupted:
            raise
        raise KeyboardInterrupt from None


def _lines(space: str, events: list[dict[str, Any]], first: int) -> Iterator[bytes]:
    """With their numbers, if the subscription is durable."""
    for number, event in enumerate(events, first):
        yield as_json_line({"space": space, **({"number": number} if first else {}), "event": event})
