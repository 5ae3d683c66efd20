"""The index behind `MatchIndex`: gates, cells and kernels. The walk of a batch is told in `engine`."""

from contentcast.matching.index.engine import MOST_IDS, CellIndex, Matches, in_one
from contentcast.matching.index.file import load_index, save_index

__all__ = ["MOST_IDS", "CellIndex", "Matches", "in_one", "load_index", "save_index"]
