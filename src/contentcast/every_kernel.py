"""Calls every kernel, so that it is compiled and cached: `python -m contentcast.every_kernel PART` (see `warming.parts`).

Rule: whoever adds a kernel sees to it that a part calls it, in every signature that it is used in. A test holds this to be
true: after all parts an index and every protocol compile nothing.
It prints a line for each kernel that it compiled, for the process that started it, and ends when that one does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any, Final

from contentcast.kernels import cache  # first: it tells Numba where compiled kernels are
from contentcast.warming.parts import WITH_TREES, uses_index


def compile_matching() -> None:
    """The two largest kernels, by their signatures: called, they would need an index, which the part `building` compiles."""
    from numba import boolean, int64

    from contentcast.matching.index.matching.kernel_call import match_many, match_one

    line = int64[::1]
    match_many.compile((int64, int64, int64, int64, line, line, boolean, line))
    match_one.compile((int64,))


def build_indexes() -> None:
    from contentcast.warming.loading import build_index_kernels

    build_index_kernels()
    wanted, _ = _market()
    index = _index(wanted)
    index.add(10**6, "venue LIKE '%dark%' AND price = 8.5")
    index.remove_many(list(index)[:3])


def use_indexes() -> None:
    import pyarrow as pa

    import contentcast as cc
    from contentcast.matching.index.values.list_filing import find_lists
    from contentcast.matching.index.values.text_pieces import Pieces, joined
    from contentcast.model.values.kinds import KINDS
    from contentcast.warming.loading import load_index_kernels

    load_index_kernels()
    wanted, records = _market()
    index = _index(wanted)
    _use(index, records)
    index.add(0, "venue LIKE '%dark%' AND price = 8.5")
    _use(index, records)
    find_lists(Pieces(), KINDS["string"], *joined([b"\0\0\0\0"]), 0)
    small = cc.MatchIndex(cc.Space("small", a="int", b="int", price="float"))
    small.add_many(range(300), [f"a = {number % 3} AND b = {number % 4}" for number in range(300)])
    for number in range(40):  # each halves the same gap between order codes, until all are given anew
        small.add(300 + number, f"price < {2.0**-number!r}")
    with tempfile.TemporaryDirectory() as folder:
        small.save(Path(folder) / "index")
        for each in (small, cc.MatchIndex.load(Path(folder) / "index")):
            _use(each, pa.record_batch({"a": [1, 2], "b": [1, 0], "price": [0.5, None]}))


def _use(index: Any, records: Any) -> None:
    index.match_batch(records)
    index.match_batch(records, threads=2)
    index.match(records.slice(0, 1).to_pylist()[0])
    index.remove_many(list(index)[:3])


def grow_trees() -> None:
    from contentcast.routing.audience import Forest

    _route(("link-matching-paper",), Forest())


def summarize() -> None:
    from contentcast.language import parse_many
    from contentcast.matching.summaries import Precision, Summary
    from contentcast.model import EventBatch

    wanted, records = _market()
    space = _scenario().space
    summary = Summary(space, precision=Precision(rows=4), subsumption=True)
    summary.add("a", wanted["subscription"].to_numpy(), parse_many(space, wanted["predicate"]))
    events = EventBatch.from_arrow(space, records)
    for batch in (events, events.take([0])):
        summary.match(batch)


def route_and_count() -> None:
    from contentcast import catalog
    from contentcast.routing.audience import Forest

    _route(tuple(catalog.PROTOCOLS), Forest())
    _replay()


def _replay() -> None:
    """The queues of the experiments."""
    import numpy as np

    from contentcast.experiments.replay import replay
    from contentcast.experiments.routes import Network
    from contentcast.hosting.costs import PAPER_FAST
    from contentcast.network.named import network

    brokers = Network(network("gryphon-39"), _scenario(), "flooding", 20)
    replay(brokers.route(3), np.arange(3.0), PAPER_FAST)


def route_by_index() -> None:
    from contentcast import catalog

    _route(tuple(each for each in catalog.PROTOCOLS if each not in WITH_TREES), None)


def route() -> None:
    _route(tuple(sorted(WITH_TREES)), None)


def _route(protocols: tuple[str, ...], forest: Any) -> None:
    """Some subscriptions and events through brokers of each protocol: with search trees, that count steps, or without."""
    from contentcast import catalog
    from contentcast.hosting.instant import Instant
    from contentcast.language import parse_many
    from contentcast.model import EventBatch, SubscriptionBatch
    from contentcast.network.named import network
    from contentcast.routing.contract import Published, Subscribed
    from contentcast.routing.setup import Setup

    topology = network("gryphon-39")
    wanted, records = _market(100)
    space = _scenario().space
    predicates, events = parse_many(space, wanted["predicate"]), EventBatch.from_arrow(space, records)
    for name in protocols:
        setup = Setup(topology=topology, forest=forest) if forest is not None else Setup(topology=topology, count_steps=False)
        brokers = Instant(topology, catalog.make_router(name, setup))
        numbers = wanted["subscription"].to_numpy()
        subscriptions = SubscriptionBatch.columns(numbers, predicates, wanted["subscriber"].to_pylist())
        brokers.put(topology.brokers[0], Subscribed(subscriptions))
        for batch in (events, events.take([0])):
            brokers.put(topology.brokers[1], Published(batch))


def _scenario() -> Any:
    from contentcast.network.named import network, placed

    return placed("market", network("gryphon-39"))


def _market(count: int = 500) -> tuple[Any, Any]:
    drawn = _scenario()
    return drawn.subscriptions(count), drawn.events(50)


def _index(wanted: Any) -> Any:
    import contentcast as cc

    index = cc.MatchIndex(_scenario().space)
    index.add_many(wanted["subscription"], wanted["predicate"])
    return index


PARTS: Final = {
    "matching": compile_matching,
    "building": build_indexes,
    "search-tree": grow_trees,
    "summaries": summarize,
    "index": use_indexes,
    "counted-routing": route_and_count,
    "indexed-routing": route_by_index,
    "routing": route,
}


def main(part: str, *options: str) -> None:
    if "--quietly" in options and hasattr(os, "nice"):
        os.nice(10)
    Thread(target=_end_with_parent, daemon=True).start()
    _print_kernels()
    _save_one_by_one()
    from contentcast.warming.background import kernels

    kernels.ready = uses_index(part)  # then every index here, however small, is one with kernels
    PARTS[part]()
    cache.set_mark(part)


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not by sys.stdin, which a thread may not hold when Python ends
        pass
    os._exit(1)


def _print_kernels() -> None:
    from numba.core import event

    class Printing(event.Listener):
        def on_start(self, event: Any) -> None:
            pass

        def on_end(self, event: Any) -> None:
            if event.data["dispatcher"].__module__.startswith("contentcast."):
                print(event.data["dispatcher"].__name__, flush=True)

    event.register("numba:compile", Printing())  # type: ignore[no-untyped-call]


def _save_one_by_one() -> None:
    """Several processes fill the cache. Numba reads a function's list of what is compiled, adds to it and writes it again: two
    that do so at the same moment would give one name to two things.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    from numba.core.caching import IndexDataCacheFile

    save = IndexDataCacheFile.save

    def save_alone(self: Any, key: Any, data: Any) -> None:
        with (cache.folder() / "saving").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            save(self, key, data)  # type: ignore[no-untyped-call]

    IndexDataCacheFile.save = save_alone  # type: ignore[method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])
