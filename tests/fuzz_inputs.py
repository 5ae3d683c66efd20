"""`python -m tests.fuzz_inputs --minutes 10`: texts, events and files as strangers would make them, within time and memory.

Every input is given to the entrance that would take it: a predicate, a transform or a table of predicates to the language, a
line or a file of each format to the readers of events, spaces and topologies, a damaged index file, frame or a crowd of threads
to the index and the wire (`fuzz_index`). Each is answered, or refused by a `ContentcastError`; another exception, too much
processor time or too much memory is a finding. A child process takes them, with limits of the operating system, so that a hang
or an abort is one too. It says which input it begins, and the parent names the one that it did not survive.
Rule: an input is made from its number alone. What is found here becomes a test beside what it broke.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from contentcast.language import parse_many, parse_predicate, parse_transform
from contentcast.model import ContentcastError, EventBatch, Space, from_json_lines, read_events
from contentcast.network.files import read_topology
from contentcast.progress_lines import lines
from tests import fuzz_index
from tests.fuzz_index import damaged

MOST_CPU_S: Final = 2.0
"""For one input: ten times what the slowest takes on a machine that does other things too."""
MOST_GROWTH_MB: Final = 400
"""Of a child's memory, over all of its inputs."""
AT_ONCE: Final = 2_000
"""Inputs for one child."""

THINGS: Final = Space(
    "things",
    {"s": "string", "i": "int", "f": "float", "b": "bool", "t": "timestamp", "y": "bytes", "d.s": "string", "d.i": "int"},
)
LISTED: Final = Space(
    "listed", {**{name: each.kind for name, each in THINGS.items()}, "ls": "list of string", "li": "list of int"}
)
"""The newer forms ask of lists too."""
OTHERS: Final = Space("others", s="string", i="int")
WORDS: Final = [
    *re.findall(
        r"\S+",
        """
        s i f b t y `d.s` = == <> < <= > >= <=> ( ) ( ) , . ; ! - + * / % || AND OR NOT IN LIKE ESCAPE BETWEEN IS NULL TRUE
        FALSE DISTINCT FROM startswith endswith contains TIMESTAMP DATE CASE WHEN THEN END CAST SELECT AS 1 -2 1.5 1e9 .5 5L
        """,
    ),
    "'a'", "'a%'", "'%_b%'", "'2026-01-01'", "X'1F'", "'", '"', "`", "/*", "*/", "--", "\\", "\0", "\ud800", "é", "\n",
]  # fmt: skip
TESTS: Final = [
    "i = {n}", "i <> {n}", "f < {n}", "i IN ({n}, {m})", "s LIKE '%{c}{n}%'", "s LIKE '{c}%_{c}{n}'", "s NOT LIKE '%{c}_{c}%'",
    "s = '{c}{n}'", "contains(s, '{c}')", "t > TIMESTAMP '2026-01-01 00:00:{n:02}'", "b", "y = X'{n:02}'", "`d.s` IS NULL",
    "i BETWEEN {m} AND {n}", "f IS NOT NULL", "{n} < i", "(i) = {n}", "NOT b", "((((b))))",
    "lower(s) = '{c}{n}'", "s ILIKE '%{c}_{c}{n}%'", "coalesce(i, {n}) > {m}", "coalesce(s, `d.s`, '{c}') IN ('{c}{n}', '{c}')",
    "s RLIKE '{c}[ab]{{0,{n}}}'", "in_cidr(s, '10.0.{n}.0/24')", "size(ls) > {n}", "array_contains(li, {n})",
    "arrays_overlap(ls, array('{c}{n}', '{c}'))", "exists(li, x -> x > {m} AND x < {n} OR x IS NULL)",
    "exists(ls, x -> x LIKE '%{c}_{n}%')", "forall(li, x -> x > {n} OR x < {m})", "forall(ls, x -> x LIKE '%{c}_{n}%')",
]  # fmt: skip


# --- texts


def a_test(random: Random) -> str:
    made = random.choice(TESTS)
    return made.format(n=random.randrange(60), m=random.randrange(60), c=random.choice("abc"))


