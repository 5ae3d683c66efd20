"""bulk: tables of market predicates, from text to canonical form, all at once; against one by one, and against two SQL parsers.

The parsers of sqlglot and DuckDB only parse: what they give is a syntax tree, not yet checked against a space, not canonical.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from benchmarks.columns import SEED
from benchmarks.report import Result, Table, times
from benchmarks.timing import Timed, in_turns
from contentcast.language import parse_many, parse_predicate
from contentcast.workload import scenario

TARGETS_S: Final = {100_000: 6.0, 1_000_000: 60.0}
OURS: Final = "parse_many"
ONE_BY_ONE: Final = {
    "parse_predicate, one by one": "the same result, one text at a time",
    "sqlglot, parsing alone": "sqlglot.parse_one in Spark's dialect, one text at a time",
    "DuckDB, parsing alone": "extract_statements of all texts in one script",
}


def run(quick: bool = False) -> Result:
    sizes = (1_000, 10_000) if quick else (10_000, 100_000, 1_000_000)
    sample, rounds = (200, 3) if quick else (2_000, 5)
    market = scenario("market", seed=SEED)
    texts = market.subscriptions(sizes[-1])["predicate"]
    jobs: dict[str, Any] = {_name(size): (size, _bulk(market.space, texts.slice(0, size))) for size in sizes}
    jobs |= _peers(market.space, texts.slice(0, sample).to_pylist())
    for units, job in jobs.values():
        if units <= sizes[0]:
            job(0)  # the first call of each pays for imports and caches
    timed = in_turns(jobs, rounds=rounds)
    return Result(
        "bulk",
        "Bulk loading: predicates from text to canonical form",
        [
            "A table of texts of the `market` workload (W2) becomes a table of canonical predicates by `parse_many`, on one "
            f"core. The others are measured on the first {sample:,} texts and extrapolated per predicate. Medians of {rounds} "
            "rounds, all contenders in turns in each round.",
        ],
        [_table(sizes, timed)],
        _notes(timed, sample),
        {
            "sample": sample,
            "targets_s": {str(size): limit for size, limit in TARGETS_S.items()},
            "contenders": {
                name: {"predicates": each.units, "seconds": each.seconds, "us_per_predicate": each.per_unit_s * 1e6}
                for name, each in timed.items()
            },
        },
        quick,
    )


def _name(size: int) -> str:
    return f"{OURS} {size}"


def _bulk(space: Any, texts: pa.Array) -> Any:
    return lambda number: parse_many(space, texts)


def _peers(space: Any, texts: list[str]) -> dict[str, Any]:
    ours, glot, duck = ONE_BY_ONE
    jobs: dict[str, Any] = {ours: (len(texts), lambda number: [parse_predicate(space, text) for text in texts])}
    try:
        import sqlglot

        jobs[glot] = (len(texts), lambda number: [sqlglot.parse_one(text, dialect="spark") for text in texts])
        import duckdb

        connection = duckdb.connect(config={"threads": 1})
        script = ";".join(f"SELECT 1 WHERE {text}" for text in texts)
        jobs[duck] = (len(texts), lambda number: connection.extract_statements(script))
    except ImportError:
        pass
    return jobs


def _table(sizes: tuple[int, ...], timed: dict[str, Timed]) -> Table:
    header = ["", "us per predicate", *(f"{size:,} predicates" for size in sizes), f"{OURS} is faster by"]
    largest = timed[_name(sizes[-1])]
    ours = [f"{_seconds(timed[_name(size)].per_unit_s * size)}" for size in sizes]
    rows = [[OURS, f"{largest.per_unit_s * 1e6:.1f}", *ours, ""]]
    for name in ONE_BY_ONE:
        if name in timed:
            each = timed[name].per_unit_s
            extrapolated = [f"~{_seconds(each * size)}" for size in sizes]
            rows.append([name, f"{each * 1e6:.0f}", *extrapolated, times(each / largest.per_unit_s)])
    return Table("", header, rows, frozenset([OURS]))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s"


def _notes(timed: dict[str, Timed], sample: int) -> list[str]:
    notes = []
    for size, limit in TARGETS_S.items():
        if _name(size) in timed:
            took = max(timed[_name(size)].seconds)
            verdict = "holds" if took <= limit else "DOES NOT HOLD"
            notes.append(f"Target: {size:,} predicates within {limit:g} s. {verdict}: {took:.2f} s in the slowest round.")
    if not notes:
        notes.append("The targets (100,000 predicates within 6 s, a million within 60 s) are not measured in a quick run.")
    notes.append(f"~ extrapolated from {sample:,} predicates.")
    notes += [f"{name}: {what}." for name, what in ONE_BY_ONE.items() if name in timed]
    return notes
