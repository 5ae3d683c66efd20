"""`contentcast top`: brokers, links, clients, rates and who is slow, looked at again and again, or once as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contentcast.commands.live.network import started_network
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

if TYPE_CHECKING:
    from contentcast.live.client.watching import Look

SLOWEST = 10
LINK_HEADINGS = (
    "delay\nms",
    "p99\nms",
    "events\nout/s",
    "p50\nms",
    "p99\nms",
    "messages\nin/s",
    "messages\nout/s",
    "waiting\nbytes",
)
"""In two lines, so that the columns fit a terminal of 80 columns."""
WIDE = 160
"""Columns where no terminal says how many it has."""


def top(
    broker: Broker = DEFAULT_BROKER,
    network: Annotated[
        Path | None,
        typer.Option(help="All brokers of a file that `contentcast network up` has started.", show_default=False),
    ] = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the state of each broker as a line of JSON.")] = False,
) -> None:
    """Look at running brokers: rates, links, clients, backlog and slow consumers. Several addresses: all of them.

    Those that cannot be reached are named. If none can, the exit code is 2.
    """
    urls = broker.split(",") if network is None else [*started_network(network)[0].values()]
    run_loop(_look(urls, every, once, as_json, connection_options("", token, authority, certificate, key)))


async def _look(urls: list[str], every: float, once: bool, as_json: bool, options: dict[str, Any]) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    from contentcast.live.client.watching import GIVE_UP_S, Watcher

    options.pop("name")
    watcher = Watcher(urls, name="top", **options)
    try:
        looks = await watcher.look(GIVE_UP_S)
        if all(each.problem for each in looks):
            raise ContentcastError("\n".join(dict.fromkeys(each.problem for each in looks)))
        if as_json:
            while True:
                for each in looks:
                    typer.echo(json.dumps({"url": each.url, "problem": each.problem} if each.problem else each.state))
                if once:
                    return
                await asyncio.sleep(every)
                looks = await watcher.look()
        console = Console()
        if not console.is_terminal:
            console.width = WIDE
        if once:
            console.print(*(_shown(each, None, once) for each in looks), sep="\n")
            return
        before = {each.url: each.state for each in looks}
        with Live(Group(*(_shown(each, None) for each in looks)), console=console, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(every)
                looks = await watcher.look(counts=False)
                live.update(Group(*(_shown(each, before.get(each.url)) for each in looks)), refresh=True)
                before = {each.url: each.state for each in looks}
    finally:
        await watcher.close()


def _shown(look: Look, before: Mapping[str, Any] | None, once: bool = False) -> Any:
    from rich.text import Text

    if look.problem or look.state is None:
        return Text(f"\n  {look.name or look.url}: {look.problem}{'' if once else '; trying again'}\n")
    return _picture(look.state, before)


def _passing(told: dict[str, float]) -> tuple[str, str, str]:
    """A meter's rate and percentiles of the last seconds."""
    return _number(told.get("per_s"), "{:,.0f}"), _number(told.get("p50_ms")), _number(told.get("p99_ms"))


def _number(value: float | None, form: str = "{:g}") -> str:
    return "-" if value is None else form.format(value)


def _name_of(what: str) -> Any:
    """A column that is told whole, however narrow the terminal is: one must be able to copy a name."""
    from rich.table import Column

    return Column(what, no_wrap=True)


def _picture(now: Mapping[str, Any], before: Mapping[str, Any] | None) -> Any:
    from rich import box
    from rich.console import Group
    from rich.table import Table

    from contentcast.live.client.watching import per_second

    def rate(*path: str) -> str:
        return _number(per_second(now, before, *path), "{:,.0f}")

    head = Table(_name_of("broker"), "up s", "clients", "subs", "published/s", "delivered/s", "missed", box=box.SIMPLE_HEAD)
    head.add_row(
        now["broker"],
        f"{now['up_s']:,.0f}",
        f"{now['client_count']:,}",
        f"{now['subscriptions']:,}",
        rate("published"),
        rate("delivered"),
        f"{now['missed']:,}",
    )
    parts: list[Any] = [head]
    if now["by_space"]:
        spaces = Table(
            _name_of("space"), "published/s", "p50 ms", "p99 ms", "delivered/s", "p50 ms", "p99 ms", box=box.SIMPLE_HEAD
        )
        for name, space in now["by_space"].items():
            spaces.add_row(name, *(told for what in ("published", "delivered") for told in _passing(space.get(what, {}))))
        parts.append(spaces)
    if now["links"]:
        links = Table(_name_of("link"), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for heading in LINK_HEADINGS:
            links.add_column(heading, justify="right", no_wrap=True)
        for name, link in now["links"].items():
            links.add_row(
                name,
                f"{link['delay_ms']:g}",
                _number(link["delay"].get("p99_ms")),
                *_passing(link["passing"]),
                rate("links", name, "messages_in"),
                rate("links", name, "messages_out"),
                f"{link['queued_bytes']:,}",
            )
        parts.append(links)
    slow = [each for each in now["clients"] if each["queued_bytes"] or each["missed"] or each["paused"]][:SLOWEST]
    if slow:
        table = Table(_name_of("slow client"), "waiting bytes", "missed", "paused", box=box.SIMPLE_HEAD)
        for each in slow:
            table.add_row(each["name"], f"{each['queued_bytes']:,}", f"{each['missed']:,}", "yes" if each["paused"] else "")
        parts.append(table)
    return Group(*parts)
