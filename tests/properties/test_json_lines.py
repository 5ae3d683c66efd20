"""JSON lines by columns and line by line give the same events, ids and complaints, whatever is written."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import contentcast as cc
from contentcast.model import Intake
from contentcast.model.events import json_lines

SPACE = cc.Space(
    "things",
    {
        "s": "string",
        "i": "int",
        "f": cc.Attribute("float", low=-1e6),
        "b": "bool",
        "t": "timestamp",
        "raw": "bytes",
        "d.s": "string",
        "d.x.i": "int",
        "plain.name": "string",
    },
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from(
        [2**53, 2**53 + 1, 2**63, -(2**63), 10**30, 0, 1_772_366_400, 1_772_366_400_123, 1_772_366_400_123_456_789]
    ),
    st.sampled_from([0.0, -0.0, 1.5, 2.0, 1e300, -1e7, float("nan"), float("inf"), 1_772_366_400.25]),
    st.sampled_from(
        ["", "a", "\u00e9", "\ud800", "AP8=", "2026-03-01T12:00:00Z", "2026-03-01", "2026-03-01T12:00:00.1234567", "noon"]
    ),
)
NAMES = st.sampled_from(
    ["s", "i", "f", "b", "t", "raw", "d", "x", "d.s", "d.x", "x.i", "d.x.i", "plain.name", "plain", "name", "z", "S"]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=2)), max_leaves=4
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "s": st.text(max_size=3) | st.none(),
        "i": st.integers(-9, 9) | st.just(2.0),
        "f": st.floats(-10, 10) | st.integers(-3, 3),
        "b": st.booleans(),
        "t": st.sampled_from(["2026-03-01T12:00:00Z", "2026-03-01 12:00"]) | st.just(1_772_366_400),
        "raw": st.just("AP8="),
        "d": st.fixed_dictionaries({}, optional={"s": st.just("up"), "x": st.fixed_dictionaries({"i": st.integers(0, 3)})}),
        "plain.name": st.just("flat"),
    },
)
LINES = st.one_of(
    FITTING.map(json.dumps),
    FITTING.map(lambda event: json.dumps(event, ensure_ascii=False)),
    st.dictionaries(NAMES, VALUES, max_size=3).map(json.dumps),
    st.sampled_from(
        [
            "{",
            "[]",
            "5",
            '{"s": "a", "s": "b"}',
            '{"z": 1, "z": 2}',
            '{"d": {"s": "a", "s": "b"}}',
            '{"f": 1e999}',
            '{"z": 1e999}',
            '{"s": "a"}{"s": "b"}',
            '{"s": "a\nb"}',
            ' {"i": 1} ',
            '{"d\\u002es": "x"}',
            '{"i": 1,}',
            "{'i': 1}",
            '{"z": ' + "[" * 40 + "]" * 40 + "}",
        ]
    ),
)
HOW = st.builds(
    Intake,
    on_error=st.sampled_from(["reject", "absent"]),
    unknown=st.sampled_from(["error", "ignore"]),
    nan=st.sampled_from(["error", "absent"]),
    finer=st.sampled_from(["error", "round"]),
    epoch=st.sampled_from(["guess", "s", "ms", "error"]),
)


def told(batch: cc.EventBatch) -> list[Any]:
    parts = [[str(each) for each in batch.rejected], sorted(str(each) for each in batch.left_out)]
    return [batch.records.to_pylist(), batch.ids.to_pylist(), *parts]


@settings(max_examples=300, deadline=None)
@example(["{}"] * 3, ['{"plain": {"name": "a"}}', '{"plain.name": "b"}'], Intake(on_error="reject", unknown="ignore"))
@given(st.lists(FITTING.map(json.dumps), min_size=1, max_size=4), st.lists(LINES, max_size=3), HOW)
def test_both_ways_agree(fitting: list[str], others: list[str], how: Intake) -> None:
    lines: list[Any] = fitting * 6 + others + fitting * 2
    numbers = range(1, len(lines) + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "FEWEST_LINES", 2)
        patch.setattr(json_lines, "CUT_INTO", 4)
        found = json_lines.read_lines(SPACE, lines, numbers, how)
        packed = [line.encode("utf-8", "surrogateescape") for line in lines if "\ud800" not in line]
        quick = json_lines.read_lines(SPACE, packed, range(1, len(packed) + 1), how)
        patch.setattr(json_lines, "FEWEST_LINES", 10**9)
        assert told(found) == told(json_lines.read_lines(SPACE, lines, numbers, how))
        assert told(quick) == told(json_lines.read_lines(SPACE, packed, range(1, len(packed) + 1), how))
