"""How a process takes part in a LAN: `lan://239.192.10.0:6666?interface=192.168.1.7&key=lan.key`.

    interface   the IPv4 address of a network interface; 127.0.0.1, unless told: only this computer
    mode        multicast | fanout | auto; auto probes the network and falls back to fanout if there are peers
    peer        host:port of another server, for fanout; may come several times
    port        the port at which peers reach this server in fanout; any, unless told
    key         a file with the key that all servers of the LAN share
    insecure    yes: take datagrams from anybody, although the interface is not loopback
    quality     reliable | best effort: what subscriptions ask for that do not say it themselves
    hold_back   yes: what three others tell is not told, the rest is repeated by its number (see `routing.multicast.members`)
    broker      where the broker behind the gateway is reached, for durable delivery; unless told, the gateway says it
    token       a file with the token to show to that broker
    authority   the PEM file of who signs its certificate, for contentcasts://

Rule: beyond loopback there is a key, or somebody has typed `insecure`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal, cast
from urllib.parse import parse_qsl, urlsplit

from contentcast.live.datagrams import Interface
from contentcast.live.lan.keys import GroupKey
from contentcast.live.settings.address import read_addresses
from contentcast.model import ContentcastError
from contentcast.model.errors import nearest
from contentcast.routing.multicast.agreement import proposal_of
from contentcast.routing.multicast.groups import Group
from contentcast.routing.multicast.mapping import BEST_EFFORT, CONTROL, RELIABLE, MappingId, MappingSpecification, Quality
from contentcast.wire import encode

Mode = Literal["multicast", "fanout", "auto"]
MODES: Final = ("multicast", "fanout", "auto")
KEYS: Final = ("interface", "mode", "peer", "port", "key", "insecure", "quality", "hold_back", "broker", "token", "authority")
DEFAULT_URL: Final = "lan://239.192.10.0:6666"


class LanError(ContentcastError):
    """Something about the LAN that its user can change; the message says how."""


@dataclass(frozen=True)
class LanOptions:
    mapping: MappingSpecification = field(default_factory=MappingSpecification)
    interface: Interface = field(default_factory=Interface)
    mode: Mode = "auto"
    peers: tuple[tuple[str, int], ...] = ()
    port: int = 0
    key: GroupKey | None = field(default=None, compare=False)
    key_file: str = ""
    quality: Quality = BEST_EFFORT
    broker: str = ""
    token_file: str = ""
    authority: str = ""
    hold_back: bool = False

    @classmethod
    def of(cls, url: str, mapping: MappingSpecification | None = None) -> LanOptions:
        """What the address says. A mapping must name the same control group; see `named` for the id that it gets."""
        parts = urlsplit(url)
        if parts.scheme != "lan" or not parts.hostname:
            raise LanError(f"the address of a LAN is {DEFAULT_URL}?interface=192.168.1.7, got {url!r}")
        try:
            port = parts.port
        except ValueError:
            raise LanError(f"{url}: a port goes from 1 to 65535") from None
        control = str(Group.of(f"udp_ipm://{parts.hostname}{f':{port}' if port else ''}"))
        told = _query(parts.query)
        chosen = _default_mapping(control) if mapping is None else named(mapping)
        if chosen.control != control:
            raise LanError(f"the mapping's control group is {chosen.control}, the address says {control}; make them alike")
        interface = Interface(told.get("interface", ["127.0.0.1"])[-1])
        key_file = told.get("key", [""])[-1]
        key = GroupKey.load(key_file) if key_file else None
        if key is None and not interface.is_loopback and not _yes(told, "insecure"):
            raise LanError(
                f"without a key anybody on the network of {interface.address} could publish; add key=FILE "
                "(openssl rand -hex 32 > FILE), or insecure=yes"
            )
        mode = told.get("mode", ["auto"])[-1]
        if mode not in MODES:
            raise LanError(f"mode is one of {', '.join(MODES)}, got {mode!r}")
        peers = tuple(_peer(each) for each in told.get("peer", ()))
        if mode == "fanout" and not peers:
            raise LanError("mode=fanout sends a copy to each peer; name them: peer=192.168.1.8:7000")
        quality = told.get("quality", [BEST_EFFORT])[-1]
        if quality not in (BEST_EFFORT, RELIABLE):
            more = "; a durable subscription has a name, so it is asked for where it is made" if quality == "durable" else ""
            raise LanError(f"quality is {RELIABLE} or {BEST_EFFORT}, got {quality!r}{more}")
        broker, token = told.get("broker", [""])[-1], told.get("token", [""])[-1]
        if broker:
            read_addresses(broker)
        elif token:
            raise LanError("a token is shown to a broker that you name, not to one that is heard of; add broker=host:port")
        return cls(
            chosen,
            interface,
            cast(Mode, mode),
            peers,
            _port(told.get("port", ["0"])[-1]),
            key,
            key_file,
            cast(Quality, quality),
            broker,
            token,
            told.get("authority", [""])[-1],
            _yes(told, "hold_back"),
        )


def named(mapping: MappingSpecification) -> MappingSpecification:
    """A mapping that a program starts with. Its proposer becomes its content, so that two with the same id are the same.

    Servers that start with different ones then notice it, and agree on the one with the greater number.
    """
    number = max(1, mapping.id.number)  # 0 is the default mapping, and on its way a mapping that asks for a number
    content = encode(proposal_of(mapping.renumbered(MappingId(number))))
    return mapping.renumbered(MappingId(number, f"content {blake2b(content, digest_size=8).hexdigest()}"))


def _default_mapping(control: str) -> MappingSpecification:
    if control == CONTROL:
        return MappingSpecification()
    first = Group.of(control)
    return MappingSpecification(otherwise=tuple(str(first.following(1 + at)) for at in range(16)), control=control)


def _yes(told: dict[str, list[str]], name: str) -> bool:
    value = told.get(name, ["no"])[-1]
    if value not in ("yes", "no"):
        raise LanError(f"{name} is yes or no, got {value!r}")
    return value == "yes"


def _query(text: str) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name not in KEYS:
            raise LanError(f"the address of a LAN has no {name!r}{nearest(name, KEYS, 'there are')}")
        told.setdefault(name, []).append(value)
    return told


def _peer(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host:
        raise LanError(f"a peer is host:port, got {text!r}")
    return host, _port(port)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise LanError(f"a port goes from 1 to 65535, got {text!r}")
    return int(text)
