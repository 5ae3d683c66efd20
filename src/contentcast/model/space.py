"""An information space: a name and its ordered, typed attributes, each with an optional declared domain.

Gryphon's word (Banavar et al. 1999, section 1): subscriptions and events belong to one space, and only they meet.
Rule: a space never changes once made; it is equal to, and hashes as, its description (`to_dict`).
"""

from __future__ import annotations

import base64
import json
import tomllib
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from contentcast.model.errors import ContentcastError, SpaceError, nearest
from contentcast.model.plain_files import check_plain, meant, once
from contentcast.model.values.kinds import BOOL, KINDS, KINDS_SAID, LISTS, Kind, Value
from contentcast.model.values.ranges import Ranges

MOST_BYTES: Final = 16 * 2**20
"""Of a file that describes a space."""


@dataclass(frozen=True)
class Attribute:
    """A kind and, if declared, the domain: every value from `low` to `high`, or the `values` listed.

    An event with a value outside the domain is refused; `covers` and `overlaps` use it to decide more.
    """

    kind: str
    low: Value | None = None
    high: Value | None = None
    values: tuple[Value, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise SpaceError(f"there is no kind {self.kind!r}{nearest(str(self.kind), KINDS, 'the kinds are')}")
        if self.kind in LISTS and self.has_domain:
            raise SpaceError("a list has no domain; leave low, high and values out")
        if self.values is not None:
            if self.low is not None or self.high is not None:
                raise SpaceError("a domain is either low/high or values, not both")
            if isinstance(self.values, (str, bytes)) or not isinstance(self.values, Collection) or not len(self.values):
                raise SpaceError(f"values must list at least one value, got {self.values!r}")
            checked = [self._checked(value) for value in self.values]
            # A set has no order of its own; sorted, it describes the same space in every process.
            object.__setattr__(self, "values", tuple(sorted(checked) if isinstance(self.values, Set) else checked))
        if self.kind == BOOL.name and (self.low is not None or self.high is not None):
            raise SpaceError("a bool has no low and high; list its values")
        for bound in ("low", "high"):
            if getattr(self, bound) is not None:
                object.__setattr__(self, bound, self._checked(getattr(self, bound)))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise SpaceError(f"low {self.low!r} is above high {self.high!r}")

    def _checked(self, value: Value) -> Value:
        try:
            return KINDS[self.kind].read(value)
        except ValueError as reason:
            raise SpaceError(f"the domain of {KINDS[self.kind].article}: {reason}") from None

    @property
    def domain(self) -> Ranges:
        """Every value an event may carry here."""
        kind = KINDS[self.kind]
        if self.values is not None:
            return Ranges.points(kind, self.values)
        return Ranges.between(kind, self.low, self.high)

    @property
    def has_domain(self) -> bool:
        return self.values is not None or self.low is not None or self.high is not None

    def to_dict(self) -> str | dict[str, Any]:
        if not self.has_domain:
            return self.kind
        described: dict[str, Any] = {"kind": self.kind}
        if self.values is not None:
            described["values"] = [_plain(value) for value in self.values]
        for bound in ("low", "high"):
            if getattr(self, bound) is not None:
                described[bound] = _plain(getattr(self, bound))
        return described


def _is_text(name: str) -> bool:
    """No lone surrogates, which no file and no Arrow schema can hold."""
    return name.encode("utf-8", "replace").decode() == name


def _plain(value: Value) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


class Space:
    """`Space("trades", issue="string", price=Attribute("float", low=0.0))`; a mapping serves for dotted names."""

    def __init__(self, name: str, attributes: Mapping[str, str | Attribute] | None = None, /, **named: str | Attribute) -> None:
        if not isinstance(name, str) or not name.strip():
            raise SpaceError(f"a space needs a name, got {name!r}")
        self.name = name
        self._attributes: dict[str, Attribute] = {}
        if attributes is not None and not isinstance(attributes, Mapping):
            raise SpaceError(f"space {name}: attributes come as a mapping, {{'price': 'float'}}, not {attributes!r}")
        for each, described in (*(attributes or {}).items(), *named.items()):
            if not isinstance(each, str) or not each.strip() or "`" in each or not _is_text(each):
                raise SpaceError(f"space {name}: {each!r} cannot be an attribute name")
            if each in self._attributes:
                raise SpaceError(f"space {name} names the attribute {each} twice")
            try:
                self._attributes[each] = described if isinstance(described, Attribute) else Attribute(described)
            except SpaceError as reason:
                raise SpaceError(f"space {name}, attribute {each}: {reason}") from None
        if not self._attributes:
            raise SpaceError(f"space {name} has no attributes; name them: Space({name!r}, price='float')")

    # --- asking

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self._attributes)

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        return {name: KINDS[attribute.kind] for name, attribute in self._attributes.items()}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, kind.arrow) for name, kind in self.kinds.items()])

    def __getitem__(self, name: str) -> Attribute:
        try:
            return self._attributes[name]
        except KeyError:
            raise SpaceError(f"{self.name} has no attribute {name!r}{nearest(str(name), self.names)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def items(self) -> Iterator[tuple[str, Attribute]]:
        return iter(self._attributes.items())

    def position(self, name: str) -> int:
        return self._positions[name]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self._attributes)}

    def extends(self, other: Space) -> bool:
        """Does it have all that the other has, with the same kinds?"""
        return self.name == other.name and all(
            name in self._attributes and self._attributes[name].kind == each.kind for name, each in other.items()
        )

    def joined(self, other: Space) -> Space:
        """With what the other has besides. An attribute of both keeps its domain where they agree, and has none where not."""
        if self.extends(other) and list(other.items()) == [(name, self._attributes[name]) for name in other]:
            return self
        merged: dict[str, str | Attribute] = dict(self._attributes)
        for name, each in other.items():
            mine = self._attributes.get(name)
            if mine is not None and mine.kind != each.kind:
                raise SpaceError(
                    f"space {self.name}: the attribute {name} is {mine.kind} here and {each.kind} there; give one another name"
                )
            merged[name] = each if mine is None or mine == each else each.kind
        return Space(self.name, merged)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Space)
            and self.name == other.name
            and list(self._attributes.items()) == list(other._attributes.items())
        )

    def __hash__(self) -> int:
        return hash((self.name, self.names))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}: {attribute.kind}" for name, attribute in self._attributes.items())
        return f"Space({self.name!r}, {inside})"

    # --- files

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "attributes": {name: each.to_dict() for name, each in self._attributes.items()}}

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Self:
        given = described if isinstance(described, Mapping) else {}
        unknown = set(given) - {"name", "attributes"}
        if unknown or not isinstance(given.get("attributes"), Mapping):
            what = f"does not know {', '.join(sorted(map(str, unknown)))}" if unknown else "lacks its attributes"
            raise SpaceError(f'a space description {what}; write {{"name": ..., "attributes": {{"price": "float"}}}}')
        attributes: dict[str, str | Attribute] = {}
        for name, each in described["attributes"].items():
            if isinstance(each, Mapping):
                strange = set(each) - {"kind", "low", "high", "values"}
                if strange or "kind" not in each:
                    what = f"does not know {', '.join(sorted(map(str, strange)))}" if strange else "lacks its kind"
                    raise SpaceError(f"attribute {name} {what}; it may say kind, low, high and values")
                try:
                    attributes[name] = Attribute(**each)
                except SpaceError as reason:
                    raise SpaceError(f"attribute {name}: {reason}") from None
            else:
                attributes[name] = each
        return cls(described.get("name", ""), attributes)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """From a .toml or .json file."""
        path = Path(path)
        try:
            check_plain(path, MOST_BYTES)
            text = path.read_text(encoding="utf-8-sig")
            described = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text, object_pairs_hook=once)
        except ContentcastError as reason:
            raise SpaceError(str(reason)) from None
        except FileNotFoundError:
            hint = meant(path) or f"; `contentcast space EVENTS --out {path}` makes one"
            raise SpaceError(f"there is no space file {path}{hint}") from None
        except OSError as reason:
            raise SpaceError(f"{path} cannot be read: {reason.strerror}") from None
        except RecursionError:
            raise SpaceError(f"{path} is not JSON of a space: nested too deeply") from None
        except ValueError as reason:
            kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
            hint = "" if path.suffix.lower() in (".toml", ".json") else ". A space is a .toml or .json file"
            raise SpaceError(f"{path} is not {kind}: {reason}{hint}") from None
        try:
            return cls.from_dict(described)
        except SpaceError as reason:
            raise SpaceError(f"{path}: {reason}") from None

    def save(self, path: str | Path) -> None:
        """As JSON, readable by `load`."""
        if Path(path).suffix.lower() == ".toml":
            raise SpaceError(f"a space is saved as JSON, and {path} would be read as TOML; name it {Path(path).stem}.json")
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    # --- other people's schemas

    @classmethod
    def from_arrow(cls, name: str, schema: pa.Schema) -> Self:
        """Kinds from Arrow types; structs flatten to dotted names."""
        return cls(name, _once(name, _from_arrow("", schema)))

    @classmethod
    def infer(cls, sample: Any, name: str | None = None, *, most_events: int = 10_000) -> Space:
        """By looking at a sample: dicts, files or patterns of them, Arrow, pandas, or a JSON Schema.

        `model.inference.infer_space` tells also what was mixed or left out, and writes a TOML file to edit.
        """
        from contentcast.model.inference import infer_space  # which builds on events, and they on spaces

        return infer_space(sample, name, most_events=most_events).space

    @classmethod
    def from_spark(cls, name: str, schema: Any) -> Self:
        """Kinds from a Spark `StructType` (or a DataFrame's `.schema`); structs flatten to dotted names."""
        return cls(name, _once(name, _from_spark("", schema.jsonValue())))


