"""`contentcast match` with and without Spark: the same tables, row for row, for files of every kind."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from contentcast.cli import app
from contentcast.spark import read_deliveries
from contentcast.workload import scenario

EVENTS, RULES, SEED = 3_000, 400, 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events of all kinds in all formats: with columns that the space does not have, with bad records, with nulls."""
    where = tmp_path_factory.mktemp("ways")
    market = scenario("market", seed=SEED)
    market.space.save(where / "space.json")
    events = pa.Table.from_batches([market.events(EVENTS)])
    events = events.append_column("order", pa.array([f"o{each}" for each in range(EVENTS)]))
    rows = events.to_pylist()
    for at in range(0, EVENTS, 97):
        rows[at]["price"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=events.schema), where / "events.parquet")
    texts = [json.dumps({key: value for key, value in row.items() if key != "order"}, default=str) for row in rows]
    texts[5], texts[17] = "nonsense", '{"price": "much"}'
    (where / "events.jsonl").write_text("\n".join(texts) + "\n")
    header = list(rows[0])
    cells = [[("" if row[name] is None else str(row[name])) for name in header] for row in rows]
    cells[7][header.index("price")] = "much"
    with (where / "events.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *cells])
    wanted = pa.Table.from_batches([market.subscriptions(RULES)])
    predicates = wanted["predicate"].to_pylist()
    predicates[3] = "prise < 5"
    wanted = wanted.set_column(wanted.column_names.index("predicate"), "predicate", pa.array(predicates))
    pq.write_table(pa.concat_tables([wanted, wanted.slice(0, 1)]), where / "subscriptions.parquet")
    return where


def rows_of(table: DataFrame) -> list[str]:
    return sorted(repr(row.asDict()) for row in table.collect())


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_both_ways_write_the_same_tables(spark: SparkSession, folder: Path, tmp_path: Path, ending: str) -> None:
    words = ["match", str(folder / f"events.{ending}"), "--rules", str(folder / "subscriptions.parquet")]
    totals = {}
    for way in ("--spark", "--no-spark"):
        out = str(tmp_path / way)
        ended = CliRunner().invoke(app, [*words, "--space", str(folder / "space.json"), "--out", out, "--json", way])
        assert ended.exit_code == 0, ended.output
        told = json.loads(ended.stdout)
        totals[way] = {key: told[key] for key in ("events", "bad records", "subscriptions", "bad predicates", "pairs")}
    assert totals["--spark"] == totals["--no-spark"]
    assert totals["--spark"]["pairs"] > 1_000
    assert totals["--spark"]["bad predicates"] == 2
    assert totals["--spark"]["bad records"] == {"parquet": 0, "jsonl": 2, "csv": 1}[ending]
    by_spark, here = (read_deliveries(spark, tmp_path / way / "matches") for way in totals)
    assert by_spark.columns == here.columns
    assert rows_of(by_spark) == rows_of(here)
    for table in ("refused", "counts"):
        one, other = (pq.read_table(tmp_path / way / table) for way in totals)
        assert one.to_pylist() == other.to_pylist(), table
    # Spark writes the path of a file as file:/ or file:///, by the reader.
    bad = [
        sorted(
            (row["record"], row["reason"], row["attribute"], str(row["file"]).replace("///", "/")) for row in table.to_pylist()
        )
        for table in (pq.read_table(tmp_path / way / "quarantine") for way in totals)
    ]
    assert bad[0] == bad[1]