def nested(random: Random) -> str:
    text = a_test(random)
    for _ in range(random.choice([3, 12, 60, 99, 101, 400])):
        shape = random.choice(["({})", "NOT ({})", "b OR ({})", "({}) AND i = 1", "NOT {}", "(({}))"])
        text = shape.format(text)
    return text


def joined(random: Random) -> str:
    """A formula of many tests: wide, multiplied out, or negated."""
    count = random.choice([2, 5, 12, 40, 300, 1_500])
    inner, outer = random.choice([(" OR ", " AND "), (" AND ", " OR ")])
    parts = []
    for _ in range(count):
        part = inner.join(a_test(random) for _ in range(random.randint(1, 4)))
        parts.append(f"({part})")
    text = outer.join(parts)[: random.choice([500, 5_000, 60_000])]
    text = text[: text.rfind(")") + 1]
    return random.choice(["{}", "NOT ({})"]).format(text)


def repeated(random: Random) -> str:
    piece = random.choice(
        [*WORDS, "\\'", "''", "/* ", "((", "i IN (", "CASE WHEN ", "1,", "'a',", "- ", "NOT ", "{", "[", "i."]
    )
    before = random.choice(["", "s = '", "i IN (", "(", "i = ", "s LIKE '", "SELECT "])
    return before + piece * random.choice([10, 300, 3_000, 20_000]) + random.choice(["", "'", ")", "x"])


def salad(random: Random) -> str:
    return random.choice([" ", ""]).join(random.choice(WORDS) for _ in range(random.choice([3, 8, 30, 400])))


def long_pattern(random: Random) -> str:
    tests = []
    for _ in range(random.randint(1, 6)):
        letters = "".join(random.choice("ab%_") for _ in range(random.choice([5, 40, 400, 4_000])))
        tests.append(f"s {random.choice(['', 'NOT '])}LIKE '{letters}'")
    return random.choice([" AND ", " OR "]).join(tests)


