"""Strings and mixed kinds: how many nodes a subscription and an event go to when attributes are not ints of a known domain.

Source: left out by Baldoni et al. 2005, who have integer ranges alone. Four kinds of workload over the same ring: the paper's
ints; strings by equality; strings by prefix; mixed kinds (string, float without a domain, bool, int), some of them left out.
Rule: the share of (event, subscription) pairs that match and meet at a node is 1: the mapping intersection rule, counted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.setting import NODES
from contentcast.experiments.overlay.tables import lines, mean, summary
from contentcast.experiments.rows import floats
from contentcast.language.bulk import parse_many
from contentcast.match_index import MatchIndex
from contentcast.model import Attribute, EventBatch, Space
from contentcast.routing.chord.model import RingModel
from contentcast.routing.overlay.mappings import MAPPINGS, KeyMapping

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS: Final = 32
KINDS: Final = ("ints", "strings", "prefixes", "mixed")
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
SPACES: Final = {
    "ints": Space("ints", {name: Attribute("int", low=0, high=1_000_000) for name in ("a1", "a2", "a3", "a4")}),
    "strings": Space("names", {"host": Attribute("string"), "service": Attribute("string"), "level": Attribute("int")}),
    "prefixes": Space("paths", {"path": Attribute("string"), "level": Attribute("int")}),
    "mixed": Space(
        "mixed",
        {"name": Attribute("string"), "price": Attribute("float"), "open": Attribute("bool"), "count": Attribute("int")},
    ),
}


def plan(scale: Scale) -> list[Row]:
    count = 300 if scale.quick else 3_000
    return [
        {"kind": kind, "mapping": mapping, "count": count, "seed": seed}
        for kind in KINDS
        for mapping in MAPPINGS
        for seed in scale.seeds(1)
    ]


def _word(dice: np.random.Generator, length: int) -> str:
    return "".join(LETTERS[each] for each in dice.integers(0, len(LETTERS), length))


def _texts(kind: str, count: int, dice: np.random.Generator, words: list[str]) -> list[str]:
    def one() -> str:
        word = words[int(dice.zipf(1.5)) % len(words)]
        low = int(dice.integers(0, 970_000))
        match kind:
            case "ints":
                lows = dice.integers(0, 970_000, 4).tolist()
                return " AND ".join(f"a{at + 1} BETWEEN {each} AND {each + 30_000}" for at, each in enumerate(lows))
            case "strings":
                return f"host = '{word}'" + (f" AND level > {low % 7}" if dice.random() < 0.5 else "")
            case "prefixes":
                return f"path LIKE '{word[:2]}%'" + (f" AND level > {low % 7}" if dice.random() < 0.5 else "")
        tests = [f"name = '{word}'", f"price < {low / 1000:.3f}", "open", f"count BETWEEN {low} AND {low + 1000}"]
        return " AND ".join(np.array(tests)[np.sort(dice.permutation(4)[: 1 + low % 2])].tolist())

    return [one() for _ in range(count)]


def _events(kind: str, count: int, dice: np.random.Generator, words: list[str]) -> EventBatch:
    def one() -> dict[str, Any]:
        word = words[int(dice.zipf(1.5)) % len(words)]
        number = int(dice.integers(0, 1_000_000))
        match kind:
            case "ints":
                return {f"a{at + 1}": int(each) for at, each in enumerate(dice.integers(0, 1_000_001, 4))}
            case "strings":
                return {"host": word, "service": words[number % len(words)], "level": number % 8}
            case "prefixes":
                return {"path": word, "level": number % 8}
        event = {"name": word, "price": number / 1000, "open": number % 2 == 0, "count": number}
        return {name: value for name, value in event.items() if dice.random() < 0.9}

    return EventBatch.from_dicts(SPACES[kind], [one() for _ in range(count)])


def measure(kind: str, mapping: str, count: int, seed: int) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    words = [_word(dice, int(length)) for length in dice.integers(4, 12, 500)]
    space = SPACES[kind]
    texts = _texts(kind, count, dice, words)
    table = parse_many(space, texts)
    events = _events(kind, count, dice, words)
    keys = KeyMapping(mapping, BITS).in_space(space)
    ring = np.array(RingModel.random(NODES, BITS, seed).keys, np.uint64)
    targets = keys.subscription_keys(table)
    begin, end = np.searchsorted(ring, targets.lows), np.searchsorted(ring, targets.highs)
    lengths = end - begin + 1
    which = np.repeat(begin, lengths) + np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    held = np.zeros((len(table), NODES), bool)
    held[np.repeat(targets.rows, lengths), which % NODES] = True
    rows, event_keys = keys.event_keys(events)
    reached = np.zeros((len(events), NODES), bool)
    reached[rows, np.searchsorted(ring, event_keys) % NODES] = True
    index = MatchIndex(space)
    index.add_many(np.arange(len(table)), texts)
    pairs = index.match_batch(events.records)
    met = (held[pairs["subscription"].to_numpy()] & reached[pairs["event"].to_numpy()]).any(axis=1)
    return {
        "matches": len(pairs),
        "meet": float(met.mean()) if len(met) else 1.0,
        "subscription_nodes": float(held.sum(axis=1).mean()),
        "event_nodes": float(reached.sum(axis=1).mean()),
        "greatest": float(held.sum(axis=0).max() / held.sum(axis=0).mean()),
    }


def judge(table: pa.Table) -> list[Verdict]:
    need = {(kind, each): mean(table, "subscription_nodes", kind=kind, mapping=each) for kind in KINDS for each in MAPPINGS}
    fewest = {kind: min(need[kind, each] for each in MAPPINGS) for kind in KINDS}
    best = {kind: [each for each in MAPPINGS if need[kind, each] < 1.01 * fewest[kind]] for kind in KINDS}
    equal, prefix = need["strings", MAPPINGS[2]], need["prefixes", MAPPINGS[2]]
    return [
        Verdict(
            "Every event meets every subscription that it matches, of whatever kind",
            "ints only",
            f"{100 * floats(table, 'meet').min():.0f} % of {floats(table, 'matches').sum():,.0f} matches",
            bool(floats(table, "meet").min() == 1.0),
        ),
        Verdict(
            "Strings keep their order: equality goes to few nodes, and so does a prefix",
            "ints only",
            f"nodes of a subscription: {equal:.1f} by equality, {prefix:.1f} by prefix",
            equal < 3.0,
        ),
        Verdict(
            "Where subscriptions leave attributes out, selective-attribute needs the fewest nodes",
            "not measured",
            "fewest nodes of a subscription: " + ", ".join(f"{kind} {' and '.join(names)}" for kind, names in best.items()),
            all(MAPPINGS[2] in best[kind] for kind in ("strings", "prefixes", "mixed")),
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("kind", "mapping"), "matches", "meet", "subscription_nodes", "event_nodes", "greatest")


def draw(table: pa.Table, figure: Figure) -> None:
    one, other = figure.subplots(1, 2)
    lines(one, table, "mapping", "kind", "subscription_nodes", ("", "nodes of a subscription"))
    lines(other, table, "mapping", "kind", "event_nodes", ("", "nodes of an event"))
    one.set_yscale("log")


EXPERIMENT: Final = Experiment(
    "overlay/kinds",
    "Strings and mixed kinds",
    "left out by Baldoni et al. 2005",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
