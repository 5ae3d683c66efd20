"""Topologies as lists of edges, with blanks or with commas.

    a b 10               one link a line: two brokers, one-way delay in ms (10 if left out), bytes per second (no limit);
    b c 25 1e6           a line with one name is a broker; what follows # is a comment

With commas the first line may be a header that names the columns in any order: one,other,delay_ms,bandwidth as we write it, or
source,target,weight as other programs do.
Rule: a line is judged by itself, so that an error can say where it stands.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Final, NamedTuple

from contentcast.network.found import Found, milliseconds
from contentcast.network.topology import Topology, TopologyError

HEADER: Final = ("one", "other", "delay_ms", "bandwidth")
ENDS: Final = (("one", "other"), ("source", "target"), ("from", "to"), ("src", "dst"), ("source", "destination"))
"""What the two columns of brokers are called."""
NO_FIGURES: Final = ("id", "label", "timeset", "key")
"""Columns of Gephi and NetworkX that are never a delay."""


def read_edges(path: str, text: str) -> Iterator[Found]:
    for number, line in enumerate(text.splitlines(), 1):
        yield from _edge(f"{path}, line {number}", line.partition("#")[0].split())


def read_csv(path: str, text: str) -> Iterator[Found]:
    """With a header that names the columns, or without one in the order of ours."""
    reader = csv.reader(text.splitlines(), skipinitialspace=True, strict=True)
    header: _Header | None = None
    first = True
    try:
        for row in reader:
            if not row or row[0].lstrip().startswith("#"):
                continue
            words, where = [word.strip() for word in row], f"{path}, line {reader.line_num}"
            if first and (header := _Header.of(where, words)) is not None:
                first = False
                continue
            first = False
            if header is not None:
                yield from header.links(where, words)
                continue
            while words and not words[-1]:
                words.pop()
            yield from _edge(where, words)
    except csv.Error as error:
        raise TopologyError(f"{path}, line {reader.line_num}: {error}") from None


class _Header(NamedTuple):
    """The columns of a table of edges, as Gephi, NetworkX and spreadsheets write it."""

    names: list[str]
    ends: tuple[int, int]
    way: int | None
    """The column that says whether an edge goes one way, as in Gephi's tables."""

    @classmethod
    def of(cls, where: str, words: list[str]) -> _Header | None:
        folded = [word.casefold() for word in words]
        pair = next((pair for pair in ENDS if all(end in folded for end in pair)), None)
        if pair is None:
            return None
        if len(set(folded)) < len(folded):
            raise TopologyError(f"{where}: two columns have the same name; rename one")
        way = folded.index("type") if "type" in folded else None
        return cls(words, (folded.index(pair[0]), folded.index(pair[1])), way)

    def links(self, where: str, words: list[str]) -> Iterator[Found]:
        if len(words) > len(self.names):
            raise TopologyError(f"{where}: the header names {len(self.names)} columns, and this line has {len(words)}")
        words = [*words, *[""] * (len(self.names) - len(words))]
        one, other = (words[at] for at in self.ends)
        if not any(words):
            return
        if not one:
            raise TopologyError(f"{where}: a broker's name is missing")
        yield Found(where, (one,))
        if not other:
            return
        yield Found(where, (other,))
        known = {"delay_ms": "delay_ms", "bandwidth": "bandwidth"}
        figures = {
            known.get(name.casefold(), name): word
            for at, (name, word) in enumerate(zip(self.names, words, strict=True))
            if at not in (*self.ends, self.way) and name.casefold() not in NO_FIGURES
        }
        one_way = self.way is not None and words[self.way].casefold() == "directed"
        yield Found(where, (one, other), figures, directed=one_way, parallel=one_way, may_lack="delay_ms" in figures)


def _edge(where: str, words: list[str]) -> Iterator[Found]:
    if not words or tuple(words) in (HEADER[:3], HEADER):
        return
    if len(words) > len(HEADER):
        raise TopologyError(f"{where}: expected two brokers, delay_ms and bandwidth, got {len(words)} words: {' '.join(words)}")
    if "" in words[:2]:
        raise TopologyError(f"{where}: a broker's name is missing")
    for name in words[:2]:
        yield Found(where, (name,))
    if len(words) > 1:
        yield Found(where, (words[0], words[1]), dict(zip(HEADER[2:], words[2:], strict=False)), may_lack=True)


def write_edges(topology: Topology) -> str:
    for broker in topology.brokers:
        if len(broker.split()) != 1 or "#" in broker or broker != broker.strip():
            raise TopologyError(f"broker {broker!r} cannot stand in an edge list with blanks; write .csv, .json or .graphml")
    return "".join(" ".join(row) + "\n" for row in _rows(topology))


def write_csv(topology: Topology) -> str:
    def quoted(word: str) -> str:
        return '"' + word.replace('"', '""') + '"' if any(each in word for each in ',"#\n\r') else word

    for broker in topology.brokers:
        if broker != broker.strip() or len(broker.splitlines()) != 1 or broker.startswith("#"):
            raise TopologyError(f"broker {broker!r} cannot stand in a .csv; write .json or .graphml")
    rows = [HEADER, *_rows(topology)]
    return "".join(",".join(quoted(word) for word in row) + "\n" for row in rows)


def _rows(topology: Topology) -> Iterator[tuple[str, ...]]:
    yield from ((broker,) for broker in topology.brokers if not topology.degree(broker))
    for link in topology.links:
        row = link.one, link.other, milliseconds(link)
        yield row if link.bandwidth is None else (*row, repr(link.bandwidth))