def values_and_patterns(random: Random) -> str:
    """A list of values, or a few long ones, and tests that are tried on each."""
    letter = random.choice("ab")
    longest = random.choice([1, 30, 3_000, 20_000])
    values = ", ".join(f"'{letter * random.randint(1, longest)}{number}'" for number in range(20_000 // longest + 1))
    gaps = f"%{(letter + '_') * random.choice([3, 90, 8_000])}c%"
    tests = [f"s LIKE '{gaps}'", f"lower(s) LIKE '{gaps}'", f"s RLIKE '({letter}|c)*d'", "s NOT LIKE '%b_c%'"]
    subject = random.choice(["s", f"coalesce({', '.join(['s'] * random.choice([2, 32]))})", "lower(s)"])
    return " AND ".join([f"{subject} IN ({values})", *random.choices(tests, k=random.choice([1, 3, 60]))])


TEXTS: Final = [nested, joined, repeated, salad, long_pattern, values_and_patterns]


def predicate(random: Random) -> None:
    parse_predicate(LISTED, random.choice(TEXTS)(random))


def predicates(random: Random) -> None:
    text = random.choice(TEXTS)(random)
    parse_many(LISTED, [text] * random.choice([1, 5]), on_error="reject")


def transform(random: Random) -> None:
    made = random.choice(TEXTS)(random)[:9_000]
    shape = random.choice(["SELECT i AS i FROM things WHERE {}", "SELECT {} AS i FROM things", "{}"])
    parse_transform(THINGS, OTHERS, shape.replace("{}", made))


# --- events and files


def a_line(random: Random) -> str:
    deep = random.choice([1, 5, 31, 40, 900, 20_000])
    many = random.choice([1, 50, 5_000])
    value = random.choice(
        ["1", "1e999", "9" * 50, "9" * 5_000, '"x"', "null", "true", "[]", "NaN", '"\\ud800"', '"\\u0000"', "{}"]
    )
    return random.choice(
        [
            '{"i": ' + value + "}",
            '{"d":' * deep + value + "}" * deep,
            "[" * deep + "]" * random.choice([deep, 0]),
            "{" + ",".join(f'"a{number}": {value}' for number in range(many)) + ', "a0": 1}',
            '{"s": "' + random.choice(["\\", "\\\\", "{", "é"]) * many + '"}',
            '{"t": "' + random.choice(["2026-01-01", "10000-01-01", "9999-12-31T23:59:59-23:59", "x" * many]) + '"}',
            '{"' + "i" * many + '": 1}',
            value,
        ]
    )


def json_lines(random: Random) -> None:
    from_json_lines(THINGS, [a_line(random) for _ in range(3)], on_error=random.choice(["raise", "reject"]))


def a_file(random: Random, folder: Path) -> Path:
    """Of a format, good or damaged; at times what it is named after is no file at all."""
    ending = random.choice(["jsonl", "csv", "parquet"])
    path = folder / f"events.{ending}"
    if random.random() < 0.03:
        os.mkfifo(path)
        return path
    if random.random() < 0.03:
        path.symlink_to(random.choice(["/dev/zero", "/dev/null", "/nowhere", "."]))
        return path
    raw = {"jsonl": _json_bytes, "csv": _csv_bytes, "parquet": _parquet_bytes}[ending](random)
    if random.random() < 0.6:
        raw = damaged(random, raw)
    path.write_bytes(raw)
    return path


def _json_bytes(random: Random) -> bytes:
    return "\n".join(a_line(random) for _ in range(4)).encode("utf-8", "surrogatepass")


def _csv_bytes(random: Random) -> bytes:
    names = random.sample([*THINGS.names, "zzz"], random.randint(1, 4))
    cells = ["1", "-0", "1e9", "", '""', '"a\nb"', "x", "é", "9" * 5_000, "2026-01-01", '"', "true", '"a""b"', "AAE="]
    rows = [",".join(random.choice(cells) for _ in names) for _ in range(random.choice([0, 3, 200]))]
    return random.choice(["\n", "\r\n"]).join([",".join(names), *rows]).encode()


def _parquet_bytes(random: Random) -> bytes:
    count = random.choice([0, 3, 1_000, 100_000])
    many = random.choice([1, 30, 30_000])
    text = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * many]))
    table = random.choice(
        [
            pa.table({"s": text}),
            pa.table({"i": pa.array([1] * count, random.choice([pa.int8(), pa.uint64(), pa.float32()]))}),
            pa.table({"t": pa.array([2**50] * count, pa.timestamp(random.choice(["s", "us", "ns"])))}),
            pa.table({"d": pa.array([{"s": "x" * min(many, 30), "i": 1}] * min(count, 1_000))}),
        ]
    )
    file = io.BytesIO()
    pq.write_table(table, file, compression=random.choice(["snappy", "zstd", "none"]))
    return file.getvalue()


def event_file(random: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = a_file(random, Path(folder))
        read_events(path, THINGS, on_error=random.choice(["raise", "reject"]), most_bytes=2**26)


def arrow(random: Random) -> None:
    """Columns that hold anything, under names of the space."""
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"x", b"\xff\xfe"]).buffers())
    columns = [
        broken,
        broken.dictionary_encode(),
        pa.array([2**62, -(2**62)], pa.timestamp("us")),
        pa.nulls(2),
        pa.array([1, 2]),
    ]
    columns += [pa.array([[1], [2]]), pa.array([float("nan"), 1e308]), pa.array([{"s": "x"}, None]), pa.array([True, None])]
    names = random.sample([*THINGS.names, "d", "zzz"], random.randint(1, 3))
    table = pa.table({name: random.choice(columns) for name in names})
    EventBatch.from_arrow(THINGS, table, on_error="reject", unknown=random.choice(["error", "ignore"]))


