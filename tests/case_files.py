"""The hand-checked cases in tests/cases, for every engine and host that must agree with them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from contentcast.model import EventBatch, Space, from_json_lines

FOLDER = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """Which of the subscriptions the event satisfies."""

    name: str
    space: Space
    subscriptions: dict[int, str]
    batch: EventBatch
    expected: list[int]

    @property
    def event(self) -> dict[str, Any]:
        return self.batch.to_dicts()[0]


def described(folder: str = "") -> list[tuple[str, Space, dict[str, Any]]]:
    """Each case of a folder with the name of its file and its space."""
    found = []
    for path in sorted((FOLDER / folder).glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        space = Space.from_dict(content["space"])
        found += [(f"{path.stem}: {case['name']}", space, case) for case in content["cases"]]
    return found


@cache
def cases() -> tuple[Case, ...]:
    found = []
    for name, space, case in described():
        subscriptions = {int(each): text for each, text in case["subscriptions"].items()}
        batch = from_json_lines(space, [json.dumps(case["event"])])
        found.append(Case(name, space, subscriptions, batch, sorted(case["expected"])))
    return tuple(found)
