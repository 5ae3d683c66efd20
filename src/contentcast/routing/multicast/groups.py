"""Communication identifiers: `udp_ipm://239.192.10.2:6666`, a group of IP multicast and a port.

Source: Eide et al. 2003, table 5 and section 4.3.1; administrative scopes from RFC 2365. Only the low 23 bits of a group become
part of its Ethernet address (section 3.2), so 32 groups share each Ethernet address.
Rule: a group is named by its text everywhere in routing; only hosts take the text apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final, Self

from contentcast.model.errors import ContentcastError

PROTOCOL: Final = "udp_ipm"
DEFAULT_PORT: Final = 6666
ADMINISTRATIVE: Final = IPv4Network("239.0.0.0/8")
ORGANISATION: Final = IPv4Network("239.192.0.0/14")
"""The organisation-local scope: groups that a LAN may give out for itself."""
SITE: Final = IPv4Network("239.255.0.0/16")


class MappingError(ContentcastError):
    """A mapping specification that cannot hold; the message says what to write instead."""


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """An IPv4 multicast address and a UDP port."""

    address: IPv4Address
    port: int = DEFAULT_PORT

    @classmethod
    def of(cls, text: str) -> Self:
        """`udp_ipm://239.192.10.2:6666`; without a port it is 6666."""
        protocol, found, rest = text.partition("://")
        if not found or protocol != PROTOCOL:
            raise MappingError(f"a group is written {PROTOCOL}://239.192.10.1:{DEFAULT_PORT}, got {text!r}")
        host, _, port = rest.partition(":")
        try:
            address = IPv4Address(host)
        except ValueError:
            raise MappingError(f"{text}: {host!r} is no IPv4 address; take one from {ORGANISATION}") from None
        if not address.is_multicast:
            raise MappingError(f"{text}: {host} is no multicast address; take one from {ORGANISATION}")
        if port and not (port.isdecimal() and 0 < int(port) < 65_536):
            raise MappingError(f"{text}: a port goes from 1 to 65535, got {port!r}")
        return cls(address, int(port) if port else DEFAULT_PORT)

    def __str__(self) -> str:
        return f"{PROTOCOL}://{self.address}:{self.port}"

    @property
    def ethernet(self) -> str:
        """The Ethernet address that frames of this group carry."""
        low = int(self.address) & 0x7FFFFF
        return ":".join(f"{each:02x}" for each in (0x01, 0x00, 0x5E, low >> 16, low >> 8 & 0xFF, low & 0xFF))

    @property
    def is_administrative(self) -> bool:
        return self.address in ADMINISTRATIVE

    @property
    def is_local(self) -> bool:
        return self.address in ORGANISATION or self.address in SITE

    def following(self, steps: int) -> Group:
        """The group so many addresses further on."""
        return Group(self.address + steps, self.port)
