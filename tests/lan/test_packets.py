"""Messages as datagrams: cut, numbered, put together in any order, and signed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contentcast.live.datagrams import MOST_DATAGRAM_BYTES
from contentcast.live.lan import keys, packets
from contentcast.live.lan.keys import GroupKey, Window
from contentcast.live.lan.packets import HEADER, MAGIC, PROBE, VERSION, Assembler, Cutter, probe_bytes, probe_ids
from contentcast.model import ContentcastError

G = "udp_ipm://239.192.10.1:6666"
KEY = GroupKey(bytes(range(32)))


def taken(assembler: Assembler, datagrams: list[bytes]) -> list[bytes]:
    return [whole.payload for each in datagrams if (whole := assembler.take(memoryview(each))) is not None]


@given(st.binary(max_size=20_000), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_a_message_comes_whole_in_whatever_order_its_parts_come(
    payload: bytes, signed: bool, fan_out: bool, random: Random
) -> None:
    key = KEY if signed else None
    cut = list(Cutter(7, key).cut(payload, G, fan_out))
    assert max(map(len, cut)) <= MOST_DATAGRAM_BYTES
    random.shuffle(cut)
    assembler = Assembler(G, 1, key)
    assert taken(assembler, cut) == [payload]
    assert taken(assembler, cut) == []  # once more: seen already
    assert assembler.losses.replayed == len(cut)


def test_what_was_lost_is_counted_and_what_was_late_is_not() -> None:
    cutter, assembler = Cutter(7), Assembler(G, 1)
    cut = [each for number in range(10) for each in cutter.cut(bytes([number]), G)]
    late = cut[2]
    assert len(taken(assembler, [*cut[:2], *cut[5:8]])) == 5
    assert assembler.losses.missing == 3
    assert taken(assembler, [late]) == [b"\x02"]
    assert assembler.losses.missing == 2


def test_a_message_that_misses_a_part_is_given_up_when_others_come() -> None:
    cutter, assembler = Cutter(7), Assembler(G, 1)
    for _ in range(100):
        first, *_ = cutter.cut(bytes(5000), G)
        assert taken(assembler, [first]) == []
    assert assembler.losses.unfinished == 100 - 64


def forged(sender: int, number: int, part: int, parts: int, piece: bytes = b"?") -> bytes:
    return HEADER.pack(MAGIC, VERSION, 0, sender, number, part, parts) + piece


def test_parts_that_disagree_are_passed_over() -> None:
    """The fifth of ten and the first of two say that they are of one message."""
    assembler = Assembler(G, 1)
    assert taken(assembler, [forged(7, 10, 5, 10), forged(7, 5, 0, 2)]) == []
    assert assembler.losses.foreign == 1


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5), st.integers(0, 6)), max_size=30))
def test_whatever_the_parts_say_nothing_raises(told: list[tuple[int, int, int]]) -> None:
    assembler = Assembler(G, 1)
    for number, part, parts in told:
        assembler.take(memoryview(forged(7, number, part, parts)))


def test_senders_that_somebody_makes_up_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "MOST_UNFINISHED_BYTES", 1000)
    assembler, real = Assembler(G, 1), Cutter(7)
    assert taken(assembler, list(real.cut(b"x", G))) == [b"x"]
    for sender in range(100, 100 + 2 * packets.MOST_SENDERS):
        taken(assembler, [forged(sender, 1, 0, 2, bytes(100))])
    assert len(assembler._streams) == packets.MOST_SENDERS
    assert assembler._held <= 1000
    assert taken(assembler, list(real.cut(b"y", G))) == [b"y"]


def test_a_server_passes_over_what_it_sent_itself() -> None:
    assembler = Assembler(G, 7)
    assert taken(assembler, list(Cutter(7).cut(b"x", G))) == []
    assert assembler.losses.own == 1


@given(st.binary(max_size=100), st.randoms(use_true_random=False))
def test_strange_bytes_do_no_harm(data: bytes, random: Random) -> None:
    assembler = Assembler(G, 1)
    assembler.take(memoryview(data))
    assembler.take(memoryview(b"CL\x01" + data))
    (good,) = Cutter(7, KEY).cut(b"hello", G)
    damaged = bytearray(good)
    damaged[random.randrange(len(good))] ^= 1 << random.randrange(8)
    assert taken(Assembler(G, 1, KEY), [bytes(damaged)]) == []


def test_only_who_has_the_key_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    assembler = Assembler(G, 1, KEY)
    for cutter in (Cutter(7), Cutter(7, GroupKey(bytes(32)))):
        assert taken(assembler, list(cutter.cut(b"x", G))) == []
    # Signed for another group: it cannot be carried over.
    assert taken(assembler, list(Cutter(7, KEY).cut(b"x", "udp_ipm://239.192.10.2:6666"))) == []
    assert assembler.losses.unsigned == 3
    recorded = list(Cutter(7, KEY).cut(b"x", G))
    monkeypatch.setattr(keys, "CLOCKS_DIFFER_S", -1)
    assert taken(assembler, recorded) == []  # recorded by somebody, and sent long after
    monkeypatch.undo()
    assert taken(assembler, recorded) == [b"x"]
    assert taken(Assembler(G, 1), recorded) == []  # a server without the key does not take signed ones for good


@given(st.lists(st.integers(-40, 40), max_size=200), st.integers(0, 2**32 - 1))
def test_the_window_takes_each_number_once(steps: list[int], start: int) -> None:
    window, seen = Window(), set()
    for step in steps:
        number = (start + step) % 2**32
        assert window.take(number) == (number not in seen)
        seen.add(number)


def test_copies_to_peers_are_numbered_apart_from_what_goes_to_the_group() -> None:
    cutter, assembler = Cutter(7), Assembler(G, 1)
    for _ in range(5):
        list(cutter.cut(b"to a peer", G, fan_out=True))
        assert taken(assembler, list(cutter.cut(b"x", G))) == [b"x"]
    assert assembler.losses.missing == 0


def test_numbers_go_round() -> None:
    cutter, assembler = Cutter(7), Assembler(G, 1)
    cutter._numbers[G] = 2**32 - 3
    assert taken(assembler, [each for _ in range(6) for each in cutter.cut(b"x", G)]) == [b"x"] * 6
    assert assembler.losses.missing == 0
    assert HEADER.size == 20


def test_a_key_that_is_too_short_or_open_to_others_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ContentcastError, match="at least 16 bytes, got 3"):
        GroupKey(b"abc")
    file = tmp_path / "lan.key"
    file.write_text("00" * 32)
    file.chmod(0o644)
    with pytest.raises(ContentcastError, match="chmod 600"):
        GroupKey.load(file)
    file.chmod(0o600)
    assert GroupKey.load(file).tag(b"x", G) == GroupKey(bytes(32)).tag(b"x", G)
    file.write_text("hello")
    with pytest.raises(ContentcastError, match="hexadecimal"):
        GroupKey.load(file)


@pytest.mark.parametrize("key", [None, KEY])
def test_a_probe_names_senders_and_no_group(key: GroupKey | None) -> None:
    (datagram,) = Cutter(7, key).cut(probe_bytes({3, 2**64 - 1}), PROBE, fan_out=True)
    whole = Assembler("", 1, key).take(memoryview(datagram))
    assert whole is not None
    assert (whole.sender, whole.group, probe_ids(whole.payload)) == (7, PROBE, {3, 2**64 - 1})
    assert probe_ids(b"of another form") == probe_ids(b"of anoth")
