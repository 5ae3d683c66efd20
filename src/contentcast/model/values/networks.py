r"""Addresses in a network: `in_cidr(ip, '10.0.0.0/8')`.

A value is an address if it is written as one: 10.1.2.3 with no leading zeros, or any form of RFC 4291 for version 6, without
a zone. A version 4 address that is mapped into version 6 (`::ffff:10.1.2.3`) is that version 4 address, in values and
networks alike.
Rule: what is not an address is in no network, and that is FALSE, not unknown: the value is there.
"""

from __future__ import annotations

from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    NetmaskValueError,
    ip_address,
    ip_network,
)
from typing import Final

from contentcast.model.values.caches import weighed
from contentcast.model.values.value_test import ValueTest

TAG: Final = "\\c"
_LONGEST: Final = 45
"""Characters of an address: six groups of four and a mapped one."""
_MAPPED: Final = 96

Address = tuple[int, int]
"""The version, 4 or 6, and the number."""


class NetworkError(ValueError):
    """A text that is no network, with what to write."""


class InNetwork(ValueTest):
    r"""`InNetwork.of("10.0.0.0/8")`; its text is the network's with `\c` before it."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> InNetwork:
        return cls(TAG + _canonical(text))

    @property
    def network(self) -> str:
        return self.text[len(TAG) :]

    @property
    def said(self) -> str:
        return f"in the network {self.network}"

    @property
    def place(self) -> tuple[int, int, int]:
        """The version, how many bits are left free, and the number without them: addresses with that number are in it."""
        return _place(self.network)

    def matches(self, value: str) -> bool:
        address = read_address(value)
        version, free, number = _place(self.network)
        return address is not None and address[0] == version and address[1] >> free == number

    def within(self, other: InNetwork) -> bool:
        version, free, number = self.place
        wide_version, wide_free, wide_number = other.place
        return version == wide_version and free <= wide_free and number >> (wide_free - free) == wide_number

    def disjoint(self, other: InNetwork) -> bool:
        return not self.within(other) and not other.within(self)


def read_address(text: str) -> Address | None:
    """The address that a text is, if it is one."""
    if len(text) > _LONGEST or not text.isascii() or "%" in text:
        return None
    try:
        if ":" not in text:
            return 4, int(IPv4Address(text))
        address = IPv6Address(text)
    except AddressValueError:
        return None
    mapped = address.ipv4_mapped
    return (6, int(address)) if mapped is None else (4, int(mapped))


def _canonical(text: str) -> str:
    if len(text) > _LONGEST + 4 or "%" in text:
        raise NetworkError(f"{text[:60]!r} is not a network; write '10.0.0.0/8' or '2001:db8::/32'")
    bits = text.partition("/")[2]
    if "/" in text and not (bits.isascii() and bits.isdigit()):
        raise NetworkError(f"{text!r} needs the number of its leading bits after the /, as '10.0.0.0/8' has it")
    try:
        network = ip_network(text, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError):
        raise NetworkError(f"{text!r} is not a network; write '10.0.0.0/8' or '2001:db8::/32'") from None
    if ip_address(text.partition("/")[0]) != network.network_address:
        raise NetworkError(f"{text!r} has bits after its first {network.prefixlen}; write '{network}'")
    if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return str(IPv4Network((int(mapped), network.prefixlen - _MAPPED)))
    return str(network)


@weighed(2_000_000, lambda text: 200)
def _place(network: str) -> tuple[int, int, int]:
    read = ip_network(network)
    free = read.max_prefixlen - read.prefixlen
    return read.version, free, int(read.network_address) >> free
