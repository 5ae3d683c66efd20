"""What a scenario can be told: each parameter with its default, its limits and its meaning, declared once.

Rule: a value is taken as it is or refused with the reason; nothing is clipped and nothing is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from contentcast.model import ContentcastError
from contentcast.model.errors import nearest


class WorkloadError(ContentcastError):
    """A scenario, a parameter or a stretch of rows that there is not."""


@dataclass(frozen=True)
class Limits:
    """From low to high, both included, and what the value means."""

    low: float
    high: float
    meaning: str


def parameter(default: Any, low: float, high: float, meaning: str) -> Any:
    """A field of a scenario's parameters."""
    return field(default=default, metadata={"limits": Limits(low, high, meaning)})


def switch(default: bool, meaning: str) -> Any:
    return parameter(default, 0, 1, meaning)


Parameters = TypeVar("Parameters")


def limits(kind: type) -> dict[str, Limits]:
    """Every parameter of this kind of scenario, in order."""
    return {each.name: each.metadata["limits"] for each in fields(kind)}


def checked(scenario: str, kind: type[Parameters], given: Mapping[str, Any]) -> Parameters:
    """The parameters of `scenario`, or an error that names the one to put right."""
    known = limits(kind)
    defaults = {each.name: each.default for each in fields(kind)}  # type: ignore[arg-type]
    for name, value in given.items():
        if name not in known:
            raise WorkloadError(f"{scenario} has no parameter {name!r}{nearest(name, known)}")
        _check(f"{scenario}: {name}", value, defaults[name], known[name])
    return kind(**given)


def _check(where: str, value: Any, default: Any, allowed: Limits) -> None:
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise WorkloadError(f"{where} is either True or False, got {value!r}")
        return
    wanted = "an int" if isinstance(default, int) else "a number"
    fits = isinstance(value, int) or (isinstance(value, float) and not isinstance(default, int))
    if not fits or isinstance(value, bool):
        raise WorkloadError(f"{where} takes {wanted}, got {value!r}")
    if not allowed.low <= value <= allowed.high:
        raise WorkloadError(f"{where} lies between {allowed.low:,} and {allowed.high:,}, got {value!r}")
