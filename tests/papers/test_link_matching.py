"""The worked examples of link matching: Banavar et al. 1999, section 3, and its slides (initialisation mask, matching
events)."""

from __future__ import annotations

from contentcast.catalog import make_router
from contentcast.hosting.instant import Instant
from contentcast.language import parse_predicate
from contentcast.matching.search_tree.explain import explain_links
from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Deliver, Effect, Published, Send, Subscribed
from contentcast.routing.link_matching import LinkMatching
from contentcast.routing.link_matching.masks import VirtualLinks, unpacked
from contentcast.wire import Publish

LINE = Topology.of("ABCD", [("A", "B"), ("B", "C"), ("C", "D")])
CLIENTS = {"C1": "A", "C2": "A", "C3": "B", "C4": "B", "C5": "C", "C6": "D", "C7": "D"}
SPACE = Space("five", a1="int", a2="int", a3="int", a4="int", a5="int")


def watched(topology: Topology) -> tuple[Instant, list[tuple[str, Effect]]]:
    """A network of link-matching routers, and everything they ask for."""
    seen: list[tuple[str, Effect]] = []
    watch = lambda broker, _, effects: seen.extend((broker, each) for each in effects)  # noqa: E731
    return Instant(topology, make_router(LinkMatching, client_links=True), watch), seen


def trits(links: VirtualLinks, publisher: str, order: list[int], clients: int) -> str:
    """The mask as the slides write it: the links in this order, M where the search may still find somebody."""
    maybe = unpacked(links.mask(publisher, clients), links.count + clients)
    return "".join("M" if maybe[each] else "N" for each in order)


def test_initialisation_masks_of_the_slides() -> None:
    """Slides, "Initialisation Mask Computation (3)": C has L1 to B, L2 to D, L3 to its client; NMM for P1, MMM for P2."""
    links = VirtualLinks.at(LINE, "C")
    to_b, to_d = (int(links.of[LINE.number(each)]) for each in "BD")
    assert links.of[LINE.number("A")] == to_b, "A and B are behind the same link for everybody"
    order = [to_b, to_d, links.count]
    assert trits(links, "A", order, clients=1) == "NMM"
    assert trits(links, "B", order, clients=1) == "NMM"
    assert trits(links, "C", order, clients=1) == "MMM"
    assert trits(links, "D", order, clients=1) == "MNM"


def test_the_event_of_the_slides_leaves_c_for_d_only() -> None:
    """Slides, "Matching Events (3)": <2,1,3,2,3> from P1 beyond L1 is NMM at C, NYM after the root, and NYN: one copy, to D.

    The slides' picture of the tree is not in their text, so the subscriptions here are ones for which the mask goes that way:
    D's client C6 wants everything, and C's client C5 something that is looked for in vain.
    """
    wanted = {
        "C1": "a1 = 1 AND a2 = 2",
        "C3": "a1 = 2 AND a3 = 1",
        "C5": "a1 = 2 AND a2 = 1 AND a5 = 1",
        "C6": "TRUE",
        "C7": "a1 = 1 AND a3 = 3",
    }
    network, seen = watched(LINE)
    for number, (client, text) in enumerate(wanted.items()):
        subscription = Subscription(number, parse_predicate(SPACE, text), client)
        network.put(CLIENTS[client], Subscribed(SubscriptionBatch.of(subscription)))
    seen.clear()
    event = EventBatch.from_dicts(SPACE, [dict(zip(SPACE.names, (2, 1, 3, 2, 3), strict=True))])
    network.put("A", Published(event))
    crossed = [(broker, effect.link) for broker, effect in seen if isinstance(effect, Send)]
    delivered = [name for _, effect in seen if isinstance(effect, Deliver) for name, _ in effect.each()]
    assert crossed == [("A", "B"), ("B", "C"), ("C", "D")]
    assert delivered == ["C6"]
    router = network.routers["C"]
    assert isinstance(router, LinkMatching)
    at_c = router.annotated(SPACE)
    start = at_c.start("A")
    assert start is not None
    steps, result = explain_links(at_c.annotation, event, start.mask, 3)
    assert (steps[0].before, steps[0].after, result) == ("NMM", "NYM", "NYN")
    assert len(steps) == at_c.annotation.match_links(event, start.mask).steps[0], "told as it is done"


def test_virtual_links_split_a_link_of_a_cycle_and_copies_are_coalesced() -> None:
    """Footnote 2. Ring a-b-c-d and a tail d-e: from b, d is behind c for b's own events, and behind nobody for those of a."""
    ring = Topology.of("abcde", [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("d", "e")])
    links = VirtualLinks.at(ring, "b")
    behind = {broker: int(links.of[ring.number(broker)]) for broker in ring.brokers}
    assert behind["d"] == behind["e"], "whoever publishes, d and e are reached the same way"
    assert behind["c"] != behind["d"], "a's events for c may pass b, those for d never do"
    assert links.exits[ring.number("a"), behind["d"]] == -1
    network, seen = watched(ring)
    for number, broker in enumerate("cde"):
        subscription = Subscription(number, parse_predicate(SPACE, "a1 = 1"), f"client at {broker}")
        network.put(broker, Subscribed(SubscriptionBatch.of(subscription)))
    for origin in "abcde":
        seen.clear()
        network.put(origin, Published(EventBatch.from_dicts(SPACE, [{"a1": 1}], ids=[ord(origin)])))
        crossed = [(broker, e.link) for broker, e in seen if isinstance(e, Send) and isinstance(e.message, Publish)]
        assert len(crossed) == len(set(crossed)), "one copy over each physical link"
        delivered = sorted(name for _, effect in seen if isinstance(effect, Deliver) for name, _ in effect.each())
        assert delivered == ["client at c", "client at d", "client at e"]
