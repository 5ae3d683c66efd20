"""The report's section about the papers: every experiment that there is belongs to one of them, and links lead somewhere."""

import re
from pathlib import Path

from contentcast.experiments.catalog import EXPERIMENTS, chosen
from contentcast.pipeline.report.papers import PAPERS, papers_section


def test_every_experiment_is_of_one_of_the_papers() -> None:
    begins = tuple(f"{each.experiments}/" for each in PAPERS)
    assert [name for name in EXPERIMENTS if not name.startswith(begins)] == []
    for each in PAPERS:
        assert chosen(each.experiments), each.experiments


def test_links_lead_to_the_pages_from_where_the_report_is(tmp_path: Path) -> None:
    (tmp_path / "deep" / "out").mkdir(parents=True)
    section = papers_section(tmp_path / "deep" / "out")
    links = re.findall(r'href="([^"]+)"', section)
    assert len(links) == len(PAPERS)
    for link in links:
        assert (tmp_path / "deep" / "out" / link).resolve().is_file(), link
        assert not Path(link).is_absolute(), "a report can be moved together with the source"
