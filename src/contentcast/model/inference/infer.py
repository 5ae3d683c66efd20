"""From what was seen to a space: a kind for each field, and a word about each that was mixed, doubtful or left out.

| seen | kind |
| --- | --- |
| ints only | int |
| ints and floats | float; if all floats are whole and there are gaps or ints, int |
| texts that are all ISO 8601 with a time | timestamp |
| lists of one kind, and fields of objects in lists | list of it |
| several kinds | the one of most values; the others will not fit, and the note says how many there were |

Rule: every field that was seen is an attribute or has a note that says why not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contentcast.model.errors import SpaceError
from contentcast.model.inference.samples import look
from contentcast.model.inference.sightings import MOST_FIELDS, Sighting, Sightings
from contentcast.model.space import Attribute, Space
from contentcast.model.values.kinds import KINDS_SAID

MOST_EVENTS: Final = 10_000
"""Events that are looked at unless told otherwise."""


@dataclass(frozen=True)
class Inferred:
    """`space`, and `notes`: what to know of a field, by its name; those that are not in the space were left out."""

    space: Space
    notes: dict[str, str]
    comments: dict[str, str]
    """How often each attribute was there, and examples."""
    looked_at: str

    def to_toml(self) -> str:
        """A file for `Space.load`, with comments, to be edited."""
        lines = [
            f"# Made from {self.looked_at}. Change kinds, add domains, remove what no subscription will ask for.",
            f"name = {_quoted(self.space.name)}",
            "",
            "[attributes]",
        ]
        width = max(len(_key(name)) + len(each.kind) for name, each in self.space.items()) + 5
        for name, attribute in self.space.items():
            line = f"{_key(name)} = {_quoted(attribute.kind)}"
            told = "; ".join(each for each in (self.comments.get(name), self.notes.get(name)) if each)
            lines.append(f"{line:<{min(width, 60)}}  # {told}" if told else line)
        left_out = {name: why for name, why in self.notes.items() if name not in self.space}
        if left_out:
            lines += ["", "# Left out:"]
            lines += [f"# {_one_line(name)}: {why}" for name, why in left_out.items()]
        return "\n".join(lines) + "\n"


def infer_space(
    sample: Any,
    name: str | None = None,
    *,
    most_events: int = MOST_EVENTS,
    advance: Callable[[int], None] | None = None,
) -> Inferred:
    """A space for a sample: dicts, files (paths or patterns), Arrow, pandas, an Arrow schema or a JSON Schema.

    `advance(1)` is called after each file.
    """
    seen, looked_at = look(sample, most_events, advance)
    attributes: dict[str, str | Attribute] = {}
    notes: dict[str, str] = {}
    comments: dict[str, str] = {}
    for field, sighting in seen.fields.items():
        kind, note = _decided(field, sighting, seen)
        if note:
            notes[field] = note
        if kind is None:
            continue
        attributes[field] = kind
        comments[field] = _comment(sighting, seen.events)
    for field in list(attributes):
        if any(other.startswith(f"{field}.") for other in attributes):
            del attributes[field]
            notes[field] = "is an object in some events and a value in others"
    if seen.overflowed:
        notes["..."] = f"there are more than {MOST_FIELDS:,} fields; names that are data, as in a map, cannot be attributes"
    if seen.no_events:
        notes["(lines)"] = f"{seen.no_events:,} records are no JSON objects"
    if not attributes:
        raise SpaceError(
            f"{looked_at}: no field can be an attribute" + "".join(f"; {key} {why}" for key, why in list(notes.items())[:3])
        )
    return Inferred(Space(name or _name_of(sample), attributes), notes, comments, looked_at)


def _name_of(sample: Any) -> str:
    first = sample[0] if isinstance(sample, (list, tuple)) and sample else sample
    if isinstance(first, (str, Path)):
        stem = Path(first).name.split(".")[0]
        return stem if stem.replace("-", "").replace("_", "").isalnum() else "events"
    return "events"


def _decided(name: str, sighting: Sighting, seen: Sightings) -> tuple[str | None, str]:
    """The kind, or None, and what to say about it."""
    if not name.strip() or "`" in name or name.encode("utf-8", "replace").decode() != name:
        return None, "cannot be the name of an attribute"
    if sighting.declared is not None:
        return _if_known(sighting.declared)
    if sighting.why_not:
        return None, sighting.why_not
    kinds = Counter({kind: count for kind, count in sighting.kinds.items() if kind not in ("null", "object") and count})
    if sighting.inside_lists:
        kind, note = _list_kind(sighting, "is in a list of objects")
        outside = f"{_words(kinds)} outside of one, which will not fit (on_error='absent' leaves them out)" if kinds else ""
        return kind, f"mixed: {note}, and {outside}" if outside and kind else note
    if not kinds:
        if sighting.kinds["object"]:
            return None, ""  # its members speak for it
        return None, "is null in every event that was looked at"
    if sighting.kinds["object"]:
        return None, f"is an object in {sighting.kinds['object']:,} events and {_words(kinds)} in others"
    if set(kinds) == {"list"}:
        if set(sighting.elements) == {"object"}:
            return None, ""
        return _list_kind(sighting, "")
    if set(kinds) == {"list of lists"}:
        return None, "is a list inside a list of objects"
    return _scalar_kind(kinds, sighting, gaps=bool(sighting.kinds["null"]))


def _list_kind(sighting: Sighting, where: str) -> tuple[str | None, str]:
    elements = Counter({kind: count for kind, count in sighting.elements.items() if kind != "null" and count})
    if not elements:
        holds = "has nothing but nulls" if sighting.elements["null"] else "is an empty list"
        return None, f"{holds} in every event that was looked at"
    if "list" in elements:
        return None, "is a list of lists"
    if "object" in elements:
        return None, f"is a list of {_words(elements)}"
    kind, note = _scalar_kind(elements, sighting, gaps=bool(sighting.elements["null"]))
    if kind is None:
        return None, f"is a list, and {note}"
    found, why = _if_known(f"list of {kind}")
    return found, "; ".join(each for each in (where, note, why) if each)


def _if_known(kind: str) -> tuple[str | None, str]:
    try:
        Attribute(kind)
    except SpaceError:
        return None, f"is a {kind}, but {KINDS_SAID}"
    return kind, ""


def _scalar_kind(kinds: Counter[str], sighting: Sighting, *, gaps: bool) -> tuple[str | None, str]:
    merged: Counter[str] = Counter(kinds)
    whole = merged.pop("whole float", 0)
    if whole and merged["float"]:
        merged["float"] += whole
    elif whole:
        merged["int" if merged["int"] or gaps else "float"] += whole
    if merged["float"] and merged["int"]:
        merged["float"] += merged.pop("int")
    if merged["date"]:
        merged["string"] += merged.pop("date")
    if merged["string"] and merged["timestamp"]:
        merged["string"] += merged.pop("timestamp")
    merged = +merged
    if set(merged) in ({"timestamp", "int"}, {"timestamp", "float"}):
        return "timestamp", f"{merged['timestamp']:,} are texts, and {merged['int'] + merged['float']:,} numbers since 1970"
    kind, count = merged.most_common(1)[0]
    if kind not in ("string", "int", "float", "bool", "timestamp", "bytes"):
        return None, f"is {_words(merged)}"
    if len(merged) > 1:
        others = +Counter({each: many for each, many in merged.items() if each != kind})
        return kind, f"mixed: {count:,} {kind}, and {_words(others)}, which will not fit (on_error='absent' leaves them out)"
    if kind == "timestamp" and sighting.finer:
        return kind, f"{sighting.finer:,} are finer than a microsecond (finer='round')"
    return kind, "dates without a time are text" if kinds["date"] == count else ""


def _words(kinds: Counter[str]) -> str:
    return " and ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())


def _comment(sighting: Sighting, events: int) -> str:
    there = sum(count for kind, count in sighting.kinds.items() if kind != "null")
    often = f"in {100 * there / events:.0f}%" if events and there and not sighting.inside_lists else ""
    examples = ", ".join(_one_line(json.dumps(each, ensure_ascii=False, default=str)) for each in sighting.examples)
    return ": ".join(each for each in (often, examples) if each)


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("-", "").replace("_", "").isalnum() else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
