"""How events are taken in, as options: the words of `model.events.intake`, with the same meaning.

Rule: an option that is not given is not passed on, so that each command keeps its own default.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

from contentcast.model import How


class OnErrorWord(StrEnum):
    RAISE, REJECT, ABSENT = "raise", "reject", "absent"


class UnknownWord(StrEnum):
    ERROR, IGNORE = "error", "ignore"


class NanWord(StrEnum):
    ERROR, ABSENT = "error", "absent"


class FinerWord(StrEnum):
    ERROR, ROUND = "error", "round"


class EpochWord(StrEnum):
    GUESS, S, MS, US, NS, ERROR = "guess", "s", "ms", "us", "ns", "error"


Unknown: TypeAlias = Annotated[
    UnknownWord | None, typer.Option(help="A field that the space does not have.", show_default=False)
]
OnError: TypeAlias = Annotated[
    OnErrorWord | None,
    typer.Option(help="An event that does not fit: stop, set it aside, or leave out the attribute.", show_default=False),
]
Nan: TypeAlias = Annotated[NanWord | None, typer.Option(help="What NaN is.", show_default=False)]
Finer: TypeAlias = Annotated[
    FinerWord | None, typer.Option(help="A timestamp that is finer than a microsecond.", show_default=False)
]
Epoch: TypeAlias = Annotated[EpochWord | None, typer.Option(help="What a number means as a timestamp.", show_default=False)]


def how_of(
    unknown: UnknownWord | None = None,
    on_error: OnErrorWord | None = None,
    nan: NanWord | None = None,
    finer: FinerWord | None = None,
    epoch: EpochWord | None = None,
) -> How:
    given: dict[str, Any] = {"unknown": unknown, "on_error": on_error, "nan": nan, "finer": finer, "epoch": epoch}
    words: Any = {name: each.value for name, each in given.items() if each is not None}
    found: How = words
    return found
