"""UDP multicast sockets: one to send from, one for each group that was joined.

    bind to the group address       so that the socket gets what was sent to the group, and not all that comes to the port
    IP_MULTICAST_ALL off            Linux else also delivers groups that other processes of the computer have joined
    IP_MULTICAST_LOOP on, TTL 1     receivers on the same computer get it too; no router carries it further
    SO_RCVBUF, read back            the kernel gives less than asked for without a word; bursts are lost where it is small
    SO_RXQ_OVFL                     the kernel counts what it dropped because the buffer was full
    UDP_SEGMENT, UDP_GRO            datagrams of one message go to the kernel, and come from it, in one call: 45 of them
                                    took 18 us of CPU there and back over loopback, against 174 us with a call each

Rule: what the kernel dropped is counted, and what could not be set up is said with what to do; nothing is lost in silence.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from contentcast.model import ContentcastError
from contentcast.routing.multicast.groups import Group

MOST_DATAGRAM_BYTES: Final = 1432
"""One Ethernet frame of 1500 bytes, less 20 for IP, 8 for UDP and 40 for what tunnels and VLANs add."""
RECEIVE_BUFFER_BYTES: Final = 4 * 2**20
SEND_BUFFER_BYTES: Final = 2 * 2**20
MOST_READ: Final = 1024
"""Datagrams read at one wake-up, before others get their turn; what the kernel joined with the last of them is read too."""
IP_MULTICAST_ALL: Final = getattr(socket, "IP_MULTICAST_ALL", 49)
SO_RXQ_OVFL: Final = getattr(socket, "SO_RXQ_OVFL", 40)
SOL_UDP: Final = getattr(socket, "SOL_UDP", socket.IPPROTO_UDP)
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
MOST_AT_ONCE: Final = 65_507 // MOST_DATAGRAM_BYTES
"""Datagrams handed to the kernel together: together they are no longer than the longest datagram of IPv4."""
NO_WAY: Final = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EPERM, errno.ECONNREFUSED)
NOWHERE: Final = (errno.ENODEV, errno.EADDRNOTAVAIL)
_DROPS: Final = struct.Struct("=I")
_LENGTH: Final = struct.Struct("=H")
_JOINED: Final = struct.Struct("=i")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_DROPS.size) + socket.CMSG_SPACE(_JOINED.size)


class DatagramError(ContentcastError):
    """A socket that could not be had; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The IPv4 address of the network interface that groups are joined on and sent from."""

    address: str = "127.0.0.1"

    def __post_init__(self) -> None:
        try:
            IPv4Address(self.address)
        except ValueError:
            raise DatagramError(f"an interface is named by its IPv4 address, as 192.168.1.7, got {self.address!r}") from None

    @property
    def is_loopback(self) -> bool:
        return IPv4Address(self.address).is_loopback

    @property
    def packed(self) -> bytes:
        return socket.inet_aton(self.address)


class Sender:
    """Sends to groups and to single peers, and gets what peers send to it alone."""

    def __init__(self, interface: Interface, *, port: int = 0) -> None:
        self.socket = _udp(interface)
        for option, value in ((socket.IP_MULTICAST_TTL, 1), (socket.IP_MULTICAST_LOOP, 1)):
            self.socket.setsockopt(socket.IPPROTO_IP, option, value)
        try:
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface.packed)
        except OSError as reason:
            self.socket.close()
            raise DatagramError(_no_interface(interface) if reason.errno in NOWHERE else str(reason)) from None
        with suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self.sent = self.refused = 0
        """Datagrams that the kernel took, and that it refused: the network is unreachable."""
        try:
            self.socket.bind((interface.address, port))
        except OSError as reason:
            self.socket.close()
            raise DatagramError(f"{interface.address}:{port} cannot be bound: {reason.strerror}") from None
        self._reader = _Reader(self.socket)
        self._can_join = True

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.socket.getsockname()
        return str(host), int(port)

    def send(self, data: bytes, to: tuple[str, int]) -> None:
        """Waits while the kernel's buffer is full: a fast publisher is held back here, not in a queue without end."""
        try:
            self.socket.sendto(data, to)
            self.sent += 1
        except OSError as reason:
            if reason.errno not in NO_WAY:
                raise
            self.refused += 1

    def send_all(self, datagrams: Sequence[bytes], to: tuple[str, int]) -> None:
        """Datagrams of which all but the last have the same length."""
        begin = 0
        while self._can_join and begin + 1 < len(datagrams):
            some = datagrams[begin : begin + MOST_AT_ONCE]
            try:
                self.socket.sendmsg(some, [(SOL_UDP, UDP_SEGMENT, _LENGTH.pack(len(some[0])))], 0, to)
            except OSError as reason:
                # Not on this computer, or not on this way (a card without checksums): what is wrong is said by `send`.
                # A network that is down for a while says nothing about that.
                self._can_join = reason.errno in NO_WAY
                break
            self.sent += len(some)
            begin += len(some)
        for each in datagrams[begin:]:
            self.send(each, to)

    @property
    def dropped(self) -> int:
        """What came for this computer alone, and the kernel dropped for want of room."""
        return self._reader.dropped

    def read(self) -> Iterator[memoryview]:
        return self._reader.read()

    def close(self) -> None:
        self.socket.close()


