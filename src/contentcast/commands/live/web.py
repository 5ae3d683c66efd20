"""`contentcast web`: a page in the browser with what `contentcast top` shows, the network drawn, and why.

Rule: the address is printed on stdout when the page is there; what happens to brokers is told on stderr.
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from contentcast.commands.live.network import started_network
from contentcast.commands.live.options import (
    DEFAULT_BROKER,
    Authority,
    Certificate,
    Key,
    Token,
    connection_options,
    run_loop,
)


def web(
    brokers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BROKERS]", envvar="CONTENTCAST_BROKER", help="Addresses of brokers.", show_default=DEFAULT_BROKER
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(help="The brokers of a file that `contentcast network up` has started.", show_default=False),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve the page; port 0 takes a free one.")
    ] = "127.0.0.1:8080",
    only: Annotated[bool, typer.Option("--only", help="Not the other brokers that these know.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name by which browsers may call it, besides localhost.", show_default=False),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve the page to other machines too.")] = False,
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON when the page is there.")] = False,
) -> None:
    """Serve a web page with running brokers until Ctrl-C: the network, rates, who is slow, and why."""
    from contentcast.live.client.watching import Watcher
    from contentcast.web.server import Where
    from contentcast.web.snapshot import Snapshots

    where = Where.read(listen, tuple(host or ()), insecure=insecure)
    snapshots = Snapshots()
    urls = [each for text in brokers or () for each in text.split(",")]
    if network is not None:
        addresses, links = started_network(network)
        urls += addresses.values()
        snapshots = Snapshots(addresses, links)
    options = connection_options("", token, authority, certificate, key)
    options.pop("name")
    watcher = Watcher(urls or [DEFAULT_BROKER], follow=not only, name="web", **options)
    run_loop(_serve(where, watcher, snapshots, every, as_json, options))


async def _serve(where: Any, watcher: Any, snapshots: Any, every: float, as_json: bool, options: dict[str, Any]) -> None:
    from contentcast.web.lookout import Lookout
    from contentcast.web.server import Server

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    lookout = Lookout(watcher, snapshots, every, lambda line: typer.echo(f"contentcast: {line}", err=True))
    async with Server(where, lookout, options) as server:
        typer.echo(json.dumps({"url": server.url}) if as_json else f"the page is on {server.url}")
        looking = asyncio.create_task(lookout.latest())  # says which brokers cannot be reached
        await ended.wait()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
