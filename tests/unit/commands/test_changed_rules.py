"""A running `match --stream` whose table of rules changes: what it tells, and which rules it goes on with. Without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from contentcast.commands.matching import on_spark
from contentcast.commands.matching.inputs import Inputs
from contentcast.model import Space

TRADES = Space("trades", issue="string", price="float")


class Stream:
    """A query that lives as long as its story: each time it is looked at, the next thing happens."""

    def __init__(self, job: on_spark._Job, story: list[Callable[[], None]]) -> None:
        self.job, self.story = job, story
        self.rules: list[list[int]] = []
        """After each thing that happened, the rules of the next micro-batch."""

    @property
    def isActive(self) -> bool:
        if not self.story:
            return False
        self.story.pop(0)()
        version = self.job.prepared.latest()  # as `deliver` does before a micro-batch
        self.rules.append(replace(self.job.prepared, version=version).kept_ids().to_pylist())
        return True

    def exception(self) -> None:
        return None


def rules_become(*rows: str) -> Callable[[], None]:
    def happen() -> None:
        Path("next").write_text("\n".join(rows) + "\n")
        Path("next").replace("rules.csv")

    return happen


def nothing() -> None:
    """The stream has the time to tell what happened before."""


def test_refused_rules_are_told_and_a_table_that_cannot_be_used_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(on_spark, "LOOK_EVERY_S", 0.0)
    head = "subscription,predicate"
    rules_become(head, "1,price < 120", "3,prise < 120")()
    TRADES.save("space.json")
    job = on_spark._Job(None, on_spark.Wanted(Inputs(["in"], "rules.csv", "space.json"), TRADES, Path("out")), on_spark.Now(""))
    story = [
        *(rules_become(head, "7,price = 4", "8,price <", "9,prixe = 1"), nothing),
        *(rules_become("rule;condition"), nothing),
        *(rules_become(head, "7,price = 4", "8,price <"), nothing),
        *(rules_become(head, "5,price > 4"), nothing),
    ]
    stream = Stream(job, story)
    tally = SimpleNamespace(events=SimpleNamespace(value=6), bad=SimpleNamespace(value=0))
    job._wait([stream], tally)
    lines = capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines()
    assert stream.rules == [[7]] * 6 + [[5]] * 2
    assert [each.removeprefix("contentcast: ") for each in lines] == [
        "the rules have changed; 2 of them are refused, see out/refused",
        "rule 8: line 1, column 8: expected a value after '<'",
        "rule 9: line 1, column 1: trades has no attribute 'prixe'; did you mean 'price'?",
        "rules.csv has changed and cannot be used, the stream goes on with the rules that it had: the subscriptions have no "
        "column 'subscription'; they have rule;condition; they need subscription (int or text), or say which it is: --id NAME. "
        "Is the separator a semicolon? Here it is a comma; write the file with commas",
        "the rules have changed; 1 of them is refused, see out/refused",
        "rule 8: line 1, column 8: expected a value after '<'",
        "the rules have changed; all of them take part",
    ]
    assert pq.read_table("out/refused").num_rows == 0
    totals = job._totals(tally, 4, 1.0)
    assert (totals["subscriptions"], totals["bad predicates"]) == (1, 0)
