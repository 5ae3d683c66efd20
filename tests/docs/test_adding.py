"""The protocol of docs/internals/adding-a-protocol.md keeps its promises, in the conformance suite and in fault stories."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from contentcast import catalog
from contentcast.simulation.faults import play
from contentcast.simulation.story import Story
from tests.conformance.test_routers import check_exact, check_survives_crashes
from tests.docs.pages import read_blocks

PAGE = Path(__file__).parents[2] / "docs/internals/adding-a-protocol.md"
MOST_LINES = 80


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the protocol, its file on the path."""
    folder = tmp_path_factory.mktemp("outside")
    for block in read_blocks(PAGE.name, PAGE.read_text(encoding="utf-8")):
        if block.file:
            (folder / block.file).write_text(block.text)
    sys.path.insert(0, str(folder))
    yield "straight:Straight"
    sys.path.remove(str(folder))


def test_it_is_small(straight: str) -> None:
    (block,) = [each for each in read_blocks(PAGE.name, PAGE.read_text(encoding="utf-8")) if each.file]
    assert len([line for line in block.text.splitlines() if line.strip()]) <= MOST_LINES


def test_it_promises_and_keeps_it(straight: str) -> None:
    promises = catalog.protocol(straight).promises
    assert promises == {catalog.Promise.EXACT, catalog.Promise.SURVIVES_CRASHES}
    for seed in range(15):
        check_exact(straight, Random(seed))
        check_survives_crashes(straight, Random(seed))


def test_its_message_goes_through_the_wire_in_stories_of_faults(straight: str) -> None:
    for seed in range(12):
        outcome = play(Story.random(seed, rough=False), straight, codec=True)
        assert outcome.passed, f"seed {seed}: {outcome.problems}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere.at.all:Router", "nowhere.at.all cannot be imported"),
        ("contentcast.catalog:Nothing", "contentcast.catalog has no 'Nothing'"),
        ("contentcast.catalog:Protocol", "a router is a class with handle"),
        ("link-maching", "did you mean 'link-matching'"),
    ],
)
def test_a_name_that_is_no_protocol_is_told_why(name: str, reason: str) -> None:
    with pytest.raises(catalog.ContentcastError, match=reason):
        catalog.protocol(name)
