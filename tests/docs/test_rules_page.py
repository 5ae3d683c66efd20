"""The tables of docs/guide/rules.md: every rule of theirs becomes the text that stands beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import contentcast as cc
from contentcast.rules import SOURCES, translate

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "rules.md").read_text(encoding="utf-8")
HEADINGS = {
    "EventBridge patterns": "eventbridge",
    "CloudEvents SQL": "cesql",
    "JMS selectors": "jms",
    "RabbitMQ header bindings": "headers",
    "Prometheus and Alertmanager matchers": "matchers",
    "MQTT topic filters": "topic",
}
SPACES = {
    "eventbridge": {
        "source": "string",
        "detail.state": "string",
        "detail.total": "float",
        "detail.count": "int",
        "detail.file": "string",
        "detail.ip": "string",
        "detail.urgent": "bool",
        "detail.tags": "list of string",
    },
    "cesql": {"source": "string", "subject": "string", "hop": "int", "urgent": "bool"},
    "jms": {"JMSPriority": "int", "JMSTimestamp": "timestamp", "name": "string", "age": "int", "urgent": "bool"},
    "headers": {"format": "string", "type": "string", "x-tenant": "string"},
    "matchers": {"__name__": "string", "team": "string", "severity": "string", "instance": "string"},
    "topic": {"topic": "string"},
}


def rows() -> list[tuple[str, str, str]]:
    found = []
    for heading, source in HEADINGS.items():
        (part,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
        for line in re.findall(r"^\| (`.*`) \|$", part, re.MULTILINE):
            theirs, ours = (each.strip("`").strip().replace("\\|", "|") for each in re.split(r"(?<!\\) \| ", line))
            found.append((source, theirs, ours))
    return found


def test_every_source_has_its_table() -> None:
    assert {source for source, _, _ in rows()} == set(SOURCES)
    assert len(rows()) > 60


@pytest.mark.parametrize(("source", "theirs", "ours"), rows())
def test_a_row_is_what_happens(source: str, theirs: str, ours: str) -> None:
    rule = json.loads(theirs) if source in ("eventbridge", "headers") else theirs
    assert translate(cc.Space("page", SPACES[source]), source, rule).text == _ticked(ours, source)


def _ticked(text: str, source: str) -> str:
    """The page's cells lose the back-tick of a name at their end when they are read."""
    names = "|".join(re.escape(name) for name in SPACES[source] if not re.fullmatch(r"\w+", name))
    return re.sub(rf"`?\b({names})\b`?", r"`\1`", text) if names else text
