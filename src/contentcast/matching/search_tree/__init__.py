"""The parallel search tree (Banavar et al. 1999, section 2), with ranges, strings and absent.

Told in docs/internals/search-tree.md.
"""

from contentcast.matching.search_tree.links import Annotation, LinkMatches, links_of, words_of
from contentcast.matching.search_tree.tree import Matches, SearchTree, Shape

__all__ = ["Annotation", "LinkMatches", "Matches", "SearchTree", "Shape", "links_of", "words_of"]
