"""The section of the report about the papers: which evaluation asks what, how it is run again, and where its results are.

Rule: the names are beginnings of those that `contentcast experiment --list` shows (a test compares them). Links go to the pages
of the source if the package runs from there, relative to the report; an installed package has no pages, and names them only.
"""

from __future__ import annotations

from os.path import relpath
from pathlib import Path
from typing import Final, NamedTuple

import contentcast
from contentcast.pipeline.report.charts import plain_table, text


class Paper(NamedTuple):
    source: str
    system: str
    asks: str
    experiments: str
    """The beginning of their names."""
    page: str


PAPERS: Final = (
    Paper(
        "Banavar et al. 1999",
        "link-matching",
        "How many events can a network carry if brokers look into them, and how much matching is done along the way?",
        "link-matching",
        "experiments/link-matching.md",
    ),
    Paper(
        "Triantafillou & Economides 2004",
        "summaries",
        "How much is sent and stored if brokers tell each other summaries of subscriptions instead of the subscriptions?",
        "summaries",
        "experiments/summaries.md",
    ),
    Paper(
        "Baldoni et al. 2005",
        "overlay",
        "How many hops and how much memory does it take if no broker is special, and keys on a ring decide who matches what?",
        "overlay",
        "experiments/overlay.md",
    ),
    Paper(
        "Eide et al. 2003",
        "multicast",
        "How much does a LAN carry if groups of multicast do the filtering, and what does a change of the groups cost?",
        "lan",
        "experiments/lan.md",
    ),
)
PAGES: Final = Path(contentcast.__file__).parents[2] / "docs"


def papers_section(folder: Path) -> str:
    """`folder`: where the report is, for the links."""
    rows = [
        [
            text(each.source),
            f"<code>{text(each.system)}</code>",
            text(each.asks),
            f"<code>contentcast experiment {text(each.experiments)}</code>",
            _link(each.page, folder),
        ]
        for each in PAPERS
    ]
    headings = [(name, "text") for name in ("paper", "system here", "what it asks", "run it again", "results")]
    return (
        '<section><h2>What the papers measured</h2><p class="quiet">Each of the systems above comes from a paper, whose '
        "evaluation was repeated with the same routers. There every claim of the paper stands beside what came out here, with "
        f"figures. <code>--quick</code> runs a small version in seconds.</p>{plain_table(headings, rows)}</section>"
    )


def _link(page: str, folder: Path) -> str:
    named = f"docs/{page}"
    if not (PAGES / page).is_file():
        return f"<code>{text(named)}</code>"
    place = relpath((PAGES / page).resolve(), folder.resolve()).replace("\\", "/")
    return f'<a href="{text(place)}">{text(named)}</a>'
