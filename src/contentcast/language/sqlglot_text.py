"""One text that sqlglot reads: in which dialect, where its parts stand, and what is wrong with a text that it refuses.

Rule: sqlglot's errors do not get out; each becomes a `PredicateError` with the place in the text.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from sqlglot import TokenType, exp, parse
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from contentcast.language import literals
from contentcast.language.errors import WHAT_IS_POSSIBLE, PredicateError
from contentcast.language.printer import quote_name
from contentcast.model.space import Space

_QUOTED: Final = re.compile(rf"{literals.STRING}|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)


class Dialect(Spark):
    """Spark's, with a doubled quote inside a string read as one quote, as Spark 4 does, and without statements.

    In `load > 5` LOAD begins no statement: without them such a word is a name, and sqlglot logs nothing about commands.
    """

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - sqlglot reads it off the class
        COMMANDS = set()  # noqa: RUF012 - likewise

    class Parser(SparkParser):
        STATEMENT_PARSERS = {TokenType.SEMICOLON: lambda self: exp.Semicolon()}  # noqa: RUF012 - likewise
        NO_PAREN_IF_COMMANDS = False


class SqlText:
    """A text over a space. Whoever reads something else than a predicate from it says so in WHAT."""

    WHAT = "predicate"
    IF_EMPTY = "the predicate is empty; TRUE asks for every event"
    POSSIBLE = f"; {WHAT_IS_POSSIBLE}"

    def __init__(self, space: Space, text: str) -> None:
        self.space, self.text = space, text

    def expression(self) -> exp.Expr:
        self._check_quotes()
        try:
            found = [each for each in parse(self.text, dialect=Dialect) if not isinstance(each, exp.Semicolon | None)]
        except SqlglotError as error:
            self._explain(error)
        except RecursionError:
            raise
        except Exception:  # sqlglot stumbles over some texts that are no SQL, in as many ways as it has parts
            self._refuse(0, f"not a {self.WHAT}{self._hint()}")
        if not found:
            self._refuse(0, self.IF_EMPTY)
        if len(found) != 1:
            self._refuse(self.unquoted().find(";"), f"one {self.WHAT}, and nothing after it")
        return found[0]

    def unquoted(self) -> str:
        """The text with blanks for strings, quoted names and comments."""
        return _QUOTED.sub(lambda found: " " * len(found[0]), self.text)

    def _check_quotes(self) -> None:
        for at, character in enumerate(self.unquoted()):
            if character in "'\"`":
                self._refuse(at, f"the text after {character} has no closing {character}")

    def _explain(self, error: SqlglotError) -> NoReturn:
        details = getattr(error, "errors", None)
        if not details or details[0].get("line") is None:
            self._refuse(0, f"not a {self.WHAT}{self._hint()}")
        line, column = details[0]["line"], details[0]["col"]
        token = details[0]["highlight"] or ""
        ends_of_lines = [0, *(each.end() for each in re.finditer(r"\r\n?|\n", self.text))]
        end = ends_of_lines[line - 1] + column
        what = details[0]["description"] or ""
        if "missing for" in what or not token:
            self._refuse(end, (f"expected a value after {token!r}" if token else "expected a value here") + self._hint(""))
        if what.startswith("Expecting"):
            self._refuse(end, f"expected {what.removeprefix('Expecting ')!r} after {token!r}{self._hint('')}")
        self._refuse(end - len(token), f"unexpected {token!r}{self._hint()}")

    def _hint(self, otherwise: str | None = None) -> str:
        """An attribute that is a keyword, or no plain word, and stands without its back-ticks is the likely cause."""
        unquoted = self.unquoted()
        for name in self.space.names:
            if quote_name(name) != name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", unquoted):
                return f"; the attribute {name} goes in back-ticks: {quote_name(name)}"
        return self.POSSIBLE if otherwise is None else otherwise

    def _refuse(self, offset: int, reason: str) -> NoReturn:
        raise PredicateError(self.text, offset, reason)

    def _refuse_at(self, node: exp.Expr, reason: str) -> NoReturn:
        self._refuse(self._start(node), reason)

    def _start(self, node: exp.Expr) -> int:
        """Where a node begins, as near as its parts tell."""
        starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
        return min(starts) if starts else self._start_by_word(node)

    def _start_by_word(self, node: exp.Expr) -> int:
        word = re.search(rf"\b{re.escape(node.name or node.sql(dialect=Dialect))}\b", self.text, re.IGNORECASE)
        return word.start() if word else 0

    def _word(self, words: str) -> int:
        """Where one of the words stands, outside quotes."""
        found = re.search(rf"\b(?:{words})\b", self.unquoted(), re.IGNORECASE)
        return found.start() if found else 0
