"""Nodes come and go for days: what one remembers of them is bounded, and who is dead is asked ever more rarely."""

from __future__ import annotations

from contentcast.routing.chord.node import GIVEN_UP_AFTER_S, LONGEST_WAIT_S, MOST_NOTED, ChordNode
from contentcast.routing.contract import SendTo
from contentcast.routing.overlay.copying import Copying
from contentcast.routing.overlay.store import Store
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.wire.chord import Answer, Ask
from contentcast.wire.overlay import ArcDigest

ROUND_S = 0.5


def asked_at(node: ChordNode, name: str, begin: float, end: float) -> list[float]:
    """When it was asked, while it does not answer."""
    rounds = (begin + ROUND_S * each for each in range(int((end - begin) / ROUND_S)))
    return [now for now in rounds for each in node.tick(now) if isinstance(each, SendTo) and each.broker == name]


def notes(node: ChordNode) -> int:
    return max(len(node._heard), len(node._asked), len(node._known))


def test_names_that_came_by_once_are_forgotten() -> None:
    node = ChordNode("me")
    for number in range(3_000):
        now = 0.05 * number
        node.receive(f"passing-{number}", Ask(False), now)
        node.suspect(f"silent-{number}", now)
        if number % 100 == 99:
            node.tick(now)
    assert notes(node) <= MOST_NOTED


def test_a_dead_node_is_asked_ever_more_rarely_and_then_never() -> None:
    node = ChordNode("me")
    node.heard("gone", 0.0)
    times = asked_at(node, "gone", 0.0, 2 * GIVEN_UP_AFTER_S)
    assert sum(each < 8.0 for each in times) >= 15  # as often as ever, as long as it may be back soon
    assert sum(GIVEN_UP_AFTER_S / 2 <= each < GIVEN_UP_AFTER_S for each in times) <= GIVEN_UP_AFTER_S / 2 / LONGEST_WAIT_S + 1
    assert times[-1] <= GIVEN_UP_AFTER_S
    assert notes(node) == 0
    node.heard("gone", 8000.0)
    assert asked_at(node, "gone", 8000.0, 8010.0)


def test_what_a_node_was_given_is_never_given_up() -> None:
    """A ring that was parted for days is found by the contacts of its nodes."""
    late = 1.5 * GIVEN_UP_AFTER_S
    joiner, configured = ChordNode("me"), ChordNode("me")
    joiner.meet(["contact"])
    configured.start(["me", "other"])
    for node, name in ((joiner, "contact"), (configured, "other")):
        assert asked_at(node, name, 0.0, late)[-1] >= late - LONGEST_WAIT_S - ROUND_S
        node.receive(name, Answer(name, ()), late)
        assert node.member.successor.name == name
    for number in range(600):
        joiner.learn(f"passing-{number}")
    assert "contact" in joiner._known


def test_successors_of_long_ago_leave_nothing_behind() -> None:
    chord = ChordNode("me")
    versions = Versions("me", 1)
    copying = Copying(chord, Store(SpaceRegister("me", versions)), copies=2)
    for number in range(50):
        chord.start(["me", f"passing-{number}"])
        low, high = chord.member.arc
        copying.receive(f"passing-{number}", ArcDigest(low, high, 0, same=True), float(number))
        copying.receive(f"other-{number}", ArcDigest(low, high, 0, same=True), float(number))
        copying.compare(float(number))
    assert list(copying._confirmed) == ["passing-49"]
    assert copying._agreed[1] == {"passing-49"}
