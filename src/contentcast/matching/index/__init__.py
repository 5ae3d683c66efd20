"""The index behind `MatchIndex`. `index` tells the walk of a batch; each room knows only those below it:

index_file                 an index as one file
index                      the walk of a batch, and of a change
replanning                 a new plan for an index in use
matching                   what an event meets: encoding, kernel, matches
cells                      where entries live: groups, cells, bitmaps, the table of ids
planning                   which gates pay
values                     values and predicates become numbers
machine                    layout of arrays, memory, vectors, hashing
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from contentcast.matching.index.index import MOST_IDS, CellIndex
    from contentcast.matching.index.index_file import Check, load_index, save_index
    from contentcast.matching.index.limits import DEFAULT, Limits
    from contentcast.matching.index.matching.matches import Matches, Run, in_one
    from contentcast.matching.index.values.column_checks import ColumnChecks

__all__ = [
    "DEFAULT", "MOST_IDS", "CellIndex", "Check", "ColumnChecks", "Limits", "Matches", "Run", "in_one", "load_index",
    "save_index",
]  # fmt: skip

_HOMES: Final = {
    "DEFAULT": "limits", "MOST_IDS": "index", "CellIndex": "index", "Check": "index_file",
    "ColumnChecks": "values.column_checks",
    "Limits": "limits", "Matches": "matching.matches", "Run": "matching.matches", "in_one": "matching.matches",
    "load_index": "index_file", "save_index": "index_file",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """The rooms import Numba, so they are imported when a name of theirs is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
