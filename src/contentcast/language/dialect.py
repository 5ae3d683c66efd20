"""What sqlglot reads: Spark's SQL, but for what the language does not have."""

from __future__ import annotations

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser


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
