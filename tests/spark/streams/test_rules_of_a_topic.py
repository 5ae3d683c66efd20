"""The rules that the messages of a compacted topic come to. Here they come without a broker; tests/downloads has one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.spark import prepare
from contentcast.spark.outside.kafka import last_of_each_key
from contentcast.spark.subscriptions.indexes import VERSIONS_KEPT, Prepared

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


def test_columns_may_have_names_of_their_own() -> None:
    sent = messages((b"7", b'{"rule": 7, "when": "price < 120"}'))
    assert last_of_each_key(sent, "rules", "rule", "when").to_pylist() == [{"subscription": 7, "predicate": "price < 120"}]


def test_what_was_sent_to_workers_stays_there_for_executors_that_start_later(rules: Rules) -> None:
    """Spark brings them all files of the job, also of versions that nobody takes any more; those are empty."""
    sent: list[str] = []
    cluster: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://w:7077", addFile=sent.append))
    prepared = prepare(rules, TRADES)
    changes = VERSIONS_KEPT + 2
    for _ in range(changes):
        rules.then(prepared, (b"7", CHEAP))
        prepared.ship(cluster, prepared.current.read_text())
    sizes = [Path(each).stat().st_size for each in sent if each.endswith("index-0")]
    assert len(sizes) == changes
    assert [size > 0 for size in sizes] == [False] * (changes - VERSIONS_KEPT) + [True] * VERSIONS_KEPT
