"""`contentcast simulate`: protocols side by side on one network, the same table each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from contentcast.catalog import PROTOCOLS, make_router
from contentcast.cli import app
from contentcast.model import ContentcastError
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


def test_every_place_of_a_broker_is_on_the_drawn_ring(tmp_path: Path) -> None:
    code, _, told = run(*SMALL, "--protocol", "overlay,points=3", "--draw", str(tmp_path))
    assert code == 0, told
    (picture,) = tmp_path.glob("overlay*.svg")
    assert "#2:" in picture.read_text()
