"""CloudEvents SQL 1.0 to our language: its grammar, its constants, its truth with errors, its functions."""

from contentcast.rules.cesql.translation import cesql_clause

__all__ = ["cesql_clause"]
