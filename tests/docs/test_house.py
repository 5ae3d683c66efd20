"""The house keeps its size: a folder that grows past sixteen modules gets rooms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_MODULES = 16


@pytest.mark.parametrize("top", ["src", "tests", "benchmarks"])
def test_no_folder_has_more_modules_than_a_reader_can_look_over(top: str) -> None:
    modules = (path for path in (ROOT / top).rglob("*.py") if path.name != "__init__.py")
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in modules)
    assert counts, f"{top} has modules"
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}
