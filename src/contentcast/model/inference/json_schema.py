"""A JSON Schema as sightings: properties, nested objects, arrays, enums and bounds (drafts 4 to 2020-12, as far as kinds go).

Rule: what cannot be an attribute says why; references lead inside the same document only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contentcast.model.inference.sightings import Sighting, Sightings

DEEPEST: Final = 32
KINDS: Final = {"string": "string", "integer": "int", "number": "float", "boolean": "bool"}


def is_json_schema(given: Mapping[str, Any]) -> bool:
    return isinstance(given.get("properties"), Mapping) and ("$schema" in given or given.get("type", "object") == "object")


def see_json_schema(seen: Sightings, schema: Mapping[str, Any]) -> None:
    _properties(seen, schema, schema, "", 0, in_list=False)


def _properties(seen: Sightings, root: Any, schema: Mapping[str, Any], above: str, depth: int, in_list: bool) -> None:
    members = dict(schema.get("properties") or {})
    for part in schema.get("allOf") or []:
        members |= dict(_resolved(root, part).get("properties") or {})
    for name, described in members.items():
        sighting = seen.of(f"{above}{name}")
        if sighting is not None:
            _see(seen, root, sighting, _resolved(root, described), f"{above}{name}", depth, in_list)


def _see(
    seen: Sightings, root: Any, sighting: Sighting, described: Mapping[str, Any], name: str, depth: int, in_list: bool
) -> None:
    if depth >= DEEPEST:
        sighting.why_not = "refers to itself"
        return
    type_ = described.get("type") or ("object" if "properties" in described else None)
    if type_ is None and (values := described.get("enum")):
        types = {bool: "boolean", int: "integer", float: "number", str: "string"}
        type_ = next(iter({types.get(type(each)) for each in values if each is not None}), None)
    if type_ == "object":
        sighting.kinds["object"] += 1
        if "properties" not in described and "allOf" not in described:
            sighting.why_not = "is an object whose members the schema does not name"
        _properties(seen, root, described, f"{name}.", depth + 1, in_list)
    elif type_ == "array":
        items = _resolved(root, described.get("items") or {})
        if items.get("type") == "object" or "properties" in items:
            sighting.kinds["list"] += 1
            sighting.elements["object"] += 1
            _properties(seen, root, items, f"{name}.", depth + 1, in_list=True)
            return
        kind = _scalar(items, items.get("type"))
        sighting.declared = f"list of {kind}" if kind and not in_list else None
        if in_list and kind:
            sighting.why_not = "is a list inside a list of objects"
        elif kind is None:
            inside = items.get("type") or "anything"
            sighting.why_not = "is a list of lists" if inside == "array" else f"is an array of {inside}"
    else:
        kind = _scalar(described, type_)
        sighting.declared = f"list of {kind}" if kind and in_list else kind
        sighting.why_not = None if kind else f"is {type_ or 'anything'} in the schema"
        sighting.examples = [each for each in described.get("enum") or [] if each is not None][:3]


def _scalar(described: Mapping[str, Any], type_: Any) -> str | None:
    if type_ == "string":
        if described.get("format") == "date-time":
            return "timestamp"
        return "bytes" if described.get("contentEncoding") == "base64" else "string"
    return KINDS.get(type_) if isinstance(type_, str) else None


def _resolved(root: Any, described: Any, depth: int = 0) -> Mapping[str, Any]:
    """Behind references, and without the null that a nullable field allows."""
    if not isinstance(described, Mapping) or depth > DEEPEST:
        return {}
    reference = described.get("$ref")
    if isinstance(reference, str):
        found: Any = root if reference.startswith("#") else {}
        for part in reference.removeprefix("#").strip("/").split("/"):
            if part:
                found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return _resolved(root, found, depth + 1)
    for word in ("anyOf", "oneOf"):
        others = [each for each in described.get(word) or [] if not (isinstance(each, Mapping) and each.get("type") == "null")]
        if len(others) == 1:
            return _resolved(root, others[0], depth + 1)
    if isinstance(described.get("type"), list):
        types = [each for each in described["type"] if each != "null"]
        return {**described, "type": types[0] if len(types) == 1 else " or ".join(map(str, types))}
    return described
