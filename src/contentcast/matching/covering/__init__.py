"""What covers what among many predicates: their boxes, and sets that find who covers a predicate and whom it covers."""

from contentcast.matching.covering.boxes import Boxes, boxes_of
from contentcast.matching.covering.cover_set import CoverSet, most_general, uncovered
from contentcast.matching.covering.shelf import Shelf

__all__ = ["Boxes", "CoverSet", "Shelf", "boxes_of", "most_general", "uncovered"]
