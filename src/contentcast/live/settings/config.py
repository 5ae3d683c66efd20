"""What a broker is told before it starts: by options of the command line, or by a TOML file.

Rule: what cannot be is said before anything starts, with the file and the setting. Paths in a file start from its folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from contentcast.catalog import protocol
from contentcast.live.settings.access import Access, read_access
from contentcast.live.settings.address import Address, read_address, read_http
from contentcast.live.settings.identity import check_name
from contentcast.live.settings.limits import ON_SLOW, Limits, OnSlow, read_limits
from contentcast.live.settings.tls import Tls, read_tls
from contentcast.model import ContentcastError, Space
from contentcast.model.errors import nearest

EXAMPLE: Final = """\
# contentcast broker --config FILE. Every setting may be left out. Paths start from this file's folder.

name = "nyc"                                    # unique in the network; the same over all its lives
listen = ["contentcast://127.0.0.1:7411"]       # contentcasts:// is TLS, see [tls]; port 0 takes a free one
# advertise = ["contentcasts://nyc.example.net:7411"]   # where others reach it, if that is another address
neighbours = []                                 # brokers to have a link to: ["contentcast://127.0.0.1:7412"]
# join = ["contentcast://127.0.0.1:7413"]       # for protocols without fixed links: any broker of the network
protocol = "link-matching"                      # all brokers of a network run the same
# data = "nyc-data"                             # a folder for what must survive; without it all is in memory
# http = "127.0.0.1:7480"                       # /metrics, /healthz, /readyz, /state
spaces = []                                     # files of spaces to declare at the start: ["trades.toml"]
on_slow = "pause"                               # or "skip", "disconnect": what becomes of clients that read too slowly
log = "text"                                    # or "json"

[limits]
client_queue_bytes = 16_777_216                 # what waits for one client
# subscriptions_per_client = 1_000_000          # docs/reference/configuration.md has them all

# [tls]                                         # for contentcasts:// addresses
# certificate = "nyc.pem"                       # with its chain
# key = "nyc.key"
# authority = "network-ca.pem"                  # who signs brokers and clients; brokers must show a certificate

# [access]                                      # without it whoever can connect may do everything
# token_keys = ["tokens.pem"]                   # public Ed25519 keys of those who sign tokens
# [access.rights.desk-7]                        # an identity: of a certificate or a token; "*" is everybody else
# publish = {}
# subscribe = { trades = "issue = 'IBM'", logs = "TRUE" }
# operate = false                               # may look at the state of the broker
# gateway = false                               # may carry events between this network and a LAN
"""


@dataclass(frozen=True)
class BrokerConfig:
    name: str = ""
    listen: tuple[Address, ...] = (Address("127.0.0.1", 0),)
    advertise: tuple[Address, ...] = ()
    neighbours: tuple[Address, ...] = ()
    join: tuple[Address, ...] = ()
    protocol: str = "link-matching"
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Path | None = None
    http: str = ""
    spaces: tuple[Space, ...] = ()
    on_slow: OnSlow = "pause"
    log: str = "text"
    limits: Limits = field(default_factory=Limits)
    tls: Tls | None = None
    access: Access = field(default_factory=Access)
    insecure: bool = False
    path: str = ""

    @property
    def proves_brokers(self) -> bool:
        """Must other brokers show a certificate? They may see and publish everything, so where there are rights they must."""
        return self.access.is_closed or (self.tls is not None and self.tls.authority is not None)

    def check(self) -> None:
        """Safe by default: what is not loopback needs TLS and identities, or a word that one has to type."""
        if self.name:
            check_name(self.name, "the name of a broker")
        if self.protocol.partition(",")[0] == "multicast":
            raise ContentcastError(
                "the protocol multicast needs no broker: programs connect to lan://239.192.10.0:6666 and are the network "
                "(contentcast lan join); contentcast lan gateway carries events between such a LAN and a network of brokers"
            )
        needs_links = getattr(protocol(self.protocol).make, "needs_links", True)
        if self.join and needs_links and ":" not in self.protocol:
            raise ContentcastError(
                f"{self.protocol} has fixed links: say --neighbour for each; --join is for protocols without links, as overlay"
            )
        for address in self.listen:
            if address.secure and self.tls is None:
                raise ContentcastError(f"{address} needs a certificate; see [tls] in contentcast broker --example-config")
            if address.is_loopback or self.insecure:
                continue
            if not address.secure:
                raise ContentcastError(
                    f"{address} is open to other machines and has no TLS: everybody there could read and publish everything. "
                    "Listen on contentcasts:// with [tls] and [access], or on 127.0.0.1, or add --insecure"
                )
            if not self.access.is_closed:
                raise ContentcastError(
                    f"{address} is open to other machines and everybody may do everything; add [access], or --insecure"
                )
        # One alone needs none: it takes nobody for a broker.
        if self.access.is_closed and (self.neighbours or self.join) and not (self.tls and self.tls.authority):
            raise ContentcastError(
                "there are rights in [access], and other brokers, who stand above them, could not prove who they are; add "
                "authority to [tls], the PEM file of who signs brokers"
            )
        if self.http and not read_http(self.http).is_loopback and not self.insecure:
            raise ContentcastError(
                f"http {self.http} is open to other machines and has no TLS: /state shows everybody there who is connected and "
                "what they want. Give 127.0.0.1 (and put a proxy with TLS and a password before it), or add --insecure"
            )


SETTINGS: Final = tuple(each.name for each in fields(BrokerConfig) if each.name not in ("path", "insecure"))


def read_broker_config(path: Path) -> BrokerConfig:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContentcastError(
            f"there is no file {path}; contentcast broker --example-config prints one to begin with"
        ) from None
    except OSError as reason:
        raise ContentcastError(f"{path} cannot be read: {reason.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as reason:
        raise ContentcastError(f"{path} is no TOML: {reason}") from None
    try:
        return replace(broker_config(told, path.parent), path=str(path))
    except ContentcastError as reason:
        raise ContentcastError(f"{path}: {reason}") from None


def broker_config(told: Mapping[str, Any], folder: Path = Path()) -> BrokerConfig:
    """A configuration from plain values, as a TOML file has them."""
    given: dict[str, Any] = {}
    for name, value in told.items():
        if name not in SETTINGS:
            raise ContentcastError(f"there is no setting {name!r}{nearest(name, SETTINGS, 'there are')}")
        given[name] = _read(name, value, folder)
    return BrokerConfig(**given)


def _read(name: str, value: Any, folder: Path) -> Any:
    match name:
        case "listen" | "advertise" | "neighbours" | "join":
            return tuple(read_address(each) for each in _texts(name, value))
        case "spaces":
            return tuple(Space.load(folder / each) for each in _texts(name, value))
        case "limits":
            return read_limits(_table(name, value))
        case "tls":
            return read_tls(_table(name, value), folder)
        case "access":
            return read_access(_table(name, value), folder)
        case "options":
            return dict(_table(name, value))
    if not isinstance(value, str) or not value:
        raise ContentcastError(f"{name} is a text, got {value!r}")
    if name == "data":
        return folder / value
    if name == "on_slow" and value not in ON_SLOW:
        raise ContentcastError(f"on_slow is one of {', '.join(ON_SLOW)}, got {value!r}")
    if name == "log" and value not in ("text", "json"):
        raise ContentcastError(f"log is text or json, got {value!r}")
    return value


def _texts(name: str, value: Any) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
        raise ContentcastError(f"{name} is a list of texts, got {value!r}")
    return listed


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ContentcastError(f"{name} is a table, got {value!r}")
    return value
