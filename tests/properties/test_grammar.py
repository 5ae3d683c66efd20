"""The grammar reads a text as the parser does with sqlglot, or leaves it to it; two readers of one language may not differ."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from contentcast.language import PredicateError
from contentcast.language.grammar import read_tree
from contentcast.language.operands import NotRead
from contentcast.language.sqlglot_reader import Reader
from contentcast.model import Space
from contentcast.model.predicates.tree import Tree
from tests.properties.generate import Generator

SLIPS = ["", "(", ")", " ", " NOT ", "-", " --x\n", "/*c*/", "'", "`", "L", "d", "=", ".", "e", "5", "\u00a0", "(b)", "!", "+"]


def by_sqlglot(space: Space, text: str) -> Tree | None:
    reader = Reader(space, text)
    try:
        return reader.tree(reader.expression())
    except (PredicateError, RecursionError):
        return None


def by_grammar(space: Space, text: str) -> Tree | None:
    try:
        return read_tree(space, text)
    except NotRead:
        return None


@given(st.integers(0, 2**32))
def test_what_the_grammar_reads_is_what_sqlglot_reads(seed: int) -> None:
    random = Random(seed)
    generate = Generator(random, plain=True)
    space = generate.space()
    text = generate.text(space, depth=random.randint(1, 4))
    whole = by_grammar(space, text)
    assert whole is not None, text
    assert repr(whole) == repr(by_sqlglot(space, text)), text
    at = random.randrange(len(text) + 1)
    slipped = text[:at] + random.choice(SLIPS) + text[at + random.randint(0, 2) :]
    read = by_grammar(space, slipped)
    assert read is None or repr(read) == repr(by_sqlglot(space, slipped)), slipped


def test_parentheses_around_one_attribute_or_literal() -> None:
    space = Space("things", i="int", b="bool", s="string")
    for text in [
        "(i) = 5",
        "((i)) = ((5))",
        "(5) < i",
        "-(5) = i",
        "i IN ((1), -(2))",
        "(b)",
        "((b) AND (TRUE))",
        "(s) LIKE ('a%')",
    ]:
        assert repr(by_grammar(space, text)) == repr(by_sqlglot(space, text)) != "None", text
