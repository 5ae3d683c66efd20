"""What a topology file says, before it is a network: brokers, links with their figures, and which figure is the delay.

    figures of a link                      what becomes of it
    delay_ms=3.5                           3.5 ms
    weight=4.2                             refused: the user says `--delay-attribute weight`, or `weight:s`, or `none`
    LinkLabel="OC-192"                     no number, so it can be no delay: 10 ms, and a warning says so
    (none)                                 10 ms, and a warning says so, but for edge lists, where a delay may be left out

Graphs of NetworkX and Gephi carry `weight`, which may be a delay, a distance or a capacity; no program can know.
Rule: no link has 10 ms in silence unless the form of its file says that it has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from contentcast.model.errors import counted, nearest
from contentcast.network.topology import DEFAULT_DELAY_S, Link, TopologyError

DELAY, BANDWIDTH = "delay_ms", "bandwidth"
NO_DELAY: Final = "none"
PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000}
MOST_NAMED: Final = 8
log = logging.getLogger(__name__)


class Found(NamedTuple):
    """A broker (one name) or a link (two, of brokers found before), as a file says it, and where.

    `figures`: what the file says of a link. `parallel`: another link between the two is no slip. `directed`: the file says that
    it goes one way. `may_lack`: a link without a delay has 10 ms by the form of the file.
    """

    where: str
    names: tuple[str, ...]
    figures: Mapping[str, Any] = {}
    parallel: bool = False
    directed: bool = False
    may_lack: bool = False
    delay_s: float = DEFAULT_DELAY_S


def settled(path: str, given: Iterable[Found], delay_attribute: str | None, undirected: bool) -> Iterator[Found]:
    """The same with the delays that were meant; asks by an error where that is not clear."""
    found = list(given)
    links = [each for each in found if len(each.names) > 1]
    one_way = next((each for each in links if each.directed), None)
    if one_way is not None and not undirected:
        raise TopologyError(
            f"{one_way.where}: the graph is directed, and a link carries messages both ways; if each edge is such a link, say "
            "so: --undirected (undirected=True)"
        )
    name, unit = _attribute(path, links, delay_attribute)
    lacking = 0
    for each in found:
        if len(each.names) == 1:
            yield each
            continue
        told = each.figures.get(name) if name is not None else None
        if told is None or told == "":
            lacking += not each.may_lack
            yield each
            continue
        yield each._replace(delay_s=_seconds(each, name or "", told, unit))
    if lacking and delay_attribute != NO_DELAY:
        said = f"{counted(lacking, 'link')} {'says' if lacking == 1 else 'say'}"
        log.warning("%s: %s no delay (%s); each has %g ms", path, said, name or DELAY, 1000 * DEFAULT_DELAY_S)


def _attribute(path: str, links: list[Found], asked: str | None) -> tuple[str | None, str]:
    """The figure that is the delay, and its unit."""
    if asked == NO_DELAY:
        return None, "ms"
    known = list(dict.fromkeys(key for each in links for key in each.figures))
    if asked is not None:
        name, _, unit = asked.rpartition(":") if asked.rpartition(":")[2] in PER_SECOND and ":" in asked else (asked, "", "ms")
        if name not in known:
            raise TopologyError(f"{path}: its links have no attribute {name!r}{nearest(name, known, 'they have')}")
        return name, unit
    if DELAY in known:
        return DELAY, "ms"
    numbers = [key for key in known if key != BANDWIDTH and any(_is_number(each.figures.get(key)) for each in links)]
    if numbers:
        more = ", ..." if len(numbers) > MOST_NAMED else ""
        raise TopologyError(
            f"{path}: its links have no {DELAY}, but {', '.join(numbers[:MOST_NAMED])}{more}; say which is the delay in "
            f"milliseconds: --delay-attribute {numbers[0]} ({numbers[0]}:s if in seconds, {NO_DELAY} if none is)"
        )
    return DELAY, "ms"


def _is_number(value: Any) -> bool:
    try:
        return value is not None and not isinstance(value, bool) and float(value) == float(value)
    except (TypeError, ValueError):
        return False


def _seconds(link: Found, name: str, told: Any, unit: str) -> float:
    """Through decimals, so that 10.1 ms is the float nearest to 0.0101 s."""
    words = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}[unit]
    try:
        seconds = float(Decimal(str(told)) / PER_SECOND[unit])
    except ArithmeticError:
        raise TopologyError(f"{link.where}: the delay is a number of {words}, got {told!r}") from None
    if seconds < 0:
        raise TopologyError(
            f"{link.where}: link {link.names[0]}-{link.names[1]}: the delay is a number of {words} from 0, got {told}"
        )
    return seconds


def milliseconds(link: Link) -> str:
    exact = (Decimal(repr(link.delay_s)) * 1000).normalize()
    return f"{exact:f}"
