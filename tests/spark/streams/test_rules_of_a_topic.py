"""The rules that the messages of a compacted topic come to. Here they come without a broker; tests/downloads has one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import SparkFiles
from pyspark.sql import SparkSession

import contentcast as cc
from contentcast.spark import match, prepare
from contentcast.spark.outside.kafka import last_of_each_key
from contentcast.spark.subscriptions import indexes
from contentcast.spark.subscriptions.indexes import VERSIONS_KEPT, Prepared
from contentcast.spark.subscriptions.mapped import Mapped

TRADES = cc.Space("trades", issue="string", price="float")
CHEAP = b'{"subscription": 7, "predicate": "price < 120", "broker": "b1"}'
SAP = b'{"subscription": 8, "predicate": "issue = \'SAP\'", "broker": "b2"}'

Message = tuple[bytes | None, bytes | None]


def messages(*sent: Message) -> pa.Table:
    keys, values = zip(*sent, strict=True)
    places = {"partition": [0] * len(sent), "offset": range(len(sent))}
    return pa.table(places | {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


@dataclass
class Rules:
    """A topic without a broker."""

    sent: list[Message] = field(default_factory=list)
    has_columns = False

    def __str__(self) -> str:
        return "rules"

    def fingerprint(self) -> str:
        return str(len(self.sent))

    def read(self) -> pa.Table:
        return last_of_each_key(messages(*self.sent), str(self))

    def then(self, prepared: Prepared, *sent: Message) -> list[int]:
        """The rules that take part after these messages."""
        self.sent += sent
        prepared.latest()
        rows = pa.ipc.open_file(prepared.path(prepared.current.read_text(), "columns")).read_all()
        return sorted(rows["subscription"].to_pylist())


@pytest.fixture
def rules() -> Rules:
    return Rules([(b"7", CHEAP)])


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [(b"7", b"{", "not JSON"), (b"7", b"[1]", "a JSON object is needed"), (None, b"{}", "has a key")],
)
def test_a_message_that_is_no_rule_is_named_with_its_place(key: bytes | None, value: bytes, said: str) -> None:
    with pytest.raises(cc.ContentcastError, match=f"rules, partition 0, offset 0: .*{said}"):
        last_of_each_key(messages((key, value)), "rules")


def test_a_later_message_of_the_key_mends_one_that_is_no_rule() -> None:
    sent = messages((b"7", b"{"), (b"7", CHEAP), (b"8", b"not read"), (b"8", None))
    assert last_of_each_key(sent, "rules")["subscription"].to_pylist() == [7]


@pytest.mark.parametrize("value", [b'"x"', b"[1]", b"1180591620717411303424"])
def test_a_value_of_another_kind_is_named_with_its_place(value: bytes) -> None:
    sent = messages((b"7", CHEAP), (b"8", SAP), (b"9", b'{"subscription": ' + value + b"}"))
    with pytest.raises(cc.ContentcastError, match=r"rules, partition 0, offset 2: subscription is .*one column with 7"):
        last_of_each_key(sent, "rules")


def test_a_stream_goes_on_when_a_message_is_of_another_kind(rules: Rules) -> None:
    prepared = prepare(rules, TRADES)
    assert rules.then(prepared, (b"8", b'{"subscription": "x", "predicate": "TRUE"}')) == [7]
    assert list(prepared.unusable) == ["2"]
    assert rules.then(prepared, (b"8", SAP)) == [7, 8]


def test_messages_may_have_other_keys_than_those_that_the_stream_began_with(rules: Rules) -> None:
    prepared = prepare(rules, TRADES)
    assert rules.then(prepared, (b"8", b'{"note": "new", "predicate": "TRUE", "subscription": 8}')) == [7, 8]
    assert rules.then(prepared, (b"7", None)) == [8]
    assert not prepared.unusable


def test_when_all_rules_are_removed_none_is_left(rules: Rules) -> None:
    prepared = prepare(rules, TRADES)
    assert rules.then(prepared, (b"7", None)) == []
    assert rules.then(prepared, (b"8", SAP)) == [8]


def test_a_stream_does_not_start_before_a_message_says_which_columns_rules_have(spark: SparkSession, rules: Rules) -> None:
    rate = spark.readStream.format("rate").load().selectExpr("'IBM' issue", "1.0D price")
    rules.sent[:] = [(b"7", None)]
    with pytest.raises(cc.ContentcastError, match=r"rules holds no rules, .* send a first rule with all keys"):
        match(rate, rules, TRADES)
    assert match(spark.createDataFrame([], "issue string, price double"), rules, TRADES).columns[-1] == "subscription"
    rules.sent.append((b"8", SAP))
    assert match(rate, rules, TRADES).columns == ["issue", "price", "subscription", "broker"]


def test_columns_may_have_names_of_their_own() -> None:
    sent = messages((b"7", b'{"rule": 7, "when": "price < 120"}'))
    assert last_of_each_key(sent, "rules", "rule", "when").to_pylist() == [{"subscription": 7, "predicate": "price < 120"}]


class Cluster:
    """A driver and a worker, each with a folder to which Spark copies the files of the job."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver, self.worker, self.sent = folder / "driver", folder / "worker", list[Path]()
        self.driver.mkdir()
        self.worker.mkdir()
        self.sparkContext: Any = SimpleNamespace(master="spark://w:7077", addFile=self._add)
        self._patch = monkeypatch
        self.at(self.driver)
        monkeypatch.setattr(indexes, "_MAPPED", {})

    def at(self, folder: Path) -> None:
        self._patch.setattr(SparkFiles, "getRootDirectory", lambda: str(folder))
        self._patch.setattr(SparkFiles, "get", lambda name: str(folder / name))

    def _add(self, path: str) -> None:
        """As Spark does: a file keeps its name for good, and the driver gets a copy too."""
        assert Path(path).name not in {each.name for each in self.sent}
        self.sent.append(Path(path))
        shutil.copy(path, self.driver)

    def ship(self, prepared: Prepared) -> str:
        self.at(self.driver)
        prepared.ship(cast(Any, self), version := prepared.current.read_text())
        return version

    def opened(self, prepared: Prepared, version: str) -> Mapped:
        """By a task that is told this version, once Spark has brought the worker what it does not have."""
        for each in self.sent:
            if not (before := self.worker / f".{each.name}").exists():
                before.touch()
                shutil.copy(each, self.worker)
        self.at(self.worker)
        elsewhere = replace(prepared, folder="/a/folder/of/another/machine")
        with pytest.MonkeyPatch.context() as told:
            told.setattr(Prepared, "_version_of_task", lambda self: version)
            return elsewhere.open()

    def bytes_on_worker(self) -> dict[str, int]:
        return {each.name: each.stat().st_size for each in self.worker.glob("contentcast-*")}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def ids_of(mapped: Mapped) -> list[int]:
    found = mapped.index().match_batch(pa.RecordBatch.from_pylist([{"issue": "SAP", "price": 1.0}]))["subscription"]
    return sorted(mapped.column("subscription", found).to_pylist())


