"""Commands as real processes, which end with the test that started them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.stories import Process


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    running: list[Process] = []

    def begin(*words: str, **options: Any) -> Process:
        running.append(Process(tmp_path, *words, **options))
        return running[-1]

    yield begin
    for each in running:
        each.end()
