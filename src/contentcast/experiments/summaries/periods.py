"""One period of subscription propagation, measured: by the paper's model, or with real subscriptions and real bytes.

    model       `model`: expected values and equations
    real        the scenario `summaries`, whose subscriptions really cover each other. The routers of `covering` tell them on
                hop by hop. The baseline is what brokers send that tell everybody everything (the topic of `interest`).
                Summaries are built and merged as Algorithm 2 says, and written as they travel (`wire.summaries`)

Source: Triantafillou & Economides 2004, section 5.2.1 and 5.2.3. All subscriptions of a broker come at once.
Rule: bytes are those of the messages that carry subscriptions, frames included, on every link that they cross.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from contentcast import catalog
from contentcast.experiments.contract import Row, Scale
from contentcast.experiments.routes import subscription_batches
from contentcast.experiments.summaries.model import SUBSUMPTIONS, by_broadcast, by_covering, by_summaries, propagate
from contentcast.hosting.instant import Instant
from contentcast.matching.summaries import EXACT, PAPER, Precision, Summary
from contentcast.model import SubscriptionBatch
from contentcast.network.named import network, placed
from contentcast.network.topology import Topology
from contentcast.routing.contract import Effect, Input, Send, Subscribed
from contentcast.routing.covering import Covering
from contentcast.routing.setup import Setup
from contentcast.wire import Interest, message_bytes
from contentcast.wire.covering import Forwarded
from contentcast.wire.encodings.subscriptions import encode_subscriptions
from contentcast.wire.framing import FRAME_HEADER_BYTES
from contentcast.wire.summaries import encode_summary
from contentcast.workload import Scenario

SUMMARIES, COVERING, BASELINE = "summaries", "covering", "baseline"
APPROACHES: Final = (SUMMARIES, COVERING, BASELINE)
NETWORKS: Final = ("cable-wireless-24", "gryphon-39", "tree:2x5", "random:24x30")
PRECISIONS: Final[dict[str, Precision]] = {"exact": EXACT, "paper": PAPER}


def plan(scale: Scale) -> list[Row]:
    """The paper's network in full; the others at one size. Real periods of 1,000 take minutes and have three degrees."""
    rows: list[Row] = []
    networks = NETWORKS[:1] if scale.quick else NETWORKS
    for where in networks:
        main = where == NETWORKS[0]
        for subsumption in SUBSUMPTIONS if main and not scale.quick else (0.1, 0.5, 0.9):
            for sigma in (10, 100, 1000) if main else (100,):
                rows.append({"where": where, "way": "model", "sigma": sigma, "subsumption": subsumption, "seed": 0})
            sigmas = (10,) if scale.quick else (10, 30, 100) if main else (30,)
            for sigma in sigmas:
                for seed in scale.seeds(1):
                    rows.append({"where": where, "way": "real", "sigma": sigma, "subsumption": subsumption, "seed": seed})
    return rows


def measure(where: str, way: str, sigma: int, subsumption: float, seed: int) -> list[dict[str, Any]]:
    topology = network(where)
    if way == "model":
        found = {
            SUMMARIES: by_summaries(topology, sigma, subsumption),
            COVERING: by_covering(topology, sigma, subsumption),
            BASELINE: by_broadcast(topology, sigma),
        }
        return [
            {"approach": name, "bytes": each.bytes, "hops": each.hops, "stored": each.stored, "messages": each.hops}
            for name, each in found.items()
        ]
    source = placed("summaries", topology, seed=seed, subsumption=subsumption)
    return real(topology, source, sigma)


def real(topology: Topology, source: Scenario, sigma: int) -> list[dict[str, Any]]:
    batches = dict(subscription_batches(source, sigma * len(topology)))
    told_on, stored = _told_on(topology, batches)
    everything = sum(len(encode_subscriptions(each)) for each in batches.values())
    return [
        {"approach": SUMMARIES, **_summaries(topology, batches, EXACT)},
        {"approach": f"{SUMMARIES}, general rows", **_summaries(topology, batches, PAPER)},
        {"approach": COVERING, **told_on, "stored": stored},
        {"approach": BASELINE, **_broadcast(topology, batches), "stored": float(everything * len(topology))},
    ]


class Tally:
    """Messages that carry subscriptions, their bytes, and how often a subscription crossed a link."""

    def __init__(self) -> None:
        self.bytes = self.messages = self.crossings = 0

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(_, Forwarded(added=added) as told) if added or told.removed:
                    self.count(told, (batch for _, batch in added))
                case Send(_, Interest(added=batches) as told):
                    self.count(told, batches)

    def count(self, told: Forwarded | Interest, batches: Iterable[SubscriptionBatch]) -> None:
        self.bytes += message_bytes(told)
        self.messages += 1
        self.crossings += sum(map(len, batches))

    def row(self, sigma: float) -> dict[str, float]:
        """`hops`: those of one subscription of every broker, as the paper counts them."""
        return {"bytes": float(self.bytes), "messages": float(self.messages), "hops": self.crossings / sigma}


def _sigma(batches: dict[str, SubscriptionBatch], topology: Topology) -> float:
    return sum(map(len, batches.values())) / len(topology)


def _told_on(topology: Topology, batches: dict[str, SubscriptionBatch]) -> tuple[dict[str, float], float]:
    tally = Tally()
    instant = Instant(topology, catalog.make_router(COVERING, Setup(topology=topology)))
    instant.watch = tally.watch
    for broker, batch in batches.items():
        instant.put(broker, Subscribed(batch))
    stored = 0
    for router in instant.routers.values():
        assert isinstance(router, Covering)
        stored += sum(len(encode_subscriptions(batch)) for _, batch in router.passing.known())
    return tally.row(_sigma(batches, topology)), float(stored)


def _broadcast(topology: Topology, batches: dict[str, SubscriptionBatch]) -> dict[str, float]:
    tally = Tally()
    instant = Instant(topology, catalog.make_router("link-matching", Setup(topology=topology)))
    instant.watch = tally.watch
    for broker, batch in batches.items():
        instant.put(broker, Subscribed(batch))
    return tally.row(_sigma(batches, topology))


def _summaries(topology: Topology, batches: dict[str, SubscriptionBatch], precision: Precision) -> dict[str, float]:
    space = next(iter(batches.values())).space
    kept: dict[str, Summary] = {}
    for broker in topology.brokers:
        kept[broker] = Summary(space, precision=precision)
        if broker in batches:
            kept[broker].add(broker, batches[broker].ids, batches[broker].table)
    messages = propagate(topology).told
    sent = 0
    for told in messages:
        sent += len(encode_summary(kept[told.sender].columns())) + 1 + FRAME_HEADER_BYTES
        kept[told.receiver].merge(kept[told.sender])
    stored = sum(len(encode_summary(each.columns())) for each in kept.values())
    hops = float(len(messages))
    return {"bytes": float(sent), "messages": hops, "hops": hops, "stored": float(stored)}
