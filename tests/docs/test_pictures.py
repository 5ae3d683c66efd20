"""The picture of the index's rooms in docs/internals/match-index.md shows the imports that there are, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "src/contentcast/matching/index"
PAGE = ROOT / "docs/internals/match-index.md"
PACKAGE = "contentcast.matching.index"


def drawn() -> set[tuple[str, str]]:
    """The arrows `a --> b & c` of the first mermaid picture."""
    picture = PAGE.read_text(encoding="utf-8").split("```mermaid")[1].split("```")[0]
    lines = re.findall(r"^\s*(\w+) --> (.+)$", picture, re.MULTILINE)
    return {(room, below.strip()) for room, many in lines for below in many.split("&")}


def imported() -> set[tuple[str, str]]:
    """Which room imports from which; `limits`, which lies below them all, is left out as the page says."""
    found = set()
    for path in INDEX.rglob("*.py"):
        room = path.relative_to(INDEX).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[:3] == PACKAGE.split("."):
                rest = str(node.module).split(".")[3:]
                found |= {(room, below) for below in (rest[:1] or [each.name for each in node.names])}
    return {(room, below) for room, below in found if room not in (below, "__init__") and below != "limits"}


def test_the_picture_of_the_rooms_is_true() -> None:
    assert drawn() == imported()
