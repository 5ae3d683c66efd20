"""`contentcast run`: the whole job from the command line, and one line for whatever is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from contentcast.cli import EXAMPLES, app
from contentcast.commands.run import EVENTS_AND_SUBSCRIPTIONS, Size
from contentcast.commands.run_config import EXAMPLE, read_config
from contentcast.model import ContentcastError
from contentcast.pipeline import side_by_side
from contentcast.pipeline.job import USUAL
from contentcast.pipeline.side_by_side import SYSTEMS
from contentcast.spark import read_deliveries
from tests.progress import without_progress


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def say(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), prog_name="contentcast")


def works(*words: str) -> str:
    result = say(*words)
    assert result.exit_code == 0, result.output
    assert without_progress(result.stderr) == ""
    return result.stdout


def fails(*words: str) -> str:
    result = say("run", *words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    told = without_progress(result.stderr)
    assert told.count("\n") == 1, result.stderr
    return told.removeprefix("contentcast: ").rstrip("\n")


def test_the_example_shows_every_protocol_against_the_lower_bound(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "SUBSCRIPTIONS", 100)  # the slowest system takes a minute for the job's own sample
    monkeypatch.setattr(side_by_side, "EVENTS", 400)
    said = works(*EXAMPLES["run"].split()[1:])
    assert "…" not in said
    sample, _, everything = said.partition(" subscriptions:")
    assert sample.startswith("Against broadcast, link-matching saves ")
    for name in ("topics", *SYSTEMS):
        (line,) = [each for each in sample.splitlines() if each.strip().split()[:1] == [name]]
        assert "…" not in line
    assert pq.read_table("out/routes/side_by_side.parquet")["system"].to_pylist()[:2] == ["flooding", "topics"]
    lines = everything.splitlines()
    for name in USUAL:
        (line,) = [each for each in lines if each.strip().split()[:1] == [name]]
        assert "…" not in line
    (bound,) = [each.split() for each in lines if "lower bound" in each]
    (exact,) = [each.split() for each in lines if each.strip().startswith("link-matching ")]
    assert exact[1:4] == [*bound[2:4], "1.000"]  # as many messages as there must be
    events, subscriptions = EVENTS_AND_SUBSCRIPTIONS[Size.SMALL]
    assert f"{events - 2:,} events (2 bad records in out/quarantine) met {subscriptions - 1:,} subscriptions (1 refused" in said
    assert "delivered counts an event once for each subscriber." in said
    assert "The report is out/report.html." in said
    assert Path("out/report.html").exists()
    assert pq.read_table("out/routes/protocols.parquet")["protocol"].to_pylist() == list(USUAL)


def test_the_example_config_works_as_it_stands(spark: SparkSession) -> None:
    works("workload", "market", "--events", "300", "--subscriptions", "60", "--out", "market")
    Path("job.toml").write_text(works("run", "--example-config"))
    told = json.loads(works("run", "--config", "job.toml", "--protocol", "link-matching", "--protocol", "flooding", "--json"))
    assert [row["protocol"] for row in told["protocols"]] == ["link-matching", "flooding"]
    assert (told["events"], told["subscriptions"], told["out"]) == (300, 60, "market/out")
    assert told["matches"] == read_deliveries(spark, "market/out/deliveries").count() > 0
    assert told["protocols"][0]["messages"] == told["lower bound"]["messages"]
    assert told["protocols"][1]["messages"] == 300 * 12
    # A second time it replaces what it made, and nothing else.
    works("run", "--config", "job.toml", "--protocol", "flooding", "--json")
    assert sorted(each.name for each in Path("market").iterdir()) == [
        "events.parquet",
        "out",
        "space.json",
        "subscriptions.parquet",
    ]


def test_a_stream_takes_what_is_new(spark: SparkSession) -> None:
    works("workload", "market", "--events", "200", "--subscriptions", "60", "--out", "market")
    Path("feed").mkdir()
    Path("market/events.parquet").rename("feed/one.parquet")
    Path("job.toml").write_text(BARE.replace("market/events.parquet", "feed").replace("market/out", "followed"))
    told = json.loads(works("run", "--config", "job.toml", "--stream", "--once", "--json"))
    assert (told["events"], told["pairs"]) == (200, read_deliveries(spark, "followed/matches").count())
    again = json.loads(works("run", "--config", "job.toml", "--stream", "--once", "--json"))
    assert (again["events"], again["pairs"]) == (0, 0)


# --- what can be wrong


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "there is no file job.toml; contentcast run --example-config prints one to begin with"),
        ("space = ", "job.toml is no TOML: Invalid value (at end of document)"),
        ("spase = 'x'", "job.toml: there is no setting 'spase'; did you mean 'space'?"),
        ("space = 3", "job.toml: space is a text, got 3"),
        ("events = []", "job.toml: events is a list of texts, got []"),
        (
            "space = 's'\nevents = 'e'",
            "job.toml: subscriptions is missing; contentcast run --example-config shows all settings",
        ),
        (
            EXAMPLE.replace('"b1"', '"b1"\nprotocols = ["floding"]'),
            "there is no protocol 'floding'; did you mean 'flooding'?",
        ),
    ],
)
def test_a_wrong_file_is_said_in_one_line(text: str | None, complaint: str) -> None:
    if text is not None:
        Path("job.toml").write_text(text)
    assert fails("--config", "job.toml") == complaint
    assert not list(Path().glob("*out*"))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--size", "small", "--config", "x"], "run: --size is of the made day, and --config has your own; leave one out"),
        (["--stream"], "run: --stream and --once go with --config"),
        (["--memory", "4q"], "--memory takes a number and a unit, such as 512m or 4g, got '4q'"),
        (["--memory", "100m"], "--memory 100m is too little: Spark needs 512m or more"),
        (
            ["--master", "sprk"],
            "--master takes local[*] or local[4], spark://HOST:7077, yarn or k8s://https://HOST:PORT, got 'sprk'",
        ),
        (["--protocol", "gossip"], "there is no protocol 'gossip'"),
        (["--out", "file"], "file is a file, not a folder"),
        (["--out", "mine"], "mine holds diary.txt, which contentcast did not make; choose another folder with --out"),
    ],
)
def test_wrong_words_are_said_in_one_line(words: list[str], complaint: str) -> None:
    Path("file").touch()
    Path("mine").mkdir()
    Path("mine/diary.txt").write_text("mine")
    assert fails(*words).startswith(complaint)
    assert Path("mine/diary.txt").read_text() == "mine"


STREAM, LIVE = ["--stream"], ["--stream", "--broker", "127.0.0.1:1"]
BARE = re.sub("(?m)^(topology|entry) .*$", "", EXAMPLE)


@pytest.mark.parametrize(
    ("change", "words", "complaint"),
    [
        (("events.parquet", "nowhere.parquet"), [], "there is no event file market/nowhere.parquet"),
        (("market/space.json", "market/spce.json"), [], "there is no space file market/spce.json"),
        (("subscriptions.parquet", "rules.csv"), [], "there is no subscription file market/rules.csv"),
        (("tree:3x3", "lime:3"), [], "contentcast has no network 'lime:3'; did you mean 'line'?"),
        (('"b1"', '"b99"'), [], "the network has no broker 'b99'; did you mean 'b9'?"),
        (("# publisher", "publisher"), [], "publisher names a column and entry one broker for all events; say one of them"),
        (
            ("# to =", "to ="),
            [],
            "job.toml: the matches go to an address only with --stream; add it, or leave out to",
        ),
        (
            ("# durable", "durable"),
            [],
            "job.toml: only --stream --broker URL uses a live broker; add both, or leave out durable",
        ),
        (("", ""), ["--seed", "3"], "run: --seed is of the made day, and --config has your own; leave one out"),
        (("", ""), ["--once"], "run: --once goes with --stream"),
        (
            ('# jars = ["~/.cache/contentcast/jars/kafka"]', 'jars = ["nowhere"]'),
            [],
            "there are no packages of Spark at nowhere",
        ),
        (('# conf = ["spark.', 'conf = ["'), [], "--conf takes a setting of Spark, spark.NAME=VALUE, got 'sql."),
        (("", ""), STREAM, "job.toml: with --stream nothing is routed; leave out topology, entry"),
        (("# protocols", "protocols"), LIVE, "job.toml: with --stream nothing is routed; leave out topology, entry, protocols"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(
    change: tuple[str, str], words: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("contentcast.spark.session"), "command_session", None)
    works("workload", "market", "--events", "10", "--subscriptions", "60", "--out", "market")
    Path("job.toml").write_text(EXAMPLE.replace(*change))
    assert fails("--config", "job.toml", *words).startswith(complaint)
    assert not list(Path("market").glob("*out*"))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([*STREAM, "--protocol", "flooding"], "run: --stream matches and delivers, and no more; leave out --protocol"),
        ([*STREAM, "--steps", "--open"], "run: --stream matches and delivers, and no more; leave out --steps, --open"),
        (
            LIVE,
            "job.toml: with --broker the events come from there, and the deliveries go back; leave out events",
        ),
    ],
)
def test_a_stream_refuses_what_it_does_not_do(words: list[str], complaint: str) -> None:
    Path("job.toml").write_text(BARE)
    assert fails("--config", "job.toml", *words) == complaint


@pytest.mark.parametrize("more", [[], ["--broker", "127.0.0.1:1"]])
def test_a_stream_is_not_forced_and_it_is_run_that_says_so(more: list[str]) -> None:
    works("workload", "market", "--events", "10", "--subscriptions", "60", "--out", "market")
    Path("job.toml").write_text(re.sub("(?m)^events .*$", "", BARE) if more else BARE)
    Path("market/out").mkdir()
    assert fails("--config", "job.toml", "--stream", *more, "--out", "market") == (
        "market was not written by a stream; choose another folder"
    )
    Path("market/out/_stream").touch()
    assert fails("--config", "job.toml", "--stream", *more, "--force") == (
        "run: a stream goes on where it stopped; to start anew choose another folder, or remove this one"
    )


def test_a_job_has_the_packages_and_settings_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is asked for with them; a stream with a live broker, too."""
    asked: list[tuple[str, dict[str, str]]] = []

    def command_session(name: str, master: str, settings: dict[str, str]) -> None:
        asked.append((master, settings))
        raise ContentcastError("that is enough")

    monkeypatch.setattr(import_module("contentcast.spark.session"), "command_session", command_session)
    works("workload", "market", "--events", "10", "--subscriptions", "60", "--out", "market")
    Path("a.jar").touch()
    more = 'jars = ["a.jar"]\nconf = ["spark.x=1"]\nmaster = "local[3]"\n'
    Path("job.toml").write_text(EXAMPLE + more)
    assert fails("--config", "job.toml") == "that is enough"
    Path("live.toml").write_text(re.sub("(?m)^events .*$", "", BARE) + more)
    assert fails("--config", "live.toml", *LIVE, "--memory", "1g") == "that is enough"
    memory = {"spark.driver.memory": "1g", "spark.executor.memory": "1g"}
    jars = {"spark.jars": str(Path("a.jar").absolute()), "spark.x": "1"}
    assert asked == [("local[3]", jars), ("local[3]", memory | jars)]


def test_paths_start_from_the_folder_of_the_file() -> None:
    Path("jobs").mkdir()
    Path("jobs/a.toml").write_text(EXAMPLE.replace('"tree:3x3"', '"net.json"'))
    told = read_config(Path("jobs/a.toml"))
    assert (told.space, told.events) == ("jobs/market/space.json", ["jobs/market/events.parquet"])
    assert (told.topology, told.out, told.entry) == ("jobs/net.json", "jobs/market/out", "b1")


def test_ctrl_c_ends_the_job_and_leaves_nothing(tmp_path: Path) -> None:
    """As a terminal does it: every process of the job gets the signal, Spark's too."""
    command = [sys.executable, "-m", "contentcast.cli", "run", "--size", "medium", "--master", "local[2]"]
    running = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, start_new_session=True)
    while running.poll() is None and not list(tmp_path.glob(".out.unfinished-*/events")):
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    said, complained = running.communicate(timeout=60)
    assert (running.returncode, said) == (130, ""), complained
    assert "py4j" not in complained
    assert "KeyboardInterrupt" not in complained
    assert list(tmp_path.iterdir()) == []
