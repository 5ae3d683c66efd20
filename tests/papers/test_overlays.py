"""The worked examples of Baldoni et al. 2005: figures 1, 3 and 4."""

from __future__ import annotations

from contentcast.language import parse_predicate
from contentcast.model import Attribute, EventBatch, Space
from contentcast.routing.chord.keys import Peer, between
from contentcast.routing.chord.mcast import Finger, Targets, split
from contentcast.routing.chord.ring import ideal
from contentcast.routing.overlay.mappings import KeyMapping
from contentcast.routing.overlay.scales import Scale

SPACE = Space("figure3", a1=Attribute("int", low=0, high=7), a2=Attribute("int", low=0, high=7))
SUBSCRIPTION = parse_predicate(SPACE, "a1 < 2 AND a2 > 3 AND a2 < 7")
EVENT = EventBatch.from_dicts(SPACE, [{"a1": 1, "a2": 6}])


def keys(ranges: list[tuple[int, int]]) -> list[str]:
    return [f"{key:04b}" for low, high in ranges for key in range(low, high + 1)]


def test_figure_1_keys_live_at_their_successors() -> None:
    """A ring of 2^5 with the nodes 1, 8, 14 and 20 among others: keys 13, 17 and 26 live at 14, 20 and 1."""
    ring = ideal([Peer(key, f"N{key}") for key in (1, 8, 14, 20)], 3)
    covers = {key: next(each.me.key for each in ring.values() if each.covers(key)) for key in (13, 17, 26)}
    assert covers == {13: 14, 17: 20, 26: 1}
    fourth = (8 + 2**3) % 2**5
    assert fourth == 16
    assert next(each.me.name for each in ring.values() if each.covers(fourth)) == "N20"


def test_figure_3_attribute_split() -> None:
    """The figure's h(x) = x: as if each domain had 16 values."""
    scales = {name: Scale.of(SPACE[name], size=16) for name in SPACE.names}
    mapping = KeyMapping("attribute-split", 4, scales=scales).in_space(SPACE)
    assert keys(mapping.sk(SUBSCRIPTION)) == ["0000", "0001", "0100", "0101", "0110"]
    assert mapping.event_keys(EVENT)[1].tolist() == [0b0001]
    by_a2 = KeyMapping("attribute-split", 4, scales=scales, by="a2").in_space(SPACE)
    assert by_a2.event_keys(EVENT)[1].tolist() == [0b0110]


def test_figure_3_key_space_split() -> None:
    mapping = KeyMapping("key-space-split", 4).in_space(SPACE)
    assert keys(mapping.sk(SUBSCRIPTION)) == ["0010", "0011"]
    assert mapping.event_keys(EVENT)[1].tolist() == [0b0011]


def test_selective_attribute_takes_the_narrowest_constraint() -> None:
    """Section 4.2, mapping 3, on the same example: 2 of 8 values of a1 against 3 of a2."""
    scales = {name: Scale.of(SPACE[name], size=16) for name in SPACE.names}
    mapping = KeyMapping("selective-attribute", 4, scales=scales).in_space(SPACE)
    assert keys(mapping.sk(SUBSCRIPTION)) == ["0000", "0001"]
    assert mapping.event_keys(EVENT)[1].tolist() == [0b0001, 0b0110]


def test_figure_4_every_key_goes_to_one_finger() -> None:
    """Node 8 of figure 1 sends to all keys: its own stay, the others go to fingers, none twice."""
    ring = ideal([Peer(key, f"N{key}") for key in (1, 8, 14, 20)], 3)
    me = ring["N8"]
    fingers = [Finger(Peer(14, "N14"), 8), Finger(Peer(20, "N20"), 14), Finger(Peer(1, "N1"), 20)]
    mine, onward = split(me, fingers, Targets.of([(0, 31)]), bits=5)
    assert mine.pairs() == [(2, 8)]
    assert {each.name: sorted(part.pairs()) for each, part in onward} == {
        "N14": [(9, 14)],
        "N20": [(15, 20)],
        "N1": [(0, 1), (21, 31)],
    }
    assert all(between(key, 8, 14) for key in range(9, 15))
