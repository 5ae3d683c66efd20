"""`contentcast rules translate`: files of rules in, a table of subscriptions out, refusals listed and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.rules.files import read_rules, rules_of_text

SPACE = cc.Space(
    "orders", {"source": "string", "detail.state": "string", "detail.count": "int", "topic": "string", "labels.team": "string"}
)
OPEN = {"source": ["shop"], "detail": {"state": ["open"]}}
MANY = {"detail": {"count": [{"numeric": [">", 5]}]}}
WRONG = {"detail": {"state": [5]}}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    SPACE.save("space.json")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rules", "translate", *arguments, "--space", "space.json"])


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_one_rule_becomes_one_subscription() -> None:
    Path("rule.json").write_text(json.dumps(OPEN, indent=2))
    done = run("rule.json", "--from", "eventbridge")
    assert done.exit_code == 0
    assert rows(done.stdout) == [
        {"subscription": 1, "predicate": "source = 'shop' AND `detail.state` = 'open'", "rule": json.dumps(OPEN)}
    ]
    assert done.stderr == "1 rule: 1 translated, 0 refused\n"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([OPEN, WRONG, MANY]),
        "\n".join(json.dumps(each) for each in (OPEN, WRONG, MANY)),
        "\n\n".join(json.dumps(each) for each in (OPEN, WRONG, MANY)) + "\n",
        json.dumps([json.dumps(each) for each in (OPEN, WRONG, MANY)]),
        json.dumps([{"rule": each, "id": number} for number, each in enumerate((OPEN, WRONG, MANY), 1)]),
    ],
)
def test_many_rules_of_which_one_is_refused(text: str) -> None:
    Path("rules.json").write_text(text)
    done = run("rules.json", "--from", "eventbridge", "--refused", "refused.jsonl")
    assert done.exit_code == 1, "some were refused"
    assert [row["subscription"] for row in rows(done.stdout)] == [1, 3]
    assert "rule 2" in done.stderr
    assert "detail.state[0]: detail.state is a string in this space and never equals 5" in done.stderr
    assert "3 rules: 2 translated, 1 refused" in done.stderr
    [refused] = rows(Path("refused.jsonl").read_text())
    assert (refused["number"], refused["place"]) == (2, "detail.state[0]")


def test_what_the_tool_of_aws_lists() -> None:
    listed = {
        "Rules": [
            {"Name": "opened", "EventPattern": json.dumps(OPEN)},
            {"Name": "hourly", "ScheduleExpression": "rate(1 hour)"},
        ]
    }
    Path("rules.json").write_text(json.dumps(listed))
    done = run("rules.json", "--from", "eventbridge")
    [row] = rows(done.stdout)
    assert (row["subscription"], row["name"]) == (1, "opened")


def test_the_bindings_of_rabbitmqs_definitions() -> None:
    bindings = [{"source": "amq.headers", "destination": "desk-7", "arguments": {"x-match": "any", "source": "shop"}}]
    found = rules_of_text(json.dumps({"bindings": bindings}), "headers")
    assert [(each.name, each.rule) for each in found] == [("desk-7", {"x-match": "any", "source": "shop"})]


def test_text_rules_stand_one_a_line() -> None:
    Path("topics.txt").write_text("a/#\n\na/+/b\n#\n")
    done = run("topics.txt", "--from", "topic")
    assert [row["rule"] for row in rows(done.stdout)] == ["a/#", "a/+/b", "#"]
    Path("selectors.txt").write_text("source = 'a'\nsource = \n")
    done = run("selectors.txt", "--from", "jms")
    assert done.exit_code == 1
    assert "rule 2: line 1, column 9: expected a property or a value" in done.stderr


def test_a_selector_in_braces_is_no_json() -> None:
    Path("matchers.txt").write_text('{team="ops"}\n{team!="dev"}\n')
    done = run("matchers.txt", "--from", "matchers", "--prefix", "labels.")
    assert [row["predicate"] for row in rows(done.stdout)] == [
        "`labels.team` = 'ops'",
        "`labels.team` IS NULL OR `labels.team` <> 'dev'",
    ]


def test_a_whole_file_may_be_one_rule() -> None:
    Path("filter.sql").write_text("source = 'a'\n  AND EXISTS topic\n")
    [row] = rows(run("filter.sql", "--from", "cesql", "--whole").stdout)
    assert row["predicate"] == "source = 'a' AND topic IS NOT NULL"


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_tables_in_and_out(ending: str) -> None:
    table = pa.table({"name": ["one", "two"], "rule": ["a/#", "b"]})
    pa.csv.write_csv(table, "topics.csv") if ending == "csv" else pq.write_table(table, "topics.parquet")
    done = run(
        f"topics.{'csv' if ending == 'csv' else 'parquet'}", "--from", "topic", "--out", f"subscriptions.{ending}", "--json"
    )
    assert json.loads(done.stdout) == {"rules": 2, "translated": 2, "refused": []}
    readers = {
        "csv": pa.csv.read_csv,
        "parquet": pq.read_table,
        "jsonl": lambda path: pa.Table.from_pylist(rows(Path(path).read_text())),
    }
    found = readers[ending](f"subscriptions.{ending}")
    assert found["subscription"].to_pylist() == [1, 2]
    assert found["name"].to_pylist() == ["one", "two"]
    index = cc.MatchIndex(SPACE)
    index.add_many(found["subscription"].to_pylist(), found["predicate"].to_pylist())
    assert index.match({"topic": "a/x"}) == [1]


def test_many_refusals_are_counted_and_the_first_told() -> None:
    Path("rules.jsonl").write_text("\n".join([json.dumps(WRONG)] * 30))
    done = run("rules.jsonl", "--from", "eventbridge", "--out", "subscriptions.parquet")
    assert done.exit_code == 1
    assert done.stderr.count("never equals 5") == 20
    assert "... and 10 more; --refused FILE writes them all" in done.stderr
    assert pq.read_table("subscriptions.parquet").num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nothing.json", "--from", "eventbridge"], "nothing.json: No such file"),
        (["empty.json", "--from", "eventbridge"], "empty.json holds no rules"),
        (["rule.json", "--from", "eventbridge", "--json"], "--json goes with --out"),
        (["rule.json", "--from", "eventbridge", "--prefix", "x."], "--prefix does not go with --from eventbridge"),
        (["rule.json", "--from", "eventbridge", "--out", "rule.json"], "the output rule.json is the input"),
        (["rule.json", "--from", "eventbridge", "--out", "there.csv"], "there.csv is already there"),
        (["rule.json", "--from", "eventbridge", "--out", "new.txt"], "tables are written as .jsonl, .csv, .parquet"),
        (["there.csv", "--from", "topic"], "has no column 'rule'"),
    ],
)
def test_what_is_wrong_with_the_command_is_one_message(arguments: list[str], reason: str) -> None:
    Path("rule.json").write_text(json.dumps(OPEN))
    Path("empty.json").write_text("\n")
    Path("there.csv").write_text("rle\na\n")
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("contentcast: ")
    assert reason in done.stderr


def test_a_line_that_is_no_json_refuses_itself_alone() -> None:
    Path("rules.jsonl").write_text(json.dumps(OPEN) + "\n{broken\n" + json.dumps(MANY))
    done = run("rules.jsonl", "--from", "eventbridge")
    assert [row["subscription"] for row in rows(done.stdout)] == [1, 3]
    assert "rule 2: line 1, column 2: not JSON" in done.stderr


def test_rules_of_an_unknown_source() -> None:
    with pytest.raises(cc.ContentcastError, match="did you mean 'eventbridge'"):
        read_rules("x", "eventbrige")
