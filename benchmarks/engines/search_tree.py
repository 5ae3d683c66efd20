"""The search tree: what each of the paper's optimizations brings in steps and memory, how steps grow, how long changes take.

`python -m benchmarks.engines.search_tree` prints the tables of docs/internals/search-tree.md. Times are CPU seconds of the
one thread, the best of several runs, as ratios to the plain tree of the same run: what else runs on the machine then matters
little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.report import Result, Table
from contentcast.language import parse_many
from contentcast.matching.search_tree import SearchTree, words_of
from contentcast.model import EventBatch
from contentcast.model.predicates.table import PredicateTable
from contentcast.workload import scenario

EVENTS = 10_000
RUNS = 5
PLAIN = {"eliminate_trivial_tests": False, "delay_branching": False, "share": False}
WORKLOADS: tuple[tuple[str, int, tuple[tuple[str, ...], ...]], ...] = (
    ("w1", 10_000, (("a1",), ("a1", "a2", "a3"))),
    ("w1b", 25_000, (("a1",),)),
    ("market", 10_000, (("exchange",), ("symbol",))),
)


def switches(factorings: tuple[tuple[str, ...], ...]) -> list[tuple[str, dict[str, Any]]]:
    rows: list[tuple[str, dict[str, Any]]] = [
        ("plain tree", PLAIN),
        ("trivial test elimination only", PLAIN | {"eliminate_trivial_tests": True}),
        ("delayed branching only", PLAIN | {"delay_branching": True}),
        ("sharing only", PLAIN | {"share": True}),
        ("all three (the default)", {}),
        ("all but trivial test elimination", {"eliminate_trivial_tests": False}),
        ("all but delayed branching", {"delay_branching": False}),
        ("all but sharing", {"share": False}),
    ]
    for names in factorings:
        rows.append((f"all, factored on {', '.join(names)}", {"factored": names}))
    rows.append((f"all but sharing, factored on {', '.join(factorings[-1])}", {"factored": factorings[-1], "share": False}))
    return rows


def best(run: Callable[[], Any], times: int = RUNS) -> float:
    """CPU seconds of the fastest run."""
    taken = []
    for _ in range(times):
        begin = time.thread_time()
        run()
        taken.append(time.thread_time() - begin)
    return min(taken)


@cache
def loaded(name: str, count: int, events: int = EVENTS) -> tuple[Any, PredicateTable, EventBatch]:
    drawn = scenario(name)
    table = parse_many(drawn.space, drawn.subscriptions(count)["predicate"])
    return drawn, table, EventBatch.from_arrow(drawn.space, drawn.events(events))


def effects(scale: float) -> list[dict[str, Any]]:
    """Steps, memory and time with each optimization on and off."""
    found = []
    for name, full, factorings in WORKLOADS:
        count = int(full * scale)
        drawn, table, batch = loaded(name, count)
        plain = 0.0
        for words, options in switches(factorings):
            tree = SearchTree(drawn.space, **options)
            SearchTree(drawn.space, **options).add_many(np.arange(100), loaded(name, 100)[1])  # compiles what is not yet
            built = best(lambda: tree.add_many(np.arange(count), table), 1)  # noqa: B023 - called at once
            matches = tree.match_batch(batch)
            seconds = best(lambda: tree.match_batch(batch))  # noqa: B023 - called at once
            plain = plain or seconds
            shape = tree.shape
            found.append(
                {
                    "workload": f"{name} {count:,}",
                    "tree": words,
                    "steps": round(float(matches.steps.mean()), 1),
                    "nodes": shape.nodes,
                    "kB": round(shape.nbytes / 1000),
                    "speed": f"{plain / seconds:.2f}x",
                    "events/s": f"{EVENTS / seconds:,.0f}",
                    "prepared in": f"{built * 1000:,.0f} ms",
                }
            )
    return found


def growth(scale: float) -> list[dict[str, Any]]:
    """How the steps grow with the subscriptions."""
    found = []
    for name in ("w1", "market"):
        counts = [int(full * scale) for full in (1_000, 10_000, 100_000)]
        drawn, table, batch = loaded(name, counts[-1])
        for count in counts:
            _, part, _ = (drawn, table, batch) if count == counts[-1] else loaded(name, count, 1)
            tree = SearchTree(drawn.space)
            built = best(lambda: tree.add_many(np.arange(count), part), 1)  # noqa: B023 - called at once
            matches = tree.match_batch(batch)
            seconds = best(lambda: tree.match_batch(batch))  # noqa: B023 - called at once
            found.append(
                {
                    "workload": name,
                    "subscriptions": count,
                    "matches": round(len(matches.ids) / EVENTS, 1),
                    "steps": round(float(matches.steps.mean()), 1),
                    "events/s": f"{EVENTS / seconds:,.0f}",
                    "prepared in": f"{built * 1000:,.0f} ms",
                }
            )
    return found


def link_steps(scale: float) -> list[dict[str, Any]]:
    """Link matching beside matching: subscriptions spread over 4 links, all Maybe at the start."""
    found = []
    for name, full, _ in WORKLOADS:
        count = int(full * scale)
        drawn, table, batch = loaded(name, count)
        tree = SearchTree(drawn.space)
        tree.add_many(np.arange(count), table)
        words = np.array([words_of([number % 4], 4) for number in range(count)])
        annotated = best(lambda: tree.annotate_words(np.arange(count), words))  # noqa: B023 - called at once
        annotation = tree.annotate_words(np.arange(count), words)
        start = words_of(range(4), 4)
        seconds = best(lambda: annotation.match_links(batch, start))  # noqa: B023 - called at once
        found.append(
            {
                "workload": f"{name} {count:,}",
                "steps to match": round(float(tree.match_batch(batch).steps.mean()), 1),
                "steps for links": round(float(annotation.match_links(batch, start).steps.mean()), 1),
                "speed": f"{best(lambda: tree.match_batch(batch)) / seconds:.2f}x",  # noqa: B023 - called at once
                "annotated in": f"{annotated * 1000:,.1f} ms",
            }
        )
    return found


def changes(scale: float) -> list[dict[str, Any]]:
    """Adds and removes between batches of 1,000 market events: the longest pause beside the time to match 10,000 events."""
    base, rounds, at_once = int(100_000 * scale), int(300 * scale), 100
    drawn, table, batch = loaded("market", base)
    predicates = list(parse_many(drawn.space, drawn.subscriptions(rounds * at_once, start=base)["predicate"]))
    tree = SearchTree(drawn.space)
    tree.add_many(np.arange(base), table)
    small = batch.slice(0, 1_000)
    tree.match_batch(small)
    quiet = best(lambda: tree.match_batch(small))
    whole = best(lambda: tree.match_batch(batch))
    changing, pauses = 0.0, []
    for number in range(rounds):
        first = number * at_once
        begin = time.thread_time()
        for each in range(first, first + at_once):
            tree.add(base + each, predicates[each])
            tree.remove(each)
        middle = time.thread_time()
        tree.match_batch(small)
        changing += middle - begin
        pauses.append(middle - begin + max(0.0, time.thread_time() - middle - quiet))
    after = best(lambda: tree.match_batch(batch))
    parts = tree.shape.parts
    tree.prepare()
    settled = best(lambda: tree.match_batch(batch))
    return [
        {
            "changes": f"{2 * rounds * at_once:,}",
            "changes/s": f"{2 * rounds * at_once / sum(pauses):,.0f}",
            "longest pause": f"{max(pauses) * 1000:.1f} ms",
            "mean pause": f"{np.mean(pauses) * 1000:.1f} ms",
            "10,000 events before": f"{whole * 1000:.1f} ms",
            "after": f"{after * 1000:.1f} ms in {parts} trees",
            "after prepare()": f"{settled * 1000:.1f} ms",
        }
    ]


def replication(scale: float) -> list[dict[str, Any]]:
    """What filing every range under each elementary range of its node would take, at the first range node of market data."""
    found = []
    for count in (int(10_000 * scale), int(100_000 * scale)):
        _, table, _ = loaded("market", count, 1)
        has_symbol = np.zeros(count, bool)
        has_symbol[table.columns["symbol"].conjunction] = True
        column = table.columns["price"]
        lone = ~has_symbol[column.conjunction]
        first, last = column.first[lone], column.last[lone]
        cuts = np.unique(np.concatenate([first, last + 1]))
        covered = np.searchsorted(cuts, last, side="right") - np.searchsorted(cuts, first, side="right") + 1
        found.append(
            {
                "subscriptions": count,
                "ranges at the node": int(lone.sum()),
                "filed here": np.unique(np.stack([first, last]), axis=1).shape[1],
                "filed by elementary ranges": int(covered.sum()),
            }
        )
    return found


TABLES: dict[str, Callable[[float], list[dict[str, Any]]]] = {
    "effects": effects,
    "growth": growth,
    "links": link_steps,
    "changes": changes,
    "replication": replication,
}


def run(quick: bool = False, names: Sequence[str] = tuple(TABLES)) -> Result:
    found = {name: TABLES[name](0.1 if quick else 1.0) for name in names}
    return Result(
        "search_tree",
        "The parallel search tree: steps, memory and changes",
        ["What each optimization brings, how steps grow, and how long changes take; see docs/internals/search-tree.md."],
        [_table(name, rows) for name, rows in found.items()],
        [],
        {"tables": found},
        quick,
    )


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    cells = [[f"{each:,}" if isinstance(each, int) else str(each) for each in row.values()] for row in rows]
    return Table((TABLES[name].__doc__ or name).splitlines()[0], list(rows[0]), cells)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(TABLES)}; without any, all of them")
    parser.add_argument("--quick", action="store_true", help="a tenth of the subscriptions, to see that it works")
    chosen = parser.parse_args(arguments)
    for name in chosen.tables:
        if name not in TABLES:
            parser.error(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    print(run(chosen.quick, chosen.tables or tuple(TABLES)).markdown())


if __name__ == "__main__":
    main()
