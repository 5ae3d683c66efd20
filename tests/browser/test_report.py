"""The job's report in a real browser: its script runs without a complaint, switches and sorts, and asks no network."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from contentcast.pipeline.feeds import market_feed
from contentcast.pipeline.job import Facts, run_job
from contentcast.pipeline.report.network import load_of

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine (on Debian: apt-get install chromium)")
PROTOCOLS = ["link-matching", "flooding", "match-first-unicast"]


class Report:
    def __init__(self, facts: Facts, path: Path, folder: Path) -> None:
        self.facts, self.path, self.folder = facts, path, folder

    def opened(self, *, at: str = "", then: str = "", options: tuple[str, ...] = ()) -> tuple[str, str]:
        """The page as it stands after its script and `then` ran, and what the browser complained about."""
        assert BROWSER is not None
        copy = self.folder / "copy.html"
        copy.write_text(self.path.read_text() + (f"<script>{then}</script>" if then else ""))
        profile = self.folder / "profile"
        command = [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
        ]
        ended = subprocess.run(
            [*command, "--host-resolver-rules=MAP * ~NOTFOUND", *options, "--dump-dom", f"{copy.as_uri()}{at}"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        shutil.rmtree(profile, ignore_errors=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout, "\n".join(line for line in ended.stderr.splitlines() if "CONSOLE" in line)


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("report")
    facts = run_job(spark, market_feed(spark, 400, 200, 3), folder / "out", PROTOCOLS, lambda name: nullcontext())
    return Report(facts, folder / "out" / "report.html", folder)


class Texts(HTMLParser):
    """The text of every cell in the body of one table, row by row, and which buttons are pressed."""

    def __init__(self, id: str) -> None:
        super().__init__()
        self.id, self.inside, self.body = id, False, False
        self.rows: list[list[str]] = []
        self.pressed: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if tag == "button" and found.get("aria-pressed") == "true":
            self.pressed.append(str(found["data-protocol"]))
        self.inside |= found.get("id") == self.id
        self.body |= self.inside and tag == "tbody"
        if self.body and tag == "tr":
            self.rows.append([])
        if self.body and tag == "td":
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if self.body and tag == "tbody":
            self.inside = self.body = False

    def handle_data(self, data: str) -> None:
        if self.body and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def read(page: str, id: str) -> Texts:
    texts = Texts(id)
    texts.feed(page)
    return texts


def test_it_opens_without_a_complaint(report: Report) -> None:
    page, complaints = report.opened()
    assert complaints == ""
    assert read(page, "busiest-links").pressed == ["link-matching"] * 2


def test_complaints_would_be_seen(report: Report) -> None:
    _, complaints = report.opened(then="nothingOfThatName()")
    assert "nothingOfThatName is not defined" in complaints


def test_choosing_a_protocol_changes_the_whole_page(report: Report) -> None:
    before, _ = report.opened()
    page, complaints = report.opened(then="document.querySelector('.switch [data-protocol=flooding]').click()")
    assert complaints == ""
    texts = read(page, "busiest-links")
    assert texts.pressed == ["flooding"] * 2
    flooding = report.facts.routes["flooding"].totals
    (first, *_) = flooding.links().to_pylist()
    assert texts.rows[0][:3] == [first["from"], first["to"], str(first["messages"])]
    assert texts.rows != read(before, "busiest-links").rows
    drawn = re.findall(r'class="link" style="--s: ?([\d.]+);?"', page)
    assert list(map(float, drawn)) == load_of(report.facts.routes["flooding"], report.facts.events)["links"]


def test_a_link_to_a_protocol_opens_with_it(report: Report) -> None:
    page, _ = report.opened(at="#match-first-unicast")
    assert read(page, "protocols").pressed == ["match-first-unicast"] * 2


def test_a_table_sorts_by_its_headings(report: Report) -> None:
    press = "document.querySelectorAll('#protocols th button')[1].click();"
    down, _ = report.opened(then=press)
    up, _ = report.opened(then=press * 2)
    names = [row[0] for row in read(down, "protocols").rows]
    assert names[0].startswith("flooding")
    assert [row[0] for row in read(up, "protocols").rows] != names
    assert sorted(row[0] for row in read(up, "protocols").rows) == sorted(names)


def test_the_theme_changes(report: Report) -> None:
    page, _ = report.opened(then="document.querySelector('.theme').click()")
    assert 'data-theme="dark"' in page


@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_is_wider_than_the_screen(report: Report, width: int) -> None:
    measure = "document.body.dataset.wide = document.documentElement.scrollWidth; document.body.dataset.seen = innerWidth"
    page, _ = report.opened(then=measure, options=(f"--window-size={width},900",))
    wide, seen = (int(page.partition(f'data-{name}="')[2].partition('"')[0]) for name in ("wide", "seen"))
    assert wide <= seen
