"""The network drawn: every link and broker once, apart from each other, and the same picture each time."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from contentcast.network.named import network
from contentcast.network.picture import HEIGHT, WIDTH, draw, places
from contentcast.network.topology import Topology

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", ["gryphon-39", "cable-wireless-24", "line:6", "star:40", "ring:9", "random:100"])
def test_brokers_are_apart_and_links_are_short(name: str) -> None:
    topology = network(name)
    at = places(topology)
    assert np.isfinite(at).all()
    assert at.min() >= 0
    assert at.max() <= 1
    apart = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2))
    np.fill_diagonal(apart, np.inf)
    assert apart.min() > 0.002, "no two brokers on one place"
    linked = [apart[topology.number(link.one), topology.number(link.other)] for link in topology.links]
    others = apart[np.isfinite(apart)]
    assert np.mean(linked) < np.mean(others), "neighbours stand nearer than others"


def test_the_picture_says_what_it_was_told() -> None:
    topology = Topology.of(["a", "b<c"], [("a", "b<c", 0.025)])
    drawn = draw(topology, {("a", "b<c"): 3000.0, ("b<c", "a"): 200.0}, {"a": 7.0}, unit="bytes", title="two & no more")
    root = ElementTree.fromstring(drawn)
    assert root.get("aria-label") == "two & no more"
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert titles == ["a - b<c: 3,200 bytes, 25 ms", "a: 7 steps", "b<c: 0 steps"]
    assert [each.text for each in root.findall(f"{SVG}text")] == ["a", "b<c"]
    for circle in root.findall(f"{SVG}circle"):
        assert 0 < float(circle.get("cx", "")) < WIDTH
        assert 0 < float(circle.get("cy", "")) < HEIGHT
    assert drawn == draw(topology, {("a", "b<c"): 3000.0, ("b<c", "a"): 200.0}, {"a": 7.0}, unit="bytes", title="two & no more")


def test_networks_of_one_broker_and_in_parts() -> None:
    assert places(Topology.of(["a"])).tolist() == [[0.5, 0.5]]
    parts = Topology.of("abcd", [("a", "b"), ("c", "d")])
    assert np.isfinite(places(parts)).all()
    assert draw(parts, {}, {}).count("<line") == 3, "two links and the legend's"
