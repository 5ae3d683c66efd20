"""A mapping specification as TOML.

    number = 2
    control = "udp_ipm://239.192.10.0:6666"
    otherwise = ["udp_ipm://239.192.10.240:6666"]

    [[rows]]
    space = "video"
    group = "udp_ipm://239.192.10.2:6666"
    quality = "reliable"
    filter.media_type = "media_type = 'video'"
    filter.block_h = "block_h >= 0 AND block_h < 2"
    filter.pixels = "ANY"

In `filter`, each attribute that an event may carry has a predicate over it alone, a list of alternatives, or ANY. Other
attributes stand under `others = "ANY"`, or may not be carried (Eide et al. 2003, section 2.5).
Rule: what `to_toml` writes, `from_toml` reads to an equal mapping.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from collections.abc import Mapping as Dict
from pathlib import Path
from typing import Any, Final, cast

from contentcast.language import advertisement, print_predicate
from contentcast.language.relations import ANY
from contentcast.model import Advertisement, Conjunction, Constraint, ContentcastError, Predicate, Space
from contentcast.model.errors import nearest
from contentcast.routing.multicast.groups import MappingError
from contentcast.routing.multicast.mapping import BEST_EFFORT, CONTROL, RELIABLE, MappingId, MappingSpecification, Quality, Row
from contentcast.routing.multicast.mapping_check import checked

KEYS: Final = ("number", "proposer", "control", "otherwise", "rows")
ROW_KEYS: Final = ("space", "group", "quality", "filter", "others")


def load_mapping(path: str | Path, spaces: Iterable[Space]) -> MappingSpecification:
    """The mapping of a TOML file; what is wrong with it is refused with the name of the file."""
    try:
        return from_toml(Path(path).read_text(encoding="utf-8"), spaces)
    except OSError as reason:
        raise MappingError(f"{path}: {reason.strerror}") from None
    except ContentcastError as reason:
        raise MappingError(f"{path}: {reason}") from None


def from_toml(text: str, spaces: Iterable[Space]) -> MappingSpecification:
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as reason:
        raise MappingError(f"no TOML: {reason}") from None
    return from_dict(told, spaces)


def from_dict(told: Dict[str, Any], spaces: Iterable[Space]) -> MappingSpecification:
    _known(told, KEYS, "the mapping")
    named = {each.name: each for each in spaces}
    rows = tuple(_row(number, each, named) for number, each in enumerate(told.get("rows", ())))
    more = {"otherwise": tuple(told["otherwise"])} if "otherwise" in told else {}
    id = MappingId(int(told.get("number", 1)), str(told.get("proposer", "")))
    return checked(MappingSpecification(rows, control=str(told.get("control", CONTROL)), id=id, **more))


def _row(number: int, told: Dict[str, Any], spaces: Dict[str, Space]) -> Row:
    _known(told, ROW_KEYS, f"row {number}")
    for needed in ("space", "group"):
        if needed not in told:
            raise MappingError(f"row {number} has no {needed}; write {needed} = ...")
    space = spaces.get(told["space"])
    if space is None:
        raise MappingError(f"row {number}: no space {told['space']!r} is declared{nearest(told['space'], spaces, 'there are')}")
    quality = told.get("quality", BEST_EFFORT)
    if quality not in (BEST_EFFORT, RELIABLE):
        raise MappingError(f"row {number}: quality is {BEST_EFFORT!r} or {RELIABLE!r}, got {quality!r}")
    filter: dict[str, Any] = dict(told.get("filter", {}))
    if told.get("others") == ANY:
        filter = {**dict.fromkeys(space.names, ANY), **filter}
    elif "others" in told:
        raise MappingError(f'row {number}: others = "ANY" lets events carry all other attributes; got {told["others"]!r}')
    try:
        return Row(advertisement(space, number, filter), str(told["group"]), cast(Quality, quality))
    except ContentcastError as reason:
        raise MappingError(f"row {number}: {reason}") from None


def _known(told: Dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in told:
        if key not in keys:
            raise MappingError(f"{where} has no {key!r}{nearest(key, keys, 'there are')}")


# --- out


def to_toml(mapping: MappingSpecification) -> str:
    lines = [f"number = {mapping.id.number}"]
    if mapping.id.proposer:
        lines.append(f"proposer = {json.dumps(mapping.id.proposer)}")
    lines += [f"control = {json.dumps(mapping.control)}", f"otherwise = {json.dumps(list(mapping.otherwise))}"]
    for row in mapping.rows:
        lines += ["", "[[rows]]", f"space = {json.dumps(row.space.name)}", f"group = {json.dumps(row.group)}"]
        if row.quality != BEST_EFFORT:
            lines.append(f"quality = {json.dumps(row.quality)}")
        lines += _filter_lines(row.filter)
    return "\n".join(lines) + "\n"


def _filter_lines(filter: Advertisement) -> list[str]:
    space = filter.space
    texts = {name: _texts(space, name, filter.allowed[name]) for name in space.names if filter.allowed.get(name)}
    lines = []
    if set(texts) == set(space.names):
        lines.append('others = "ANY"')
        texts = {name: each for name, each in texts.items() if each != [ANY]}
    for name, each in texts.items():
        lines.append(f"filter.{json.dumps(name)} = {json.dumps(each[0] if len(each) == 1 else each, ensure_ascii=False)}")
    return lines


def _texts(space: Space, name: str, allowed: tuple[Constraint, ...]) -> list[str]:
    anything = Constraint.present(space.kinds[name])
    return [
        ANY if each == anything else print_predicate(Predicate.of(space, [Conjunction.of(space, {name: each})]))
        for each in allowed
    ]
