"""One snapshot out of what brokers say: rates by their own clocks, links that are down, and brokers that say nonsense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from contentcast.live.client.watching import Look, per_second
from contentcast.web.snapshot import KEEP_LINK_S, MOST_SUBSCRIPTIONS, Snapshots

HOSTILE = "<img src=x onerror=alert(1)>"


def link(events_out: int = 0, **told: Any) -> dict[str, Any]:
    found = {"events_out": events_out, "passing": {"per_s": 0.0}, "delay": {}, "delay_ms": 1.0, "queued_bytes": 0}
    return found | {"messages_out": events_out} | told


def client(name: str, **told: Any) -> dict[str, Any]:
    return {"name": name, "queued_bytes": 0, "missed": 0, "paused": False} | told


def state(up_s: float, links: Mapping[str, Any] | None = None, **told: Any) -> dict[str, Any]:
    """What `looking/inspection.state` tells, as far as the page needs it."""
    counts = dict.fromkeys(("published", "received", "sent", "delivered", "missed", "failures", "subscriptions"), 0)
    lists: dict[str, Any] = {"clients": [], "client_count": len(told.get("clients", ())), "spaces": [], "brokers": []}
    fixed = {"ready": True, "protocol": "link-matching", "up_s": up_s, "memory_bytes": 1, "by_space": {}, "dialling": {}}
    return counts | lists | fixed | {"links": dict(links or {})} | told


def look(name: str, told: Mapping[str, Any] | None, problem: str = "", **more: Any) -> Look:
    return Look(f"contentcast://127.0.0.1:{ord(name)}", name, told, problem, **more)


def down(name: str) -> Look:
    return look(name, None, "no broker answers")


def row(made: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    (found,) = [each for each in made["brokers"] if each["name"] == name]
    return found  # type: ignore[no-any-return]


def test_rates_are_by_the_brokers_own_clock() -> None:
    snapshots = Snapshots()
    first = state(10.0, published=100, by_space={"trades": {"published": {"per_s": 7.0}}})
    assert row(snapshots.make([look("a", first)], 0.0), "a")["published_per_s"] == 7.0, "at first what it calls lately"
    made = snapshots.make([look("a", state(12.0, published=300, received=40, delivered=50, sent=10))], 100.0)
    told = row(made, "a")
    assert (told["published_per_s"], told["delivered_per_s"]) == (100.0, 25.0)
    assert (told["events_in_per_s"], told["events_out_per_s"]) == (120.0, 5.0)
    assert made["totals"]["published_per_s"] == 100.0


def test_a_broker_that_has_started_again_has_no_rate_below_zero() -> None:
    assert per_second(state(2.0, published=10), state(500.0, published=9_000), "published") == 5.0
    assert per_second(state(3.0, {"b": link(5)}), state(2.0, {"b": link(50)}), "links", "b", "events_out") == 0.0
    assert per_second(state(3.0), state(3.0), "published") is None


def test_rates_begin_anew_when_nobody_has_looked_for_long() -> None:
    snapshots = Snapshots()
    snapshots.make([look("a", state(10.0, published=100))], 0.0)
    snapshots.forget_rates()
    lately = {"trades": {"published": {"per_s": 3.0}}}
    made = snapshots.make([look("a", state(3_610.0, published=1_000_000, by_space=lately))], 3_600.0)
    assert row(made, "a")["published_per_s"] == 3.0


def test_a_link_has_a_flow_from_each_end_that_tells_of_it() -> None:
    snapshots = Snapshots()
    snapshots.make([look("a", state(1.0, {"b": link(0)})), look("b", state(1.0, {"a": link(0)}))], 0.0)
    made = snapshots.make([look("a", state(2.0, {"b": link(30)})), look("b", state(2.0, {"a": link(4)}))], 1.0)
    (found,) = made["links"]
    assert (found["one"], found["other"], found["status"]) == ("a", "b", "up")
    assert [(each["from"], each["to"], each["per_s"]) for each in found["flows"]] == [("a", "b", 30.0), ("b", "a", 4.0)]


def test_what_was_there_is_down_and_a_link_is_forgotten_after_a_while() -> None:
    snapshots = Snapshots()
    both = [look("a", state(1.0, {"b": link()})), look("b", state(1.0, {"a": link()}))]
    assert snapshots.make(both, 0.0)["totals"]["links_up"] == 1
    made = snapshots.make([look("a", state(2.0)), down("b")], 1.0)
    (lost,) = made["links"]
    assert (lost["status"], lost["problem"]) == ("down", "b cannot be reached")
    assert row(made, "b")["problem"] == "no broker answers"
    assert (made["totals"]["brokers"], made["totals"]["brokers_up"]) == (2, 1)
    without = [look("a", state(3.0)), look("b", state(3.0))]
    assert snapshots.make(without, 2.0)["links"][0]["problem"] == "neither end has it"
    assert snapshots.make(without, KEEP_LINK_S + 2.0)["links"] == []


def test_links_of_a_network_file_are_always_shown() -> None:
    made = Snapshots(["a", "b"], [("b", "a")]).make([look("a", state(1.0))], 10 * KEEP_LINK_S)
    assert [(each["one"], each["other"], each["status"]) for each in made["links"]] == [("a", "b", "down")]
    assert row(made, "b")["status"] == "unwatched"


def test_a_neighbour_that_is_dialled_in_vain_is_a_link_with_the_reason() -> None:
    refused = {"contentcast://127.0.0.1:98": "refused: another protocol", "contentcast://127.0.0.1:99": "linked to c"}
    made = Snapshots().make([look("a", state(1.0, dialling=refused)), look("b", state(1.0)), look("c", state(1.0))], 0.0)
    assert [(each["one"], each["other"], each["problem"]) for each in made["links"]] == [
        ("a", "b", "refused: another protocol")
    ]


def test_a_broker_that_is_silent_shows_what_it_said_last() -> None:
    snapshots = Snapshots()
    snapshots.make([look("a", state(1.0, subscriptions=5))], 0.0)
    made = snapshots.make([look("a", state(1.0, subscriptions=5), "no answer for 1.0 s", waiting_s=1.0)], 1.0)
    told = row(made, "a")
    assert (told["status"], told["problem"], told["subscriptions"]) == ("silent", "no answer for 1.0 s", 5)
    first = snapshots.make([look("b", None, "no answer for 1.0 s", waiting_s=1.0)], 1.0)
    assert row(first, "b")["status"] == "silent", "it has a moment to answer"
    late = snapshots.make([look("b", None, "no answer for 5.0 s", waiting_s=5.0)], 1.0)
    assert row(late, "b")["status"] == "down"


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        {"links": 5},
        {"subscriptions": "many"},
        {"clients": [HOSTILE]},
        {"up_s": None},
        {"by_space": {"x": {"published": 1}}},
    ],
)
def test_a_broker_that_says_nonsense_is_shown_as_one_and_the_others_as_they_are(nonsense: dict[str, Any]) -> None:
    snapshots = Snapshots()
    told = (state(1.0) | nonsense) if nonsense else {}
    made = snapshots.make([look("a", told), look("b", state(1.0))], 0.0)
    assert row(made, "a")["status"] == "down"
    assert row(made, "a")["problem"].startswith("what it says cannot be read")
    assert row(made, "b")["status"] == "up"


def test_slow_clients_of_all_brokers_the_slowest_first_without_the_page_itself() -> None:
    clients = [client("desk-7", queued_bytes=10), client("quick"), client(HOSTILE, missed=3), client("web-1", queued_bytes=99)]
    there = state(1.0, clients=clients)
    other = state(1.0, clients=[client("desk-9", queued_bytes=500, paused=True)])
    made = Snapshots().make([look("a", there, own="web-1"), look("b", other)], 0.0)
    assert [(each["broker"], each["client"]) for each in made["slow"]] == [("b", "desk-9"), ("a", "desk-7"), ("a", HOSTILE)]
    assert made["totals"]["clients"] == 4
    assert made["totals"]["backlog_bytes"] == 510


def test_of_a_space_events_are_added_and_the_slowest_broker_counts() -> None:
    one = {"trades": {"published": {"per_s": 2.0, "p50_ms": 1.0, "p99_ms": 5.0}}}
    other = {"trades": {"published": {"per_s": 3.0, "p50_ms": 4.0, "p99_ms": 4.0}}}
    told = [look("a", state(1.0, by_space=one, spaces=["trades", "logs"])), look("b", state(1.0, by_space=other))]
    logs, trades = Snapshots().make(told, 0.0)["spaces"]
    assert logs == {"name": "logs"}
    assert trades == {"name": "trades", "published_per_s": 5.0, "published_p50_ms": 4.0, "published_p99_ms": 5.0}


def counted(id: int, accepted: int) -> dict[str, Any]:
    found = {"id": id, "client": f"desk-{id}", "space": "trades", "predicate": "TRUE", "accepted": accepted}
    return found if accepted else found | {"never": "no event"}


def test_subscriptions_that_never_matched_stand_first_and_stay_between_two_counts() -> None:
    snapshots = Snapshots()
    told = [counted(2**62 + 1, 5), counted(2**62, 0)]
    counting = snapshots.make([look("a", state(1.0, counted=told, never_matched=[]))], 0.0)
    assert [(each["id"], each["never"]) for each in counting["subscriptions"]] == [
        ("4611686018427387904", "no event"),
        ("4611686018427387905", ""),
    ]
    assert snapshots.make([look("a", state(2.0))], 1.0)["subscriptions"] == counting["subscriptions"]
    many = [counted(at, 1) for at in range(MOST_SUBSCRIPTIONS + 50)]
    made = snapshots.make([look("a", state(3.0, counted=many, never_matched=[]))], 2.0)
    assert (len(made["subscriptions"]), made["subscription_count"]) == (MOST_SUBSCRIPTIONS, MOST_SUBSCRIPTIONS + 50)
    assert len(snapshots.counted()) == MOST_SUBSCRIPTIONS + 50


def test_brokers_have_places_that_stay_and_those_without_a_link_stand_below() -> None:
    snapshots = Snapshots()
    pair = [look("a", state(1.0, {"b": link()})), look("b", state(1.0, {"a": link()})), look("c", state(1.0))]
    made = snapshots.make(pair, 0.0)
    places = {each["name"]: (each["x"], each["y"]) for each in made["brokers"]}
    assert len(set(places.values())) == 3
    assert places["c"][1] == 1.0 > max(places["a"][1], places["b"][1])
    again = snapshots.make([pair[0], down("b"), pair[2]], 1.0)
    assert {each["name"]: (each["x"], each["y"]) for each in again["brokers"]} == places
    circle = Snapshots().make([look(name, state(1.0)) for name in "abcd"], 0.0)["brokers"]
    assert len({(each["x"], each["y"]) for each in circle}) == 4


def test_a_broker_that_claims_a_link_to_itself_or_to_nobody_draws_none() -> None:
    assert Snapshots().make([look("a", state(1.0, {"a": link(), "": link()}))], 0.0)["links"] == []


def test_a_broker_that_has_its_own_address_among_its_neighbours_draws_no_link_and_the_picture_is_there() -> None:
    told = state(1.0, dialling={"contentcast://127.0.0.1:97": "refused: this is the broker itself"})
    made = Snapshots().make([look("a", told), look("b", state(1.0))], 0.0)
    assert made["links"] == []
    assert [(each["name"], each["status"]) for each in made["brokers"]] == [("a", "up"), ("b", "up")]


def test_a_space_whose_times_are_told_without_a_rate_takes_nothing_from_the_others() -> None:
    one = {"trades": {"published": {"p50_ms": 1.0}}}
    other = {"trades": {"published": {"per_s": 3.0}}}
    made = Snapshots().make([look("a", state(1.0, by_space=one)), look("b", state(1.0, by_space=other))], 0.0)
    assert made["spaces"] == [{"name": "trades", "published_per_s": 3.0, "published_p50_ms": 1.0}]


def test_subscriptions_of_a_broker_that_has_another_name_now_are_forgotten() -> None:
    """The question why would name them among those who miss an event."""
    snapshots = Snapshots()
    snapshots.make([look("a", state(1.0, counted=[counted(1, 0)], never_matched=[]))], 0.0)
    made = snapshots.make([look("b", state(1.0, counted=[counted(2, 0)], never_matched=[]))], 1.0)
    assert [each["id"] for each in snapshots.counted()] == ["2"] == [each["id"] for each in made["subscriptions"]]