def test_what_was_sent_to_workers_stays_there_for_executors_that_start_later(rules: Rules, cluster: Cluster) -> None:
    """Spark brings them all files of the job, also of versions that nobody takes any more; those are empty."""
    prepared = prepare(rules, TRADES)
    changes = VERSIONS_KEPT + 2
    for _ in range(changes):
        rules.then(prepared, (b"7", CHEAP))
        version = cluster.ship(prepared)
    sizes = [each.stat().st_size for each in cluster.sent if each.name.endswith("index-0")]
    assert len(sizes) == changes
    assert [size > 0 for size in sizes] == [False] * (changes - VERSIONS_KEPT) + [True] * VERSIONS_KEPT
    assert ids_of(cluster.opened(prepared, version)) == [7]


def test_copies_on_a_worker_do_not_grow_with_the_changes_of_the_rules(rules: Rules, cluster: Cluster) -> None:
    prepared = prepare(rules, TRADES)
    first, seen = cluster.ship(prepared), list[int]()
    assert ids_of(cluster.opened(prepared, first)) == [7]
    for _ in range(2 * VERSIONS_KEPT):
        rules.then(prepared, (b"8", SAP))
        assert ids_of(cluster.opened(prepared, cluster.ship(prepared))) == [7, 8]
        seen.append(len(cluster.bytes_on_worker()))
    assert seen[VERSIONS_KEPT - 1 :] == [seen[VERSIONS_KEPT - 1]] * (VERSIONS_KEPT + 1)
    assert list(cluster.driver.iterdir()) == [], "Spark's copies on the driver serve nobody"
    assert ids_of(cluster.opened(prepared, first)) == [7], "a batch takes the version that was built first"


def test_a_task_that_still_reads_an_old_version_keeps_its_copy(rules: Rules, cluster: Cluster) -> None:
    prepared = prepare(rules, TRADES)
    rules.then(prepared, (b"8", SAP))
    reading = cluster.opened(prepared, old := cluster.ship(prepared))
    for _ in range(VERSIONS_KEPT):
        rules.then(prepared, (b"9", None))
        cluster.opened(prepared, cluster.ship(prepared))
    assert ids_of(reading) == [7, 8], "only now it reads the index and the columns"
    del reading
    rules.then(prepared, (b"9", None))
    cluster.opened(prepared, cluster.ship(prepared))
    assert not any(f"-{old}-" in name for name in cluster.bytes_on_worker())


def test_rules_that_are_again_as_they_were_reach_the_workers_again(rules: Rules, cluster: Cluster) -> None:
    """An old file that is put back has the fingerprint that it had. Spark would not send files again under a name it knows."""
    prepared = prepare(rules, TRADES)
    before = list(rules.sent)
    for _ in range(VERSIONS_KEPT + 1):
        rules.then(prepared, (b"8", SAP))
        cluster.opened(prepared, cluster.ship(prepared))
    rules.sent[:] = [*before, (b"8", SAP)]
    rules.then(prepared)
    assert ids_of(cluster.opened(prepared, cluster.ship(prepared))) == [7, 8]
