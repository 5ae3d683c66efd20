"""One period of subscription propagation, measured: by the paper's model, or by the real protocols with real bytes.

    model       `model`: expected values and equations
    real        the scenario `summaries`, whose subscriptions really cover each other. The routers of `summaries` and of
                `covering` tell them on; the baseline is what brokers send that tell everybody everything (`link-matching`)

Source: Triantafillou & Economides 2004, section 5.2.1 and 5.2.3. All subscriptions of a broker come at once, to brokers that
have none: that is what a period of `sigma` new ones costs.
Rule: bytes are those of the messages that carry subscriptions, frames included, on every link that they cross.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any, Final

from contentcast import catalog
from contentcast.experiments.contract import Row, Scale
from contentcast.experiments.routes import subscription_batches
from contentcast.experiments.summaries.model import SUBSUMPTIONS, by_broadcast, by_covering, by_summaries
from contentcast.experiments.summaries.setting import brokers_at, places, scenario_on
from contentcast.hosting.instant import Instant
from contentcast.matching.summaries import PAPER
from contentcast.model import SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Effect, Input, Send, Subscribed
from contentcast.routing.covering import Covering
from contentcast.routing.setup import Setup
from contentcast.routing.summaries import Summaries
from contentcast.wire import Interest, Message, message_bytes
from contentcast.wire.covering import Forwarded
from contentcast.wire.encodings.subscriptions import encode_subscriptions
from contentcast.wire.summaries import Propagated, encode_summary
from contentcast.workload import Scenario

SUMMARIES, COVERING, BASELINE = "summaries", "covering", "baseline"
APPROACHES: Final = (SUMMARIES, COVERING, BASELINE)
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    SUMMARIES: {},
    f"{SUMMARIES}, general rows": {"precision": PAPER},
    f"{SUMMARIES}, subsumption": {"subsumption": True},
}
"""Options of the routers: exact rows, rows as general as the paper's, and without what another subscription covers."""
FIGURES: Final = ("summaries/figure8", "summaries/figure9", "summaries/figure11")
"""They have the same rows."""
FEW: Final = (0.1, 0.5, 0.9)
REAL_SIGMAS: Final = (10, 100, 1000)
SEEDS: Final = 2


def plan(scale: Scale) -> list[Row]:
    """The first network in full; the others at one size. A real period of 1,000 takes half a minute and has one seed."""
    rows: list[Row] = []
    for number, place in enumerate(places(scale)):
        full = number == 0 and not scale.quick
        for subsumption in SUBSUMPTIONS if full else FEW:
            for sigma in (10, 100, 1000) if number == 0 else (100,):
                rows.append({**place, "way": "model", "sigma": sigma, "subsumption": subsumption, "seed": 0})
            for sigma in REAL_SIGMAS if full else (10,):
                if sigma > 100 and subsumption not in (FEW[0], FEW[-1]):
                    continue
                for seed in scale.seeds(SEEDS if full and sigma <= 100 else 1):
                    rows.append({**place, "way": "real", "sigma": sigma, "subsumption": subsumption, "seed": seed})
    return rows


def measure(where: str, links: str, way: str, sigma: int, subsumption: float, seed: int) -> list[dict[str, Any]]:
    topology = brokers_at(where, links)
    if way == "real":
        return real(topology, scenario_on(topology, seed=seed, subsumption=subsumption), sigma)
    found = {
        SUMMARIES: by_summaries(topology, sigma, subsumption),
        COVERING: by_covering(topology, sigma, subsumption),
        BASELINE: by_broadcast(topology, sigma),
    }
    return [
        {"approach": name, "bytes": each.bytes, "messages": each.hops, "hops": each.hops, "stored": each.stored}
        for name, each in found.items()
    ]


def real(topology: Topology, source: Scenario, sigma: int) -> list[dict[str, Any]]:
    batches = dict(subscription_batches(source, sigma * len(topology)))
    rows: list[dict[str, Any]] = []
    for name, options in VARIANTS.items():
        period = Period(topology, SUMMARIES, batches, **options)
        # A hop is a message here: a merged summary goes to one neighbour.
        rows.append({"approach": name, **period.row(), "hops": float(period.messages), "stored": period.stored()})
    period = Period(topology, COVERING, batches)
    rows.append({"approach": COVERING, **period.row(), "stored": period.stored()})
    everything = sum(len(encode_subscriptions(each)) for each in batches.values())
    baseline = Period(topology, "link-matching", batches)
    rows.append({"approach": BASELINE, **baseline.row(), "stored": float(everything * len(topology))})
    return rows


class Period:
    """Brokers of one protocol hear of their clients' subscriptions; the messages that tell others of them are counted.

    `crossings`: how often a subscription crossed a link by itself.
    """

    def __init__(self, topology: Topology, protocol: str, batches: dict[str, SubscriptionBatch], **options: Any) -> None:
        self.bytes = self.messages = self.crossings = 0
        self.sigma = sum(map(len, batches.values())) / len(topology)
        self.instant = Instant(topology, catalog.make_router(protocol, Setup(topology=topology), **options))
        self._await_the_next_period()
        self.instant.watch = self._watch
        self.instant.put_many([(broker, Subscribed(batch)) for broker, batch in batches.items()])

    def _await_the_next_period(self) -> None:
        """In the middle of a period some brokers have told theirs already, and others would tell what is new in two parts."""
        for router in self.instant.routers.values():
            if isinstance(router, Summaries):
                period_s = router.propagation.period_s
                self.instant.now = ceil(self.instant.now / period_s) * period_s

    def _watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(_, Forwarded(added=added) as told) if added or told.removed:
                    self._count(told, (batch for _, batch in added))
                case Send(_, Interest(added=batches) as told):
                    self._count(told, batches)
                case Send(_, Propagated() as told):
                    self._count(told, ())

    def _count(self, told: Message, batches: Iterable[SubscriptionBatch]) -> None:
        self.bytes += message_bytes(told)
        self.messages += 1
        self.crossings += sum(map(len, batches))

    def row(self) -> dict[str, float]:
        """`hops`: those of one subscription of every broker, as the paper counts them."""
        return {"bytes": float(self.bytes), "messages": float(self.messages), "hops": self.crossings / self.sigma}

    def stored(self) -> float:
        """What all brokers keep, as bytes of the form in which it travels: known subscriptions, or merged summaries."""
        stored = 0
        for router in self.instant.routers.values():
            if isinstance(router, Covering):
                stored += sum(len(encode_subscriptions(batch)) for _, batch in router.passing.known())
            elif isinstance(router, Summaries):
                stored += sum(len(encode_summary(each)) for each in router.propagation.columns().values())
        return float(stored)