def _once(space: str, columns: Iterator[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, kind in columns:
        if name in found:
            raise SpaceError(f"space {space}: the schema has the column {name} twice; rename or drop one")
        found[name] = kind
    return found


def _from_arrow(above: str, fields: Any) -> Iterator[tuple[str, str]]:
    for field in fields:
        type_ = field.type
        while pa.types.is_dictionary(type_):
            type_ = type_.value_type
        if pa.types.is_struct(type_):
            yield from _from_arrow(f"{above}{field.name}.", [type_.field(i) for i in range(type_.num_fields)])
            continue
        if is_list(type_) and pa.types.is_struct(type_.value_type):
            value = type_.value_type
            yield from _lists(_from_arrow(f"{above}{field.name}.", [value.field(i) for i in range(value.num_fields)]))
            continue
        found = _arrow_kind(type_)
        if found not in KINDS:
            raise SpaceError(f"column {above}{field.name} is {type_}, but {KINDS_SAID}; drop it or cast it first")
        yield above + field.name, found


def _lists(members: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Of a list of objects: each member is a list of its own."""
    for name, kind in members:
        if f"list of {kind}" not in LISTS:
            raise SpaceError(f"column {name} is a list of {kind}, but {KINDS_SAID}; drop it or cast it first")
        yield name, f"list of {kind}"


def _arrow_kind(type_: pa.DataType) -> str:
    """The name of the kind; '' or no kind's name if there is none."""
    if is_list(type_):
        value = type_.value_type
        return f"list of {_arrow_kind(value.value_type if pa.types.is_dictionary(value) else value)}"
    return next((kind for recognises, kind in ARROW_KINDS if recognises(type_)), "")


def is_list(type_: pa.DataType) -> bool:
    types = pa.types
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(recognises(type_) for recognises in lists)


ARROW_KINDS = (
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_boolean, "bool"),
    (pa.types.is_integer, "int"),
    (pa.types.is_floating, "float"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_binary_view, "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
)

_SPARK_KINDS = {
    "string": "string",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "boolean": "bool",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
    "binary": "bytes",
}


def _from_spark(above: str, described: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field in described["fields"]:
        name, type_ = above + field["name"], field["type"]
        if isinstance(type_, Mapping) and type_.get("type") == "struct":
            yield from _from_spark(f"{name}.", type_)
        elif isinstance(type_, str) and type_ in _SPARK_KINDS:
            yield name, _SPARK_KINDS[type_]
        elif isinstance(type_, Mapping) and type_.get("type") == "array" and _is_struct(type_["elementType"]):
            yield from _lists(_from_spark(f"{name}.", type_["elementType"]))
        elif isinstance(type_, Mapping) and type_.get("type") == "array" and _spark_list(type_) in LISTS:
            yield name, _spark_list(type_)
        else:
            raise SpaceError(f"column {name} is {type_}, but {KINDS_SAID}; drop it or cast it first")


def _spark_list(type_: Mapping[str, Any]) -> str:
    element = type_["elementType"]
    return f"list of {_SPARK_KINDS.get(element, '') if isinstance(element, str) else ''}"


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, Mapping) and type_.get("type") == "struct"
