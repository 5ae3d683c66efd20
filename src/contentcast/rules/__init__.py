"""The rules that people already have, in our language: one module for each place where they come from.

Rule: a translation keeps the meaning that the rule has there, also for what is absent; what cannot be said is refused with its
place in the rule (`RuleError`). docs/guide/rules.md has a table for each source.
"""

from contentcast.rules.clauses import Translation
from contentcast.rules.errors import RuleError
from contentcast.rules.sources import (
    SOURCES,
    from_cesql,
    from_eventbridge,
    from_headers,
    from_jms,
    from_matchers,
    from_topic,
    translate,
    translate_many,
)

__all__ = [
    "SOURCES",
    "RuleError",
    "Translation",
    "from_cesql",
    "from_eventbridge",
    "from_headers",
    "from_jms",
    "from_matchers",
    "from_topic",
    "translate",
    "translate_many",
]
