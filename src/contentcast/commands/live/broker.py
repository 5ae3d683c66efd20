"""`contentcast broker`: one live broker, until Ctrl-C or SIGTERM; SIGHUP reads its configuration again.

Rule: what it listens on is printed on stdout when it is ready; everything else goes to the log on stderr.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from contentcast.commands.live.options import (
    DEFAULT_BROKER,
    Authority,
    Certificate,
    Key,
    Token,
    connection_options,
    run_loop,
)
from contentcast.model import ContentcastError
from contentcast.model.errors import counted

if TYPE_CHECKING:
    from contentcast.live.settings.config import BrokerConfig

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
COLLECT_AFTER: Final = (25_000, 5, 5)
"""Objects that Python's collector waits for, instead of 700, and how many rounds before it looks at older ones. What clients
leave behind is found after 625,000 objects. 200,000 subscriptions took 4.1 s of CPU with Python's numbers, 2.5 s with these.
"""


def broker(
    action: Annotated[
        str,
        typer.Argument(
            help="verify checks a data folder; reload: a broker reads its file again; forget: another one is gone for ever.",
            show_default="run",
        ),
    ] = "",
    folder: Annotated[
        Path | None,
        typer.Argument(help="The data folder to verify, or the broker to forget.", show_default=False),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Where to listen; port 0 takes a free one.", show_default=DEFAULT_BROKER),
    ] = None,
    name: Annotated[str, typer.Option(help="Unique in the network.", show_default="made up")] = "",
    data: Annotated[Path | None, typer.Option(help="A folder for what must survive.", show_default="in memory")] = None,
    neighbour: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A broker to have a link to.", show_default=False)
    ] = None,
    join: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Any broker, for protocols without fixed links.", show_default=False)
    ] = None,
    protocol: Annotated[str, typer.Option(help="How events are routed; all brokers alike.", show_default="link-matching")] = "",
    space: Annotated[
        list[Path] | None, typer.Option(help="A space to declare, a .toml or .json file.", show_default=False)
    ] = None,
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="/metrics, /healthz, /readyz and /state.", show_default=False)
    ] = "",
    config: Annotated[
        Path | None, typer.Option(help="All this and more in a TOML file; options go before it.", show_default=False)
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without TLS or rights.")] = False,
    running: Annotated[
        str, typer.Option("--broker", metavar="URL", envvar="CONTENTCAST_BROKER", help="The broker to reload, or to tell.")
    ] = DEFAULT_BROKER,
    token: Token = "",
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    example_config: Annotated[bool, typer.Option("--example-config", help="Print a file for --config.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON when ready, and log JSON.")] = False,
) -> None:
    """Run one live broker until Ctrl-C; without options on loopback, in memory."""
    if example_config:
        from contentcast.live.settings.config import EXAMPLE

        typer.echo(EXAMPLE, nl=False)
        return
    match action:
        case "verify":
            _verify(folder, as_json)
            return
        case "reload":
            run_loop(_reload(running, connection_options("", token, authority, certificate, key)))
            return
        case "forget":
            if folder is None:
                raise ContentcastError("forget which broker? contentcast broker forget NAME")
            run_loop(_forget(running, str(folder), connection_options("", token, authority, certificate, key)))
            return
        case _ if action:
            raise ContentcastError(f"broker: verify, reload or forget, or nothing to run one; not {action!r}")
    signals = _Signals()
    with signals.taken():
        from contentcast.live.settings.address import read_address
        from contentcast.live.settings.config import BrokerConfig, read_broker_config
        from contentcast.model import Space

        asked = listen or ([] if config else [DEFAULT_BROKER])
        given: dict[str, Any] = {
            "name": name,
            "listen": tuple(map(read_address, asked)),
            "data": data,
            "neighbours": tuple(map(read_address, neighbour or ())),
            "join": tuple(map(read_address, join or ())),
            "protocol": protocol,
            "spaces": tuple(map(Space.load, space or ())),
            "http": http,
            "insecure": insecure,
            "log": "json" if as_json else "",
        }
        chosen = {each: value for each, value in given.items() if value}

        def read() -> BrokerConfig:
            return replace(BrokerConfig() if config is None else read_broker_config(config), **chosen)

        run_loop(_serve(read(), read, as_json, signals))


class _Signals:
    """Taken before anything is read: what comes while the broker starts is remembered, and kills nothing."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._hung_up = False
        self._reload: Callable[[], None] | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        before = {each: signal.signal(each, lambda number, _: self._heard(number)) for each in SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def wake(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on they wake up the loop."""
        for each in SIGNALS:
            loop.add_signal_handler(each, self._heard, each)

    def reload_by(self, reload: Callable[[], None]) -> None:
        """The broker runs, and does now what it was told before."""
        self._reload = reload
        if self._hung_up:
            reload()

    def _heard(self, number: int) -> None:
        if number != signal.SIGHUP:
            self.ended.set()
        elif self._reload is not None:
            self._reload()
        else:
            self._hung_up = True


async def _serve(config: BrokerConfig, read: Any, as_json: bool, signals: _Signals) -> None:
    signals.wake(asyncio.get_running_loop())
    from contentcast.live.broker import Broker

    if config.http:  # told before the broker listens, if its packages are not installed
        from contentcast.live.looking.http import serve_http
    if signals.ended.is_set():
        return
    async with AsyncExitStack() as stack:
        running = Broker(config)
        running.read_config = read
        starting = asyncio.create_task(stack.enter_async_context(running))
        await _either(signals.ended.wait(), asyncio.wait([starting]))
        if signals.ended.is_set():
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            return
        await starting
        signals.reload_by(running.reload_by_signal)
        http = await serve_http(running, config.http) if config.http else None
        # What is there by now stays for ever. The collector need not look through it each time that many subscriptions come.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        _show(running, http.address if http else "", as_json)
        await _either(signals.ended.wait(), running.ended.wait())
        if http is not None:
            await http.close()
    if running.failed is not None:
        raise running.failed


async def _either(*ends: Coroutine[Any, Any, object]) -> None:
    waiting = [asyncio.create_task(each) for each in ends]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


async def _reload(url: str, options: dict[str, Any]) -> None:
    from contentcast.live.client import connect

    async with connect(url, reconnect=False, **options) as client:
        told = await client.ask("reload")
    typer.echo(f"{client.broker} reloaded; unchanged until it starts again: {told['unchanged_until_restart']}")


async def _forget(url: str, gone: str, options: dict[str, Any]) -> None:
    from contentcast.live.client import connect

    async with connect(url, reconnect=False, **options) as client:
        told = await client.ask("forget", broker=gone)
    typer.echo(
        f"{client.broker} has forgotten {gone} and tells the others; {told['dropped_batches']:,} batches were kept for it"
    )


def _verify(folder: Path | None, as_json: bool) -> None:
    from contentcast.live.looking.verifying import verify

    if folder is None:
        raise ContentcastError("verify which folder? contentcast broker verify DATA")
    found = verify(folder)
    if as_json:
        typer.echo(json.dumps(found))
        return
    held = f"{counted(found['records'], 'record')} in {counted(found['segments'], 'segment')}"
    typer.echo(f"{folder}: whole, {held}, {found['bytes']:,} bytes")
    if found["torn_bytes"]:
        typer.echo(f"its last {found['torn_bytes']:,} bytes were being written when it stopped; the next start cuts them")
    for name, each in found["subscriptions"].items():
        waiting = each["numbered"] - each["acknowledged"]
        typer.echo(f"  {name}: {counted(each['numbered'], 'event')}, {waiting:,} of them not acknowledged")


def _show(running: Any, http: str, as_json: bool) -> None:
    addresses = [str(each) for each in running.addresses]
    if as_json:
        described = {"broker": running.name, "listen": addresses, "incarnation": running.incarnation, "http": http}
        typer.echo(json.dumps(described))
        return
    at = "" if addresses[0] == DEFAULT_BROKER else f" --broker {addresses[0]}"
    typer.echo(f"broker {running.name} listens on {', '.join(addresses)}")
    if http:
        typer.echo(f"its metrics are on {http}/metrics")
    if not running.spaces.present:
        typer.echo("Try in two other terminals:")
        typer.echo(f'  contentcast subscribe trades "price < 120" --declare "issue string, price float"{at}')
        typer.echo(f"""  echo '{{"issue": "IBM", "price": 119.5}}' | contentcast publish trades{at}""")
