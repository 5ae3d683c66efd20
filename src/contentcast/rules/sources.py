"""Where rules come from, by name, and one way to translate them all.

Rule: a new source is a module with a function from (space, rule, options) to a clause, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from contentcast.language import parse_many
from contentcast.language.parser import MOST_CHARS
from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.space import Space
from contentcast.rules.cesql import cesql_clause
from contentcast.rules.clauses import Clause, Translation, checked, say, translated, unsayable
from contentcast.rules.errors import RuleError
from contentcast.rules.eventbridge import eventbridge_clause
from contentcast.rules.headers import headers_clause
from contentcast.rules.jms import jms_clause
from contentcast.rules.matchers import Matchers, matchers_clause
from contentcast.rules.topics import TOPIC, topic_clause

SOURCES: Final[Mapping[str, Callable[..., Clause]]] = {
    "eventbridge": eventbridge_clause,
    "cesql": cesql_clause,
    "jms": jms_clause,
    "headers": headers_clause,
    "matchers": matchers_clause,
    "topic": topic_clause,
}


def translate(space: Space, source: str, rule: Any, *, most_chars: int | None = MOST_CHARS, **options: Any) -> Translation:
    """A rule of the source in our language: its `text` and its `predicate`. Raises `RuleError` for what cannot be said.

    A rule of more than `most_chars` characters is refused; None takes one of any length.
    """
    _check_length(source, rule, most_chars)
    return translated(space, translator(source)(space, rule, **options), most_chars)


def translate_many(
    space: Space, source: str, rules: Iterable[Any], *, most_chars: int | None = MOST_CHARS, **options: Any
) -> list[str | RuleError]:
    """For each rule its text, or why there is none. The texts are checked together, by `parse_many`."""
    clause_of = translator(source)
    found: list[str | RuleError] = []
    for rule in rules:
        try:
            if isinstance(rule, RuleError):  # it could not even be read
                raise rule
            _check_length(source, rule, most_chars)
            found.append(checked(say(clause_of(space, rule, **options)), most_chars))
        except RuleError as reason:
            found.append(reason)
    at = [row for row, text in enumerate(found) if isinstance(text, str)]
    table = parse_many(space, [str(found[row]) for row in at], on_error="reject", most_chars=None)
    for row, error in table.refused.items():
        found[at[row]] = unsayable(error, str(found[at[row]]))
    return found


def _check_length(source: str, rule: Any, most_chars: int | None) -> None:
    """Of a text; of an object the translation is measured. MQTT bounds its topics itself."""
    if source != "topic" and isinstance(rule, str) and most_chars is not None and len(rule) > most_chars:
        reason = f"the rule has {len(rule):,} characters, more than {most_chars:,}; split it, or allow more with most_chars"
        raise RuleError.in_json("", reason)


def translator(source: str) -> Callable[..., Clause]:
    if source not in SOURCES:
        raise ContentcastError(f"there are no rules of {source!r}{nearest(str(source), SOURCES, 'they come from')}")
    return SOURCES[source]


def from_eventbridge(space: Space, pattern: str | Mapping[str, Any]) -> Predicate:
    """An event pattern of Amazon EventBridge, as JSON text or as the object."""
    return translate(space, "eventbridge", pattern).predicate


def from_cesql(space: Space, expression: str) -> Predicate:
    """A filter in CloudEvents SQL 1.0."""
    return translate(space, "cesql", expression).predicate


def from_jms(space: Space, selector: str) -> Predicate:
    """A message selector of JMS."""
    return translate(space, "jms", selector).predicate


def from_headers(space: Space, arguments: str | Mapping[str, Any], *, prefix: str = "") -> Predicate:
    """The arguments of a binding to a headers exchange of RabbitMQ; `prefix` stands before the headers' names in the space."""
    return translate(space, "headers", arguments, prefix=prefix).predicate


def from_matchers(space: Space, matchers: Matchers, *, prefix: str = "") -> Predicate:
    """Label matchers of Prometheus or Alertmanager; `prefix` stands before the labels' names in the space."""
    return translate(space, "matchers", matchers, prefix=prefix).predicate


def from_topic(space: Space, filter: str, *, attribute: str = TOPIC, levels: Sequence[str] | None = None) -> Predicate:
    """An MQTT topic filter over the attribute that holds the topic, or over one attribute for each level."""
    return translate(space, "topic", filter, attribute=attribute, levels=levels).predicate
