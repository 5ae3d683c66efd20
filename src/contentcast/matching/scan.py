"""The oracle: every predicate's syntax tree, tried one by one on plain Python values.

Slow and obviously right: SQL's three truth values are Python's True, False and None, and each operator is written the way the
language page says it. It never looks at the canonical form, so that it can judge that form too. Every faster engine must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import numpy as np

from contentcast.matching.contract import Ints, Pairs
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.predicates import tree as nodes
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.spelling import tree_of
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.model.values.kinds import Value
from contentcast.model.values.networks import InNetwork, read_address
from contentcast.model.values.patterns import Token, Wildcard, tokens_of
from contentcast.model.values.regular import Regex

Truth = bool | None


class Scan:
    """Subscriptions by id; `match` tries them all."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._trees: dict[int, nodes.Tree] = {}

    def add(self, subscription: int, predicate: Predicate) -> None:
        if subscription in self._trees:
            raise ValueError(f"subscription {subscription} is already there")
        self._trees[subscription] = tree_of(predicate)

    def add_many(self, ids: Ints, table: PredicateTable) -> None:
        for subscription, predicate in zip(ids.tolist(), table, strict=True):
            self.add(subscription, predicate)

    def remove(self, subscription: int) -> None:
        if subscription not in self._trees:
            raise KeyError(f"there is no subscription {subscription}")
        del self._trees[subscription]

    def __len__(self) -> int:
        return len(self._trees)

    def match(self, event: Mapping[str, Any]) -> list[int]:
        """The ids of the subscriptions that the event satisfies, ascending. What is no event of the space is an EventError."""
        return self.match_batch(EventBatch.from_dicts(self.space, [event]))[0]

    def match_batch(self, batch: EventBatch) -> list[list[int]]:
        return [self._tried(event) for event in batch.to_dicts()]

    def _tried(self, event: Mapping[str, Value]) -> list[int]:
        return sorted(each for each, tree in self._trees.items() if truth(tree, event) is True)

    def match_pairs(self, batch: EventBatch) -> Pairs:
        found = self.match_batch(batch)
        ids = np.array([each for matched in found for each in matched], np.int64)
        return Pairs(np.repeat(np.arange(len(found)), [len(matched) for matched in found]), ids)

    def sizes(self) -> dict[str, int]:
        return {"subscriptions": len(self)}


def truth(tree: nodes.Tree, event: Mapping[str, Value]) -> Truth:
    """TRUE, FALSE or None for unknown."""
    match tree:
        case nodes.And(parts):
            return _and(truth(part, event) for part in parts)
        case nodes.Or(parts):
            return _not(_and(_not(truth(part, event)) for part in parts))
        case nodes.Not(part):
            return _not(truth(part, event))
        case nodes.Constant(constant):
            return constant
        case nodes.IsNull(name):
            return event.get(name) is None
        case nodes.IsTruth(name, wanted):
            return event.get(name) is wanted
        case nodes.Compare(name, "<=>", wanted):
            value = event.get(name)
            return wanted is None if value is None else wanted is not None and value == wanted
        case nodes.Compare(name, op, wanted):
            return _compare(event.get(name), op, wanted)
        case nodes.Between(name, low, high):
            value = event.get(name)
            return _and([_compare(value, ">=", low), _compare(value, "<=", high)])
        case nodes.In(name, values):
            return _not(_and(_not(_compare(event.get(name), "=", each)) for each in values))
        case nodes.Like(name, pattern, escape):
            value = event.get(name)
            return None if value is None or pattern is None else _like(pattern, escape, value)
        case nodes.TextTest(name, how, text):
            value = event.get(name)
            return None if value is None or text is None else _text_test(how, text, value)
        case nodes.Lowered(test):
            value = event.get(test.attribute)
            return truth(test, {} if value is None else {test.attribute: value.lower()})
        case nodes.Exists(name, element, predicate):
            value = event.get(name)
            return None if value is None else _not(_and(_not(truth(predicate, {element: each})) for each in value))
        case nodes.ForAll(name, element, predicate):
            value = event.get(name)
            return None if value is None else _and(truth(predicate, {element: each}) for each in value)
        case nodes.Sized(test):
            value = event.get(test.attribute)
            return truth(test, {} if value is None else {test.attribute: len(value)})
        case nodes.Rlike(name, expression):
            value = event.get(name)
            return None if value is None or expression is None else Regex.of(expression).matches(value)
        case nodes.InCidr(name, network):
            value = event.get(name)
            return None if value is None or network is None else _in_network(value, network)
    raise TypeError(f"not a tree: {tree!r}")


def _and(truths: Iterable[Truth]) -> Truth:
    found: Truth = True
    for each in truths:
        if each is False:
            return False
        if each is None:
            found = None
    return found


def _not(each: Truth) -> Truth:
    return None if each is None else not each


def _compare(value: Any, op: str, wanted: Any) -> Truth:
    if value is None or wanted is None:
        return None
    match op:
        case "=":
            return bool(value == wanted)
        case "<>":
            return bool(value != wanted)
        case "<":
            return bool(value < wanted)
        case "<=":
            return bool(value <= wanted)
        case ">":
            return bool(value > wanted)
        case ">=":
            return bool(value >= wanted)
    raise TypeError(f"not a comparison: {op!r}")


def _like(pattern: str, escape: str, value: str) -> bool:
    """After each character: the places in the pattern at which one can stand."""
    tokens = tokens_of(pattern, escape)
    places = _past_runs(tokens, {0})
    for character in value:
        stayed = {at for at in places if at < len(tokens) and tokens[at] is Wildcard.RUN}
        moved = {at + 1 for at in places if at < len(tokens) and tokens[at] in (Wildcard.ONE, character)}
        places = _past_runs(tokens, stayed | moved)
    return len(tokens) in places


def _past_runs(tokens: list[Token], places: set[int]) -> set[int]:
    """A % may also stand for nothing."""
    found = set(places)
    for at in range(len(tokens)):
        if at in found and tokens[at] is Wildcard.RUN:
            found.add(at + 1)
    return found


def _in_network(value: str, network: str) -> bool:
    """By the standard library's own networks."""
    address = read_address(value)
    within = ip_network(InNetwork.of(network).network)
    return address is not None and (IPv4Address if address[0] == 4 else IPv6Address)(address[1]) in within


def _text_test(how: str, text: str, value: str) -> bool:
    if how == "startswith":
        return value.startswith(text)
    return value.endswith(text) if how == "endswith" else text in value
