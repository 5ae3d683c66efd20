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

from contentcast.matching.index.index import MOST_IDS, CellIndex
from contentcast.matching.index.index_file import Check, load_index, save_index
from contentcast.matching.index.limits import DEFAULT, Limits
from contentcast.matching.index.matching.matches import Matches, Run, in_one
from contentcast.matching.index.values.column_checks import ColumnChecks

__all__ = [
    "DEFAULT", "MOST_IDS", "CellIndex", "Check", "ColumnChecks", "Limits", "Matches", "Run", "in_one", "load_index",
    "save_index",
]  # fmt: skip
