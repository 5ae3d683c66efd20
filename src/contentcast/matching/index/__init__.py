"""The index behind `MatchIndex`: gates, cells and kernels. The walk of a batch is told in `engine`."""

from contentcast.matching.index.engine import MOST_IDS, CellIndex
from contentcast.matching.index.file import load_index, save_index
from contentcast.matching.index.matches import Matches, Run, in_one

__all__ = ["MOST_IDS", "CellIndex", "Matches", "Run", "in_one", "load_index", "save_index"]
