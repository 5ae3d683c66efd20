"""Expression languages: each rule is compiled once, and every rule is tried on every event. Nobody indexes anything."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.peers.rules import Matches, Rules


def expressions(rules: Rules, conjunction: str, text_test: Callable[[str, str, str], str]) -> list[str]:
    """The rules in a language with ==, <=, >= and double-quoted strings as in JSON; tests in the order of the space."""
    tests: defaultdict[int, list[str]] = defaultdict(list)
    for name in rules.space.names:
        if name in rules.equal:
            for rule, value in zip(rules.equal[name].rule.tolist(), rules.equal[name].value.to_pylist(), strict=True):
                tests[rule].append(f"{name} == {json.dumps(value)}")
        elif name in rules.between:
            between = rules.between[name]
            least, greatest = (-np.inf, np.inf) if between.low.dtype.kind == "f" else (-(2**63), 2**63 - 1)
            for rule, low, high in zip(between.rule.tolist(), between.low.tolist(), between.high.tolist(), strict=True):
                if low != least:
                    tests[rule].append(f"{name} >= {low!r}")
                if high != greatest:
                    tests[rule].append(f"{name} <= {high!r}")
        elif name in rules.texts:
            for rule, how, text in zip(*(rules.texts[name]), strict=True):
                tests[int(rule)].append(text_test(name, how, json.dumps(text)))
    return [conjunction.join(tests[rule]) or "true" for rule in range(rules.count)]


def _tried(tests: Sequence[Callable[[Any], Any]], given: Sequence[Any]) -> Matches:
    found = [[rule for rule, test in enumerate(tests) if test(event)] for event in given]
    rule = np.array([each for some in found for each in some], np.int64)
    return Matches(rule, counts=np.array([len(some) for some in found], np.int64))


class Cel:
    """common-expression-language: CEL by a Rust interpreter. An event becomes one context for all rules."""

    def __init__(self, rules: Rules) -> None:
        import cel

        functions = {"startswith": "startsWith", "endswith": "endsWith", "contains": "contains"}
        texts = expressions(rules, " && ", lambda name, how, text: f"{name}.{functions[how]}({text})")
        self._tests = [cel.compile(text).execute for text in texts]

    def match(self, events: pa.RecordBatch) -> Matches:
        import cel

        return _tried(self._tests, [cel.Context(variables=event) for event in events.to_pylist()])


class RuleEngine:
    """rule-engine: an interpreter in Python."""

    def __init__(self, rules: Rules) -> None:
        import rule_engine

        def text_test(name: str, how: str, text: str) -> str:
            return f"{text} in {name}" if how == "contains" else f"{name}.{how.replace('with', '_with')}({text})"

        self._tests = [rule_engine.Rule(text).matches for text in expressions(rules, " and ", text_test)]

    def match(self, events: pa.RecordBatch) -> Matches:
        return _tried(self._tests, events.to_pylist())
