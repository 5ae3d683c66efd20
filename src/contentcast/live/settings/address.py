"""Addresses of brokers: `contentcast://host:port`, and `contentcasts://host:port` with TLS."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from contentcast.model import ContentcastError
from contentcast.model.errors import nearest

PLAIN, SECURE = "contentcast", "contentcasts"
DEFAULT_PORT: Final = 7411


class AddressError(ContentcastError):
    """A text that is no address of a broker; the message says how one is written."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    secure: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SECURE if self.secure else PLAIN}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_anywhere(self) -> bool:
        """Does it stand for every interface of the machine? Nobody else can dial that."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


def read_address(text: str, default_port: int = DEFAULT_PORT) -> Address:
    """`contentcast://host:port`; `host:port` and `host` alone are plain."""
    written = text if "://" in text else f"{PLAIN}://{text}"
    try:
        parts = urlsplit(written)
        port = default_port if parts.port is None else parts.port
    except ValueError as reason:
        raise AddressError(f"{text!r} is no address of a broker: {reason}; write contentcast://host:{default_port}") from None
    if parts.scheme not in (PLAIN, SECURE):
        near = nearest(parts.scheme, (PLAIN, SECURE), "there are")
        raise AddressError(f"{text!r}: there is no scheme {parts.scheme}://{near}")
    if not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise AddressError(f"{text!r} is no address of a broker; write contentcast://host:{default_port}")
    return Address(parts.hostname, port, parts.scheme == SECURE)


def read_http(text: str) -> Address:
    """`host:port`, where a broker answers over HTTP."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise AddressError(f"http is HOST:PORT, with a port from 0 to 65535, got {text!r}")
    return Address(host.strip("[]"), int(port))


def read_addresses(text: str | tuple[str, ...] | list[str]) -> tuple[Address, ...]:
    """One or several, with commas between them."""
    texts = text.split(",") if isinstance(text, str) else text
    found = tuple(read_address(each.strip()) for each in texts if each.strip())
    if not found:
        raise AddressError(f"no address in {text!r}; write contentcast://127.0.0.1:{DEFAULT_PORT}")
    return found


def believed(texts: Any, *, secure: bool) -> tuple[Address, ...]:
    """Where a broker listens, as another broker tells it. `secure`: that one was reached over TLS and is believed no address
    without, because whoever is dialled is shown the token.
    """
    found = []
    for each in texts if isinstance(texts, list) else ():
        with suppress(AddressError):
            address = read_address(str(each))
            if address.secure or not secure:
                found.append(address)
    return tuple(found)
