"""Figure 7 and Example 3 of Triantafillou & Economides 2004 (sections 4.2 and 4.3), set by set and step by step."""

from __future__ import annotations

from contentcast.catalog import make_router
from contentcast.hosting.instant import Instant
from contentcast.language import subscription
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Deliver, Effect, Input, Published, Send, SendTo, Subscribed
from contentcast.routing.setup import Setup
from contentcast.routing.summaries import Degrees
from contentcast.wire import Publish
from contentcast.wire.summaries import Handed, Propagated

LINKS = "1-2 2-5 3-5 4-5 6-5 5-7 7-8 8-9 8-10 10-11 11-12 11-13"
FIGURE_7 = Topology.of([str(number) for number in range(1, 14)], [tuple(link.split("-")) for link in LINKS.split()])
LEAVES = {"1": "2", "3": "5", "4": "5", "6": "5", "9": "8", "12": "11", "13": "11"}
"""Each with its only neighbour."""
TRADES = Space("trades", symbol="string", price="float")


class Story:
    """All brokers of figure 7, and what they sent: summaries (from, to, Merged_Brokers), events (from, to, BROCLI)."""

    def __init__(self, **options: object) -> None:
        self.summaries: list[tuple[str, str, set[str]]] = []
        self.events: list[tuple[str, str, set[str]]] = []
        self.delivered: list[tuple[str, int]] = []
        self.network = Instant(FIGURE_7, make_router("summaries", Setup(topology=FIGURE_7), **options), self.watch)

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(link, Propagated(brokers)):
                    self.summaries.append((broker, link, {each.name for each in brokers}))
                case SendTo(other, Handed(_, Publish(header=header))):
                    self.events.append((broker, other, set(header.checked)))
                case Deliver():
                    self.delivered += [(who, each) for who, events in effect.each() for each in events.ids.to_pylist()]

    def subscribe(self, broker: str, number: int, text: str) -> None:
        wish = SubscriptionBatch.of(subscription(TRADES, number, text, subscriber=f"client of {broker}"))
        self.network.put(broker, Subscribed(wish))

    def publish(self, broker: str, number: int, **event: object) -> None:
        self.events.clear()
        self.delivered.clear()
        self.network.put(broker, Published(EventBatch.from_dicts(TRADES, [event], ids=[number])))


def brokers(text: str) -> set[str]:
    return set(text.split())


def test_figure_7_propagation() -> None:
    """Section 4.2: what each broker sends to whom, in the order of the iterations, with its set Merged_Brokers."""
    story = Story()
    by_degree = sorted(story.summaries, key=lambda sent: (FIGURE_7.degree(sent[0]), int(sent[0])))
    assert by_degree == [
        *[(leaf, onto, {leaf}) for leaf, onto in LEAVES.items()],
        ("2", "5", brokers("1 2")),
        ("7", "8", brokers("7")),  # the paper: to 5 or 8; the smallest degree comes first
        ("10", "8", brokers("10")),  # to 8 or 11, of equal degree; the tie is fixed
    ]
    iterations = [FIGURE_7.degree(sender) for sender, _, _ in story.summaries]
    assert iterations == sorted(iterations), "nobody sends before those of lower degrees"
    merged = {broker: set(router.state()["merged"]) for broker, router in story.network.routers.items()}
    assert merged["5"] == brokers("1 2 3 4 5 6")
    assert merged["8"] == brokers("7 8 9 10")
    assert merged["11"] == brokers("11 12 13")
    assert merged["2"] == brokers("1 2")
    for alone in [*LEAVES, "7", "10"]:
        assert merged[alone] == {alone}


def test_the_sets_follow_from_the_degrees() -> None:
    degrees = Degrees(FIGURE_7)
    assert max(degrees.degree.values()) == degrees.degree["5"] == 5
    assert degrees.iterations == 4, "degrees 1, 2, 3 and 5; nobody has anything to do in iteration 4"
    assert degrees.carried["2"] == brokers("1 2")
    assert degrees.target["5"] is degrees.target["8"] is degrees.target["11"] is None


def test_example_3_routing() -> None:
    """Section 4.3: an event at 1 that matches 4, 8 and 13 travels 1-5, 5-4, 5-8, 8-11 and 11-13."""
    story = Story()
    for number, broker in enumerate(FIGURE_7.brokers):
        story.subscribe(broker, number, "symbol = 'OTE' AND price < 9" if broker in ("4", "8", "13") else "symbol = 'IBM'")
    story.publish("1", 1, symbol="OTE", price=8.4)
    assert story.events == [
        ("1", "5", brokers("1")),
        ("5", "4", set()),  # the owner of a subscription that may match: no list
        ("5", "8", brokers("1 2 3 4 5 6")),
        ("8", "11", brokers("1 2 3 4 5 6 7 8 9 10")),
        ("11", "13", set()),
    ]
    assert sorted(story.delivered) == [("client of 13", 1), ("client of 4", 1), ("client of 8", 1)]


def test_a_period_tells_only_what_is_new() -> None:
    story = Story()
    story.summaries.clear()
    story.subscribe("1", 1, "price < 9")
    assert story.summaries == [("1", "2", {"1"}), ("2", "5", {"1"})]
    story.summaries.clear()
    story.subscribe("5", 2, "price < 9")
    assert story.summaries == [], "the broker of the highest degree keeps it to itself"


def test_side_by_side_the_same_examiners_are_asked_at_once() -> None:
    """Beyond the paper: broker 1 divides the list between 5, 8 and 11."""
    story = Story(side_by_side=True)
    for number, broker in enumerate(("4", "8", "13")):
        story.subscribe(broker, number, "price < 9")
    story.publish("1", 1, price=8.4)
    everybody = set(FIGURE_7.brokers)
    assert story.events == [
        ("1", "5", everybody - brokers("2 3 4 5 6")),
        ("1", "8", everybody - brokers("7 8 9 10")),
        ("1", "11", everybody - brokers("11 12 13")),
        ("5", "4", set()),
        ("11", "13", set()),
    ]
    assert len(story.delivered) == 3
