"""Every name of ours that stands in back-ticks exists, and every link leads somewhere; `names.py` has the rules."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.docs.names import PACKAGE, ROOT, Names, Span, find_wrong, is_wrong, spans_of_page, spans_of_source

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def names() -> Names:
    return Names.of(ROOT)


def test_every_name_in_back_ticks_exists() -> None:
    wrong = [f"{each.file}:{each.line}: `{each.text}` is no name of ours" for each in find_wrong(names())]
    if wrong:
        advice = "Correct the name; if it is one that others gave, add it to WORLD in tests/docs/names.py."
        pytest.fail("\n".join([*wrong, advice]), pytrace=False)


def links(text: str) -> list[str]:
    """What the links and pictures of a page lead to."""
    inline = [child for token in MarkdownIt().enable("table").parse(text) for child in token.children or []]
    found = [str(child.attrs.get("href") or child.attrs.get("src") or "") for child in inline]
    return [each for each in found if each and not re.match(r"[a-z]+:", each)]


def headings(text: str) -> set[str]:
    """The anchors of a page: its headings as GitHub writes them."""
    tokens = MarkdownIt().parse(text)
    said = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in said}


def leads_nowhere(link: str, page: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in headings(target.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [each for each in links(text) if leads_nowhere(each, page)] == []


# --- that the above can fail

FILE = f"{PACKAGE}/routing/parts/interest.py"


@pytest.mark.parametrize(
    "text",
    [
        "wire/sises.py",
        "nowhere/space.py",
        "docs/language.md",
        "routing/kontract",
        "model/space.Spice",
        "cc.MatchIndx",
        "cc.MatchIndex.lode",
        "contentcast.model.Spice",
        "MatchIndex.lode(path)",
        "EventBach",
        "add_meny(ids, texts)",
        "on_eror",
    ],
)
@pytest.mark.parametrize("in_docstring", [True, False])
def test_a_wrong_name_is_found(text: str, in_docstring: bool) -> None:
    assert is_wrong(Span(text, FILE if in_docstring else "docs/README.md", 1, in_docstring), names())


@pytest.mark.parametrize(
    ("text", "file"),
    [("wakened", f"{PACKAGE}/routing/parts/versions.py"), ("renewed", f"{PACKAGE}/routing/link_matching/annotated.py")],
)
def test_a_word_that_its_file_no_longer_has_is_found(text: str, file: str) -> None:
    """Both stood in docstrings when what they named had gone."""
    assert is_wrong(Span(text, file, 1, True), names())


@pytest.mark.parametrize(
    "text",
    [
        "wire/encodings/sizes.py",
        "sizes.py",
        "tests/docs/names.py",
        "routing/contract",
        "routing/",
        "model/space.Space",
        "cc.MatchIndex.load",
        "MatchIndex.load(path)",
        "EventBatch",
        "on_error",
        'on_error="reject"',
        "price < 120",
        "--example-config",
        "NULL",
        "numpy.int64",
        "a/b testing",
    ],
)
@pytest.mark.parametrize("in_docstring", [True, False])
def test_a_right_name_or_none_passes(text: str, in_docstring: bool) -> None:
    file = f"{PACKAGE}/model/events/event_batch.py" if in_docstring else "docs/README.md"
    assert not is_wrong(Span(text, file, 1, in_docstring), names())


def test_spans_are_found_with_their_lines() -> None:
    source = 'class A:\n    """One.\n\n    Two `b.c`.\n    """\n\n    x: int = 0\n    """`d`"""\n    y = "`e`"\n'
    assert [(each.text, each.line) for each in spans_of_source(source, "a.py")] == [("b.c", 4), ("d", 8)]
    page = "Text `one`.\n\n```python\n`two`\n```\n\n| a |\n| --- |\n| `three` |\n"
    assert [(each.text, each.line) for each in spans_of_page(page, "page.md")] == [("one", 1), ("three", 9)]


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# The `first` part\n\n[a](gone.md) [b](page.md#the-first-part) [c](#second) [d](https://example.org) ![e](no.png)\n"
    )
    assert [each for each in links(page.read_text()) if leads_nowhere(each, page)] == ["gone.md", "#second", "no.png"]