class Receiver:
    """Everything that is sent to one group."""

    def __init__(self, group: Group, interface: Interface, buffer_bytes: int = RECEIVE_BUFFER_BYTES) -> None:
        self.group = group
        self._membership = group.address.packed + interface.packed
        self.socket = _udp(interface)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((str(group.address), group.port))
            self.socket.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, self._membership)
        except OSError as reason:
            self.socket.close()
            raise DatagramError(_joining(group, interface, reason)) from None
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        with suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        # Linux doubles the number for its own bookkeeping.
        self.buffer_bytes = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        self.socket.setblocking(False)
        self._reader = _Reader(self.socket)

    @property
    def dropped(self) -> int:
        """What the kernel dropped for want of room, as far as a later datagram has told."""
        return self._reader.dropped

    def read(self) -> Iterator[memoryview]:
        """What has come. A view holds until the next one is taken."""
        return self._reader.read()

    def close(self) -> None:
        with suppress(OSError):
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, self._membership)
        self.socket.close()


class _Reader:
    """Reads a socket until it is empty. What the kernel has joined comes as the datagrams that it was."""

    def __init__(self, sock: socket.socket) -> None:
        self.dropped = 0
        self._socket = sock
        with suppress(OSError):
            sock.setsockopt(SOL_UDP, UDP_GRO, 1)
        self._buffer = bytearray(65_536)
        self._view = memoryview(self._buffer)

    def read(self) -> Iterator[memoryview]:
        receive, buffers, view = self._socket.recvmsg_into, [self._buffer], self._view
        count = 0
        try:
            while count < MOST_READ:
                size, ancillary, _, _ = receive(buffers, _ANCILLARY_BYTES, socket.MSG_DONTWAIT)
                each = size
                for level, kind, data in ancillary:
                    if level == socket.SOL_SOCKET and kind == SO_RXQ_OVFL:
                        (self.dropped,) = _DROPS.unpack_from(data)
                    elif level == SOL_UDP and kind == UDP_GRO:
                        (each,) = _JOINED.unpack_from(data)
                if each >= size:
                    count += 1
                    yield view[:size]
                    continue
                count += -(-size // each)
                for at in range(0, size, each):
                    yield view[at : min(at + each, size)]
        except BlockingIOError:
            return


def _udp(interface: Interface) -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)


def _no_interface(interface: Interface) -> str:
    return f"no interface has the address {interface.address}; see `ip -4 address` for those that there are"


def _joining(group: Group, interface: Interface, reason: OSError) -> str:
    if reason.errno == errno.EADDRINUSE:
        return f"{group} is taken by a program that does not share it; take another port"
    if reason.errno in NOWHERE:
        return _no_interface(interface)
    if reason.errno == errno.ENOBUFS:
        return f"{group}: this computer may join no more groups; raise net.ipv4.igmp_max_memberships"
    return f"{group} cannot be joined on {interface.address}: {reason.strerror}"
