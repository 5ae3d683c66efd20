"""Addresses and sockets of a LAN: groups apart from each other, datagrams sent and read together, what the kernel drops."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from contentcast.live.datagrams import DatagramError, Interface, Receiver, Sender
from contentcast.live.lan.options import LanOptions
from contentcast.routing.multicast import Group
from tests.lan.loopback import Lan


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("lan://239.192.10.0?interface=10.1.2.3", "without a key anybody on the network of 10.1.2.3 could publish"),
        ("lan://239.192.10.0?interfase=127.0.0.1", "did you mean 'interface'"),
        ("lan://239.192.10.0?mode=fanout", "name them: peer="),
        ("lan://239.192.10.0?mode=broadcast", "mode is one of multicast, fanout, auto"),
        ("lan://10.0.0.1", "no multicast address"),
        ("tcp://239.192.10.0", "the address of a LAN is lan://"),
        ("lan://239.192.10.0?interface=eth0", "named by its IPv4 address"),
        ("lan://239.192.10.0?peer=7000", "a peer is host:port"),
        ("lan://239.192.10.0?quality=sure", "quality is reliable or best effort"),
    ],
)
def test_an_address_that_cannot_be_is_refused(url: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        LanOptions.of(url)


def test_an_interface_that_is_not_there_is_said() -> None:
    with pytest.raises(DatagramError, match=r"no interface has the address 203\.0\.113\.9"):
        Receiver(Group.of("udp_ipm://239.192.10.1:6666"), Interface("203.0.113.9"))


def test_groups_of_others_are_not_heard() -> None:
    """IP_MULTICAST_ALL is off: a socket on the same port gets its own group only."""
    lan = Lan()
    interface = Interface()
    receivers = [Receiver(Group.of(f"udp_ipm://239.192.77.{at}:{lan.port}"), interface) for at in (1, 2)]
    sender = Sender(interface)
    sender.send(b"one", ("239.192.77.1", lan.port))
    sender.send(b"two", ("239.192.77.2", lan.port))
    assert [[bytes(each) for each in one.read()] for one in receivers] == [[b"one"], [b"two"]]
    for each in (*receivers, sender):
        each.close()


@pytest.mark.parametrize("refused", [False, True])
def test_datagrams_sent_together_come_as_they_were(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the kernel takes at once; also where it takes only one after the other."""
    lan, interface = Lan(), Interface()
    receiver = Receiver(Group.of(f"udp_ipm://239.192.77.1:{lan.port}"), interface)
    sender = Sender(interface)
    if refused:
        monkeypatch.setattr("contentcast.live.datagrams.UDP_SEGMENT", 9999)
    datagrams = [*(bytes([at]) * 1432 for at in range(100)), b"the last"]
    sender.send_all(datagrams, ("239.192.77.1", lan.port))
    assert [bytes(each) for each in receiver.read()] == datagrams
    assert sender.sent == 101
    for each in (receiver, sender):
        each.close()


def test_a_network_that_is_down_for_a_while_does_not_end_sending_together() -> None:
    class Down:
        def sendmsg(self, *_: Any) -> int:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

        def sendto(self, *_: Any) -> int:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    lan, interface = Lan(), Interface()
    receiver = Receiver(Group.of(f"udp_ipm://239.192.77.1:{lan.port}"), interface)
    sender = Sender(interface)
    there, calls = sender.socket, []

    class Up(Down):
        def sendmsg(self, *given: Any) -> int:
            calls.append(len(given[0]))
            return there.sendmsg(*given)

    sender.socket = Down()  # type: ignore[assignment]
    sender.send_all([bytes(1432)] * 3, ("239.192.77.1", lan.port))
    assert (sender.sent, sender.refused) == (0, 3)
    sender.socket = Up()  # type: ignore[assignment]
    sender.send_all([bytes(1432)] * 3, ("239.192.77.1", lan.port))
    assert (sender.sent, calls) == (3, [3])
    there.close()
    receiver.close()


def test_what_is_read_at_one_wake_up_is_bounded_where_the_kernel_joins_datagrams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contentcast.live.datagrams.MOST_READ", 10)
    lan, interface = Lan(), Interface()
    receiver = Receiver(Group.of(f"udp_ipm://239.192.77.1:{lan.port}"), interface)
    sender = Sender(interface)
    for _ in range(10):
        sender.send_all([bytes(1432)] * 20, ("239.192.77.1", lan.port))
    read = []
    while came := len(list(receiver.read())):
        read.append(came)
    assert sum(read) == 200
    assert max(read) < 10 + 20
    for each in (receiver, sender):
        each.close()


def test_what_the_kernel_drops_is_counted() -> None:
    lan, interface = Lan(), Interface()
    receiver = Receiver(Group.of(f"udp_ipm://239.192.77.1:{lan.port}"), interface, buffer_bytes=8192)
    sender = Sender(interface)
    for _ in range(100):
        sender.send(bytes(1000), ("239.192.77.1", lan.port))
    came = len(list(receiver.read()))
    sender.send(b"after", ("239.192.77.1", lan.port))
    assert len(list(receiver.read())) == 1
    assert receiver.dropped == 100 - came > 0
    receiver.close()
    sender.close()
