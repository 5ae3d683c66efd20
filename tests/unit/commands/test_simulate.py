"""`contentcast simulate`: protocols side by side on one network, the same table each time."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from contentcast.catalog import PROTOCOLS, make_router
from contentcast.cli import app
from contentcast.commands.simulating.rates import rates_of
from contentcast.model import ContentcastError, Space
from contentcast.routing.setup import Life

SMALL = ["simulate", "--topology", "gryphon-39", "--events", "20", "--subscriptions", "100"]


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_every_protocol_delivers_the_same_and_says_what_it_cost() -> None:
    code, told, _ = run(*SMALL, "--json")
    assert code == 0
    rows = {row["protocol"]: row for row in json.loads(told)["protocols"]}
    assert set(rows) == set(PROTOCOLS)
    assert len({row["deliveries"] for row in rows.values()}) == 1
    assert rows["flooding"]["copies"] == 20 * 38
    assert 0 < rows["link-matching"]["copies"] < rows["flooding"]["copies"]
    assert rows["match-first"]["bytes"] > rows["link-matching"]["bytes"]
    assert 0 < rows["link-matching"]["p50 s"] <= rows["link-matching"]["p99 s"]
    assert rows["link-matching"]["busiest"][0]["bytes"] > 0
    assert told == run(*SMALL, "--json")[1], "the same options, the same numbers"


def test_over_lossy_links_and_through_the_codec_everything_still_arrives() -> None:
    exact = json.loads(run(*SMALL, "--protocol", "link-matching", "--json")[1])["protocols"][0]
    lossy = json.loads(run(*SMALL, "--protocol", "link-matching", "--loss", "0.2", "--codec", "--json")[1])["protocols"][0]
    assert lossy["deliveries"] == exact["deliveries"]
    assert lossy["messages"] > exact["messages"], "acknowledgements, and what was sent again"


def test_a_protocol_is_told_its_options_behind_its_name_or_by_set() -> None:
    one = json.loads(run(*SMALL, "--protocol", "overlay,mapping=key-space-split", "--json")[1])["protocols"]
    other = json.loads(run(*SMALL, "--protocol", "overlay", "--set", "mapping=key-space-split", "--json")[1])["protocols"]
    assert one == other
    assert one[0]["protocol"] == "overlay,mapping=key-space-split"
    usual = json.loads(run(*SMALL, "--protocol", "overlay", "--json")[1])["protocols"][0]
    assert usual["deliveries"] == one[0]["deliveries"]
    assert usual["messages"] != one[0]["messages"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("overlay,maping=attribute-split", "did you mean 'mapping'"),
        ("overlay,bits=many", "bits is a whole number, got 'many'"),
        ("overlay,bits", "NAME=VALUE"),
        ("overlay,mapping=nonsense", "nonsense"),
        ("summaries,side_by_side=2", "true or false"),
        ("covering,mapping=x", "it has none"),
        ("summaries,virtual_degree=-2", "at least 1, not -2"),
        ("summaries,precision=64", "64 rows, 256 bytes"),
    ],
)
def test_an_option_that_is_wrong_says_what_there_is(name: str, said: str) -> None:
    with pytest.raises(ContentcastError, match=said):
        make_router(name)("a", Life())


def test_a_table_and_a_picture(tmp_path: Path) -> None:
    code, told, _ = run(*SMALL, "--protocol", "two-tier", "--bursty", "--draw", str(tmp_path / "pictures"))
    assert code == 0
    assert "two-tier" in told
    assert "busiest links" in told
    assert (tmp_path / "pictures" / "two-tier.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--protocol", "floding"], "there is no protocol 'floding'; did you mean 'flooding'?"),
        (["--topology", "griffon-39"], "did you mean 'gryphon-39'?"),
        (["--scenario", "marked"], "did you mean 'market'?"),
        (["--set", "zipf"], "--set takes NAME=VALUE, got 'zipf'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(arguments: list[str], message: str) -> None:
    code, _, told = run("simulate", *arguments)
    assert code == 2
    assert message in told


def test_a_network_in_parts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "parts.edges"
    path.write_text("a b 10\nc d 10\n")
    code, _, told = run("simulate", "--topology", str(path))
    assert code == 2
    assert "the network is not connected" in told


def test_the_largest_part_of_a_network_in_parts(tmp_path: Path) -> None:
    (tmp_path / "parts.edges").write_text("a b\nb c\nx y\n")
    words = ["simulate", "--topology", str(tmp_path / "parts.edges"), "--events", "5", "--subscriptions", "5", "--json"]
    code, _, complained = run(*words, "--protocol", "flooding")
    assert code == 2
    assert "--largest-part" in complained
    code, told, _ = run(*words, "--protocol", "flooding", "--largest-part")
    assert code == 0
    assert json.loads(told)["protocols"][0]["copies"] == 5 * 2


def test_the_overlay_is_drawn_as_a_ring(tmp_path: Path) -> None:
    code, _, told = run(*SMALL, "--protocol", "overlay", "--draw", str(tmp_path))
    assert code == 0, told
    picture = (tmp_path / "overlay.svg").read_text()
    assert picture.count("<path") == picture.count("<circle") - 1 > 2, "an arc for each place; the legend has a circle"
    assert "% of the keys" in picture
    assert "subscriptions</title>" in picture
    assert "A dot is a place of a broker on the ring of keys" in picture


def test_every_place_of_a_broker_is_on_the_drawn_ring(tmp_path: Path) -> None:
    code, _, told = run(*SMALL, "--protocol", "overlay,points=3", "--draw", str(tmp_path))
    assert code == 0, told
    (picture,) = tmp_path.glob("overlay*.svg")
    assert "#2:" in picture.read_text()


# --- own events and rules, and a sweep of rates

EVENTS = """
{"site": "b1", "price": 5}
{"site": "b2", "price": 50}
nonsense
{"site": "b9", "price": 5}
{"price": 5}
{"site": "b1", "price": 7}
"""
RULES = "subscription,predicate,subscriber,broker\n1,price < 10,desk-1,b3\n2,prise < 1,desk-2,b3\n3,price > 1,desk-3,nowhere\n"
OWN = ("--events-from", "events.jsonl", "--rules", "rules.csv", "--space", "space.json", "--topology", "line:3")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Space("orders", price="float").save("space.json")
    Path("events.jsonl").write_text(EVENTS)
    Path("rules.csv").write_text(RULES)


@pytest.mark.usefixtures("own")
def test_own_events_enter_where_they_say_and_what_does_not_fit_is_told() -> None:
    code, told, complained = run("simulate", *OWN, "--publisher", "site", "--protocol", "flooding", "--json")
    assert code == 0, complained
    (row,) = json.loads(told)["protocols"]
    assert (row["deliveries"], row["copies"]) == (2, 3 * 2), "two of price 5 and 7; each of the three events on both links"
    assert "1 record left out: no events of orders; the first: " in complained
    assert "1 event left out: they say no publisher in the column 'site'" in complained
    assert "1 event left out: the network has no broker 'b9'" in complained
    assert "1 rule left out: the network has no broker 'nowhere'" in complained
    assert (
        "1 rule refused; the first is rule 2: line 1, column 1: orders has no attribute 'prise'; did you mean 'price'?"
        in complained
    )


@pytest.mark.usefixtures("own")
def test_own_events_that_say_no_broker_enter_at_all_in_turn() -> None:
    Path("events.jsonl").write_text('{"price": 5}\n' * 4)
    Path("rules.txt").write_text("price < 10\n")
    words = [*OWN[:3], "rules.txt", *OWN[4:]]
    code, told, complained = run("simulate", *words, "--protocol", "link-matching", "--json")
    assert code == 0, complained
    (row,) = json.loads(told)["protocols"]
    assert (row["deliveries"], row["copies"]) == (4, 1 + 2), "they enter at b1, b2, b3, b1, and the only subscriber is at b1"
    assert "events enter at all brokers in turn" in complained
    assert "subscribers are at all brokers in turn" in complained


@pytest.mark.usefixtures("own")
def test_own_events_take_three_files() -> None:
    code, _, told = run("simulate", *OWN[:4])
    assert code == 2
    assert "your own events take --events-from, --rules and --space; add --space" in told
    code, _, told = run("simulate", "--events-from", "event.jsonl", *OWN[2:])
    assert code == 2
    assert "there is no event file event.jsonl; did you mean 'events.jsonl'?" in told


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("lines", "words", "told"),
    [
        (
            '{"site": "b1", "prise": 5}\n',
            [],
            "4 records left out: no events of orders; the first: orders has no attribute 'prise'",
        ),
        ('{"shop": "b1", "price": 5}\n', [], "; the broker where an event enters is taken from 'site' (--publisher COLUMN)\n"),
        ('{"site": "b1", "price": 5}\n', ["--rules", "rule.csv"], "no rule file rule.csv; did you mean 'rules.csv'?"),
        ('{"sites": "b1", "price": 5}\n', ["--unknown", "ignore"], "no event has a value in the column 'site'"),
        ('{"site": "b1", "price": 5}\n', ["--scenario", "market"], "leave out --scenario or --events-from"),
        ('{"site": "b1", "price": 5}\n', ["--set", "stocks=3"], "no protocol here takes --set stocks=3"),
    ],
)
def test_own_events_that_cannot_be_played_say_why(lines: str, words: list[str], told: str) -> None:
    Path("events.jsonl").write_text(lines * 4)
    code, _, complained = run("simulate", *OWN, "--publisher", "site", "--protocol", "flooding", *words)
    assert (code, told in complained) == (2, True), complained


@pytest.mark.usefixtures("own")
def test_own_events_of_a_folder_enter_where_they_say() -> None:
    Path("many").mkdir()
    Path("events.jsonl").rename("many/events.jsonl")
    words = ["--events-from", "many", *OWN[2:], "--publisher", "site", "--protocol", "flooding", "--json"]
    code, told, complained = run("simulate", *words)
    assert (code, json.loads(told)["protocols"][0]["deliveries"]) == (0, 2), complained


def test_a_sweep_shows_where_queues_begin_to_grow(tmp_path: Path) -> None:
    words = ["simulate", "--topology", "line:3", "--events", "200", "--subscriptions", "50", "--protocol", "flooding"]
    code, told, complained = run(*words, "--rates", "10:5010:2500", "--out", str(tmp_path / "sweep"))
    assert code == 0, complained
    rows = pq.read_table(tmp_path / "sweep" / "rates.parquet").to_pylist()
    assert [row["rate"] for row in rows] == [10, 2510, 5010]
    assert rows[0]["longest_queue"] < rows[2]["longest_queue"]
    assert rows[0]["p99_s"] < rows[2]["p99_s"]
    assert rows[0]["busiest_share"] < rows[2]["busiest_share"] <= 1
    assert len({row["deliveries"] for row in rows}) == 1
    assert (tmp_path / "sweep" / "rates.csv").read_text().splitlines()[0].startswith('"protocol","rate"')
    assert (tmp_path / "sweep" / "rates.svg").read_text().lstrip().startswith("<?xml")
    assert (tmp_path / "sweep" / "rates.png").read_bytes().startswith(b"\x89PNG")
    assert "p99 ms   queue   CPU" in told


@pytest.mark.parametrize("rates", ["100", "5,10,20", "1:2:0.5"])
def test_rates_as_they_are_written(rates: str) -> None:
    assert rates_of(rates) == {"100": [100], "5,10,20": [5, 10, 20], "1:2:0.5": [1, 1.5, 2]}[rates]


@pytest.mark.parametrize("rates", ["", "fast", "10:5:1", "1:5", "0:5:1", "1:5:0", "-1,2", "1:1000000:1", "1:inf:1", "nan:1:1"])
def test_rates_that_are_none(rates: str) -> None:
    with pytest.raises(ContentcastError, match="simulate: "):
        rates_of(rates)
