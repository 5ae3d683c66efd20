"""Plain conjunctions read without the grammar: `a1 = 3 AND a7 = 12 AND price < 9.5`.

Tables in which nearly every text has a shape of its own gain nothing from shapes, and most of such texts are comparisons that
are joined by AND. A regular expression reads those in a fraction of the time; anything that it does not fully recognise, or
that is wrong in any way, is left to the parser, which also says what is wrong.
Rule: what is read here means what the parser makes of it (tests/properties/test_bulk.py).
"""

from __future__ import annotations

import re
from typing import Final

from contentcast.language import literals
from contentcast.language.printer import quote_name
from contentcast.model.predicates.tree import And, Compare, Tree
from contentcast.model.space import Space

_NAME: Final = r"(`[^`]+`|[A-Za-z_][A-Za-z0-9_]*)"
_VALUE: Final = rf"(?:({literals.STRING})|(-?)({literals.NUMBER}))(?![A-Za-z0-9_.'\"`])"
_TEST: Final = rf"{_NAME}\s*(<=|>=|==|=|<|>)\s*{_VALUE}"
_ONE: Final = re.compile(_TEST, re.DOTALL)
_ALL: Final = re.compile(rf"\s*{_TEST}(?:\s+(?i:AND)\s+{_TEST})*\s*", re.DOTALL)


def quick_tree(space: Space, text: str) -> Tree | None:
    """The tree of a plain conjunction, or None if it is not one for certain."""
    if not _ALL.fullmatch(text):
        return None
    tests: list[Tree] = []
    kinds = space.kinds
    for name, op, string, minus, number in _ONE.findall(text):
        if name[0] == "`":
            name = name[1:-1]
        elif quote_name(name) != name:  # a word of the grammar
            return None
        kind = kinds.get(name)
        if kind is None or "\\" in string or (kind.name != "string" if string else kind.name not in ("int", "float")):
            return None
        try:
            if string:
                value: object = literals.read_string(string)
            elif kind.name == "float":
                value = literals.read_float(number, bool(minus))
            else:
                value = literals.read_number(number, bool(minus))
        except ValueError:
            return None
        tests.append(Compare(name, "=" if op == "==" else op, value))
    return tests[0] if len(tests) == 1 else And(tuple(tests))
