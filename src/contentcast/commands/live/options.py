"""What the commands that talk to a broker share: its address, who one is, spaces in one line, and events as JSON lines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer

from contentcast.model import ContentcastError, Space

DEFAULT_BROKER: Final = "contentcast://127.0.0.1:7411"

Broker = Annotated[
    str, typer.Option("--broker", metavar="URL", envvar="CONTENTCAST_BROKER", help="The broker, or several with commas.")
]
Token = Annotated[
    str, typer.Option(envvar="CONTENTCAST_TOKEN", help="A signed token that says who you are.", show_default=False)
]
Authority = Annotated[Path | None, typer.Option(help="For contentcasts://: whom to trust, a PEM file.", show_default=False)]
Certificate = Annotated[Path | None, typer.Option(help="Your certificate, a PEM file.", show_default=False)]
Key = Annotated[Path | None, typer.Option(help="Its key, a PEM file.", show_default=False)]
Name = Annotated[str, typer.Option(help="The name of this client.", show_default=False)]
Declare = Annotated[
    str | None,
    typer.Option(
        metavar="ATTRIBUTES|FILE",
        help='Declare the space: "issue string, price float", or a .toml or .json.',
        show_default=False,
    ),
]

T = TypeVar("T")


def connection_options(
    name: str, token: str, authority: Path | None, certificate: Path | None, key: Path | None
) -> dict[str, Any]:
    paths = {"authority": authority, "certificate": certificate, "key": key}
    return {"name": name, "token": token, **{each: str(path) for each, path in paths.items() if path is not None}}


def read_space(name: str, text: str) -> Space:
    """`issue string, price float`, or the name of a file."""
    if text.endswith((".toml", ".json")) or Path(text).is_file():
        found = Space.load(text)
        if found.name != name:
            raise ContentcastError(f"{text} describes the space {found.name}, and {name} was asked for")
        return found
    attributes: dict[str, str] = {}
    for part in text.split(","):
        words = part.split()
        if len(words) != 2:
            raise ContentcastError(
                f'--declare takes a name and a kind for each attribute, "issue string, price float", got {part.strip()!r}'
            )
        attributes[words[0]] = words[1].lower()
    return Space(name, attributes)


def as_json_line(event: dict[str, Any]) -> bytes:
    """Timestamps in ISO 8601, bytes in base64."""
    return msgspec.json.encode(event) + b"\n"


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """In uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return asyncio.run(work) if sys.platform == "win32" else uvloop.run(work)


def tell_changes(what: str, about: str) -> None:
    """What a client says of its connection, on stderr."""
    if what != "trying":
        typer.echo(f"contentcast: {what}: {about}", err=True)
