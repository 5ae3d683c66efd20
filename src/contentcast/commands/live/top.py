"""`contentcast top`: brokers, links, clients, rates and who is slow, looked at again and again, or once as JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

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

SLOWEST = 10


def top(
    broker: Broker = DEFAULT_BROKER,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the state of each broker as a line of JSON.")] = False,
) -> None:
    """Look at running brokers: rates, links, clients, backlog and slow consumers. Several addresses: all of them."""
    run_loop(_look(broker.split(","), every, once, as_json, connection_options("", token, authority, certificate, key)))


async def _look(urls: list[str], every: float, once: bool, as_json: bool, options: dict[str, Any]) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    from contentcast.live.client import connect

    clients = [await connect(each, **options) for each in urls]
    try:
        before = [await each.ask("state") for each in clients]
        if as_json:
            while True:
                for each in before:
                    typer.echo(json.dumps(each))
                if once:
                    return
                await asyncio.sleep(every)
                before = [await each.ask("state") for each in clients]
        console = Console()
        if once:
            console.print(*(_picture(each, None) for each in before), sep="\n")
            return
        with Live(Group(*(_picture(each, None) for each in before)), console=console, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(every)
                now = [await each.ask("state") for each in clients]
                live.update(Group(*(_picture(new, old) for new, old in zip(now, before, strict=True))), refresh=True)
                before = now
    finally:
        for client in clients:
            await client.close()


def _passing(told: dict[str, float]) -> tuple[str, str, str]:
    """A meter's rate and percentiles of the last seconds."""
    return _number(told.get("per_s"), "{:,.0f}"), _number(told.get("p50_ms")), _number(told.get("p99_ms"))


def _number(value: float | None, form: str = "{:g}") -> str:
    return "-" if value is None else form.format(value)


def _picture(now: dict[str, Any], before: dict[str, Any] | None) -> Any:
    from rich import box
    from rich.console import Group
    from rich.table import Table

    seconds = now["up_s"] - before["up_s"] if before else now["up_s"]

    def rate(new: float, old: float) -> str:
        return f"{(new - old) / seconds:,.0f}" if seconds > 0 else "-"

    head = Table("broker", "up s", "clients", "subscriptions", "published/s", "delivered/s", "missed", box=box.SIMPLE_HEAD)
    head.add_row(
        now["broker"],
        f"{now['up_s']:,.0f}",
        f"{now['client_count']:,}",
        f"{now['subscriptions']:,}",
        rate(now["published"], before["published"] if before else 0),
        rate(now["delivered"], before["delivered"] if before else 0),
        f"{now['missed']:,}",
    )
    parts: list[Any] = [head]
    if now["by_space"]:
        spaces = Table("space", "published/s", "p50 ms", "p99 ms", "delivered/s", "p50 ms", "p99 ms", box=box.SIMPLE_HEAD)
        for name, space in now["by_space"].items():
            spaces.add_row(name, *(told for what in ("published", "delivered") for told in _passing(space.get(what, {}))))
        parts.append(spaces)
    if now["links"]:
        links = Table(
            "link",
            "ms",
            "p99 ms",
            "events out/s",
            "p50 ms",
            "p99 ms",
            "messages in/s",
            "messages out/s",
            "waiting bytes",
            box=box.SIMPLE_HEAD,
        )
        for name, link in now["links"].items():
            old = (before or {}).get("links", {}).get(name, {"messages_in": 0, "messages_out": 0})
            links.add_row(
                name,
                f"{link['delay_ms']:g}",
                _number(link["delay"].get("p99_ms")),
                *_passing(link["passing"]),
                rate(link["messages_in"], old["messages_in"]),
                rate(link["messages_out"], old["messages_out"]),
                f"{link['queued_bytes']:,}",
            )
        parts.append(links)
    slow = [each for each in now["clients"] if each["queued_bytes"] or each["missed"] or each["paused"]][:SLOWEST]
    if slow:
        table = Table("slow client", "waiting bytes", "missed", "paused", box=box.SIMPLE_HEAD)
        for each in slow:
            table.add_row(each["name"], f"{each['queued_bytes']:,}", f"{each['missed']:,}", "yes" if each["paused"] else "")
        parts.append(table)
    return Group(*parts)