def space_file(random: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / random.choice(["space.json", "space.toml"])
        good = (
            json.dumps(THINGS.to_dict()).encode() if path.suffix == ".json" else b'name = "x"\n[attributes]\nprice = "float"\n'
        )
        deep = random.choice([10, 3_000, 100_000])
        given = random.choice([good, b"[" * deep, b'{"a":' * deep, good.replace(b'"i"', b'"s"'), b"a = " + b"[" * deep])
        path.write_bytes(damaged(random, given))
        Space.load(path)


def topology_file(random: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ending = random.choice(["graphml", "json", "edges", "csv"])
        path = Path(folder) / f"network.{ending}"
        links = [(random.randrange(9), random.randrange(9)) for _ in range(random.choice([1, 12, 500]))]
        made = {
            "graphml": "<graphml><graph>"
            + "".join(f'<node id="{node}"><data key="label">n{node % 5}</data></node>' for node in range(9))
            + "".join(f'<edge source="{one}" target="{other}"/>' for one, other in links)
            + "</graph></graphml>",
            "json": json.dumps({"nodes": [*range(9)], "links": [{"source": one, "target": other} for one, other in links]}),
            "edges": "\n".join(f"{one} {other}" for one, other in links),
            "csv": "\n".join(f"{one},{other},3" for one, other in links),
        }[ending]  # fmt: skip
        path.write_bytes(damaged(random, made.encode()))
        read_topology(path, largest_part=True)


KINDS: Final[list[Callable[[Random], None]]] = [
    predicate, predicate, predicates, transform, json_lines, event_file, arrow, space_file, topology_file, *fuzz_index.KINDS,
]  # fmt: skip


# --- in a child


def take(number: int) -> None:
    """One input; what is refused as it should be is fine."""
    random = Random(number)
    kind = KINDS[number % len(KINDS)]
    with contextlib.suppress(ContentcastError):
        kind(random)


def take_all(first: int, count: int) -> int:
    """In a child process: each within its time, all within the memory. A number on stdout says which one begins."""
    import logging

    logging.disable(logging.CRITICAL)  # of merged links and of sqlglot's own words
    for warm in range(len(KINDS)):
        take(warm)
    grown_from = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slowest = (0.0, first)
    for number in range(first, first + count):
        print(number, flush=True)
        most = int(time.process_time() + 10 * MOST_CPU_S) + 1  # of all threads: a hang ends here
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        begun = time.thread_time()
        take(number)
        took = time.thread_time() - begun
        slowest = max(slowest, (took, number))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown_from) / 1024
        if took > MOST_CPU_S or grown > MOST_GROWTH_MB:
            raise AssertionError(f"input {number} took {took:.2f} s of processor time; memory has grown by {grown:.0f} MB")
    print(f"slowest: {slowest[1]}, {slowest[0]:.3f} s; grown by {grown:.0f} MB", file=sys.stderr)
    return 0


def attack(first: int, count: int) -> str:
    """The child's report; raises with the number of the input that it did not survive."""
    command = [sys.executable, "-m", "tests.fuzz_inputs", "--child", "--first", str(first), "--count", str(count)]
    begun: str | None = None
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert child.stdout is not None
        with child.stdout, lines(lambda: f"attack: input {begun or first}, the last is {first + count - 1}"):
            for line in child.stdout:
                begun = line.strip() or begun
        ended = child.wait()
        errors.seek(0)
        told = errors.read()
    if ended:
        last = first if begun is None else begun
        raise AssertionError(
            f"input {last} ended the process with {ended}; again: python -m tests.fuzz_inputs --child --first {last} "
            f"--count 1\n{told[-2000:]}"
        )
    return told.strip()


def main() -> int:
    told = argparse.ArgumentParser(prog="python -m tests.fuzz_inputs", description="Texts, events and files of strangers.")
    told.add_argument("--minutes", type=float, default=10.0)
    told.add_argument("--first", type=int, default=0, help="the number of the first input")
    told.add_argument("--count", type=int, default=AT_ONCE)
    told.add_argument("--child", action="store_true", help="in this process")
    asked = told.parse_args()
    if asked.child:
        return take_all(asked.first, asked.count)
    begun, first = time.monotonic(), asked.first
    while time.monotonic() - begun < 60 * asked.minutes:
        print(attack(first, asked.count), flush=True)
        first += asked.count
    print(f"{first - asked.first:,} inputs, each answered or refused, in {(time.monotonic() - begun) / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
