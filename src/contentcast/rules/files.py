"""Files of rules as people have them: one rule, an array, JSON lines, one a line, a table, or what a tool exports.

| file | rules |
| --- | --- |
| `.csv`, `.parquet` | a column `rule`, and perhaps `subscription` or `name` |
| JSON, an array | one for each element |
| JSON, an object | one, or the list inside that `aws events list-rules`, RabbitMQ's definitions or a list of silences has |
| anything else | one a line; a line may be JSON |

An object that wraps a rule (`{"name": ..., "rule": ...}`, `{"Name": ..., "EventPattern": ...}`, a binding with its
`arguments`) gives the rule its name.
Rule: a rule that cannot be read refuses itself and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.plain_files import check_plain
from contentcast.model.space import Space
from contentcast.model.text_tables import plain_ids, read_csv_texts
from contentcast.rules.errors import RuleError
from contentcast.rules.json_text import read_json
from contentcast.rules.sources import translate_many, translator

RULE: Final = "rule"
_NAMES: Final = ("name", "Name", "id", "subscription", "destination")
_LISTS: Final = {"eventbridge": "Rules", "headers": "bindings"}
_WRAPPED: Final = {"eventbridge": "EventPattern", "headers": "arguments"}
_IN_JSON: Final = frozenset(_WRAPPED)


@dataclass(frozen=True, slots=True)
class GivenRule:
    """`number` counts the rules of a file from 1; `rule` is what the source's translator takes, or why it could not be read."""

    number: int
    rule: Any
    name: str | int | None = None

    @property
    def said(self) -> str:
        return f"rule {self.number}" + (f" ({self.name})" if self.name is not None else "")


@dataclass(frozen=True)
class Translated:
    """What became of the rules of a file: the text of each, or why there is none."""

    done: list[tuple[GivenRule, str]]
    refused: list[tuple[GivenRule, RuleError]]


def translate_rules(space: Space, source: str, rules: list[GivenRule], **options: Any) -> Translated:
    found = Translated([], [])
    for each, said in zip(rules, translate_many(space, source, [each.rule for each in rules], **options), strict=True):
        if isinstance(said, RuleError):
            found.refused.append((each, said))
        else:
            found.done.append((each, said))
    return found


def read_rules(path: str | Path, source: str, *, whole: bool = False) -> list[GivenRule]:
    """The rules of a file; with `whole` its text is one rule, line breaks and all."""
    translator(source)
    path = Path(path)
    check_plain(path)
    try:
        if path.suffix.lower() in _TABLES and not whole:
            return _from_table(path, _TABLES[path.suffix.lower()](path))
        text = path.read_text(encoding="utf-8-sig")
    except pa.ArrowException as reason:
        raise ContentcastError(f"{path} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise ContentcastError(f"{path} is not text in UTF-8") from None
    found = [GivenRule(1, text.strip())] if whole else rules_of_text(text, source)
    if not found:
        raise ContentcastError(f"{path} holds no rules")
    return found


def rules_of_text(text: str, source: str) -> list[GivenRule]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _from_json(read_json(text), source)
        except RuleError:
            pass  # JSON lines, or a selector in braces; a line that is none is refused below
    lines = (line.strip() for line in text.splitlines())
    return [_from_line(number, line, source) for number, line in enumerate(filter(None, lines), 1)]


_TABLES: Final[dict[str, Any]] = {
    ".csv": read_csv_texts,
    ".parquet": pyarrow.parquet.read_table,
}


def _from_table(path: Path, table: pa.Table) -> list[GivenRule]:
    if RULE not in table.column_names:
        raise ContentcastError(f"{path} has no column {RULE!r}{nearest(RULE, table.column_names)}")
    named = next((each for each in _NAMES if each in table.column_names), None)
    names = plain_ids(table[named]).to_pylist() if named else [None] * len(table)
    rules = table[RULE].to_pylist()
    return [GivenRule(number, rule, name) for number, (rule, name) in enumerate(zip(rules, names, strict=True), 1)]


def _from_json(given: Any, source: str) -> list[GivenRule]:
    if isinstance(given, Mapping) and isinstance(given.get(_LISTS.get(source, "")), list):
        given = given[_LISTS[source]]
        if source == "eventbridge":  # a rule on a schedule has no pattern
            given = [each for each in given if not isinstance(each, Mapping) or "EventPattern" in each]
    rules = given if isinstance(given, list) else [given]
    return [_unwrapped(number, each, source) for number, each in enumerate(rules, 1)]


def _from_line(number: int, line: str, source: str) -> GivenRule:
    if source not in _IN_JSON and line[:1] not in ("{", "[", '"'):
        return GivenRule(number, line)
    try:
        return _unwrapped(number, read_json(line), source)
    except RuleError as reason:
        return GivenRule(number, reason if source in _IN_JSON else line)


def _unwrapped(number: int, given: Any, source: str) -> GivenRule:
    if not isinstance(given, Mapping):
        return GivenRule(number, given)
    name = next((given[each] for each in _NAMES if isinstance(given.get(each), str | int)), None)
    inside = _WRAPPED.get(source, "")
    if inside in given:
        return GivenRule(number, given[inside], name)
    if RULE in given and (name is not None or (set(given) == {RULE} and isinstance(given[RULE], str))):
        return GivenRule(number, given[RULE], name)
    return GivenRule(number, given)
