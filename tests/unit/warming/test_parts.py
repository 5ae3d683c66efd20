"""A command waits only for the kernels that it uses: its part has all of them, and not those of the other engine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from contentcast.pipeline.job import part_used
from contentcast.warming.compilers import compile_parts
from contentcast.warming.parts import COUNTED, EVERYTHING, INDEX, INDEXED, needed_for, part_of, uses_index

CALLED = """
import json, sys
from numba.core.dispatcher import Dispatcher

def called():
    modules = [each for name, each in list(sys.modules.items()) if name.startswith("contentcast.")]
    kernels = {each for module in modules for each in vars(module).values() if isinstance(each, Dispatcher)}
    return sorted(f"{each.__module__}.{each.__name__}{signature}" for each in kernels for signature in each.signatures)
"""

BY_PARTS = """
from contentcast import every_kernel
from contentcast.warming.background import kernels
from contentcast.warming.parts import needed_for, uses_index

kernels.ready = uses_index({part!r})
for each in needed_for({part!r}):
    every_kernel.PARTS[each]()
print(json.dumps(called()))
"""

BY_SIMULATE = """
from typer.testing import CliRunner
from contentcast.cli import app

ended = CliRunner().invoke(app, ["simulate", "--events", "30", "--subscriptions", "60", "--topology", "line:4", "--seed", "3"])
assert ended.exit_code == 0, ended.output
print(json.dumps(called()))
"""


def called_by(script: str) -> set[str]:
    """The kernels with their signatures that a process called."""
    ended = subprocess.run([sys.executable, "-c", CALLED + script], capture_output=True, text=True, timeout=400)
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stdout))


def of_index(kernels: set[str]) -> list[str]:
    return [each for each in kernels if each.startswith("contentcast.matching.index.")]


def of_trees(kernels: set[str]) -> list[str]:
    return [each for each in kernels if each.startswith("contentcast.matching.search_tree.")]


def test_simulate_uses_search_trees_and_finds_all_of_them_compiled() -> None:
    compile_parts(EVERYTHING, print)
    has, uses = called_by(BY_PARTS.format(part=COUNTED)), called_by(BY_SIMULATE)
    assert (of_index(has), of_index(uses)) == ([], [])
    assert of_trees(uses)
    assert uses <= has, uses - has


def test_brokers_that_match_with_the_index_need_no_search_tree() -> None:
    compile_parts(EVERYTHING, print)
    has = called_by(BY_PARTS.format(part=INDEXED))
    assert of_index(has)
    assert of_trees(has) == []


@pytest.mark.parametrize(
    ("protocols", "count_steps", "part"),
    [
        (["link-matching", "summaries"], True, COUNTED),
        (["link-matching", "overlay,bits=13"], False, INDEXED),
        (["link-matching", "hybrid,threshold=0.5"], False, EVERYTHING),
        (["package.module:Class"], False, EVERYTHING),
        (["package.module:Class"], True, EVERYTHING),
    ],
)
def test_protocols_name_their_part(protocols: list[str], count_steps: bool, part: str) -> None:
    assert part_of(protocols, count_steps=count_steps) == part


def test_the_job_names_its_part() -> None:
    assert part_used(["two-tier"], routes=True, count_steps=False) == INDEXED
    assert part_used(["two-tier"], routes=True, count_steps=True) == EVERYTHING
    assert part_used(None, routes=True, count_steps=False) == EVERYTHING
    assert part_used(None, routes=False, count_steps=False) == INDEX


def test_parts_know_whether_they_are_of_the_index() -> None:
    assert [each for each in needed_for(EVERYTHING) if not uses_index(each)] == ["search-tree", "summaries", COUNTED]
