"""`contentcast lan gateway`: carry events between a LAN and a network of brokers, until Ctrl-C or SIGTERM.

Rule: stdout has states, a line of JSON each; how it goes is said on stderr.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contentcast.model import ContentcastError

if TYPE_CHECKING:
    from contentcast.live.lan.gateway_config import GatewayConfig


def gateway(
    config: Annotated[
        Path | None, typer.Option(help="Which LAN, which brokers, what crosses: TOML.", show_default=False)
    ] = None,
    example_config: Annotated[bool, typer.Option("--example-config", help="Print a file for --config.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds from one line of state to the next.")] = 10,
) -> None:
    """Carry events between a LAN and brokers: what one side wants, the other brings, each event once."""
    from contentcast.live.lan.gateway_config import EXAMPLE, read_gateway_config

    if example_config:
        typer.echo(EXAMPLE, nl=False)
        return
    if config is None:
        raise ContentcastError("lan gateway: say what to connect, --config FILE; --example-config prints one to begin with")
    logging.basicConfig(level=logging.INFO, format="contentcast: %(message)s")
    asyncio.run(_carry(read_gateway_config(config), every))


async def _carry(config: GatewayConfig, every_s: float) -> None:
    import contentcast as cc
    from contentcast.commands.live.options import tell_changes
    from contentcast.live.lan import connect_lan
    from contentcast.live.lan.gateway import Gateway

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with connect_lan(config.lan, spaces=config.spaces) as lan:
        name = config.name or lan.server.name
        known_as = Gateway.client_name(config.network, name)
        async with cc.connect(config.broker, name=known_as, on_change=tell_changes, **config.connection()) as broker:
            for each in config.spaces:
                await broker.declare(each)
            made = Gateway(lan, broker, config.shares, name=name, network=config.network, address=config.reached_at())
            running = asyncio.create_task(made.run())
            stopping = asyncio.create_task(ended.wait())
            while not ended.is_set() and not running.done():
                print(json.dumps(made.state()), flush=True)
                await asyncio.wait([running, stopping], timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if running.done():
                await running
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            print(json.dumps(made.state()), flush=True)
