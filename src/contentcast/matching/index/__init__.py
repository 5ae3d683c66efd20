"""The index behind `MatchIndex`: gates, cells and kernels. The walk of a batch is told in `engine`.

what a subscription asks     entries, codes, value_tables (values), scales (ranges), texts, pieces, answers (string tests)
where it is filed            plan (gates under a cost model), grids, scheme (a plan in use), asks (where an entry goes by it)
how it gets there            filing, numbering, appending, groups, store, referring, changes, bitmaps
what an event meets          engine, by_address, kernels, small_cells, small_steps, lanes; layout (the arrays), memory
what comes out               matches, room; single for one event at a time
a new plan while in use      moving, reading, loading, whole
on disk                      file
"""

from contentcast.matching.index.engine import MOST_IDS, CellIndex
from contentcast.matching.index.file import load_index, save_index
from contentcast.matching.index.matches import Matches, Run, in_one

__all__ = ["MOST_IDS", "CellIndex", "Matches", "Run", "in_one", "load_index", "save_index"]
