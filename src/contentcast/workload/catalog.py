"""Names -> scenarios. A preset is a scenario with other defaults; it takes the same parameters.

Rule: whoever asks for a name that is not here is told the nearest one, or all there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Final

from contentcast.model.errors import nearest
from contentcast.workload.contract import Recipe, Scenario
from contentcast.workload.desks import Desks, DesksParameters
from contentcast.workload.gryphon import Gryphon, GryphonParameters
from contentcast.workload.market import Market, MarketParameters
from contentcast.workload.overlay import Overlay, OverlayParameters
from contentcast.workload.parameters import WorkloadError, checked, limits
from contentcast.workload.summaries import Summaries, SummariesParameters
from contentcast.workload.video import Video, VideoParameters


@dataclass(frozen=True)
class Entry:
    """How a named scenario is made."""

    description: str
    recipe: Callable[[int, Any], Recipe]
    parameters: type
    preset: Mapping[str, Any] = field(default_factory=dict)


_W1B: Final = {"attributes": 30, "values": 30, "care": 0.35, "decay": 1.0, "regions": 1, "factored": 0}

ENTRIES: Final[Mapping[str, Entry]] = {
    "market": Entry("trades of 1000 symbols; an event matches about 0.08 % of subscriptions", Market, MarketParameters),
    "market-hot": Entry("market, the most traded symbols most wanted", Market, MarketParameters, {"hot": True}),
    "desks": Entry("the trades of market; offices follow sectors and their own exchange", Desks, DesksParameters),
    "gryphon": Entry("the link-matching paper's generator: P, D, Zipf, regions", Gryphon, GryphonParameters),
    "w1": Entry("gryphon with 10 attributes x 3 values, P 0.98, D 0.82 (chart 3)", Gryphon, GryphonParameters),
    "w1b": Entry("gryphon with 30 attributes x 30 values, 65 % stars (prototype)", Gryphon, GryphonParameters, _W1B),
    "summaries": Entry("the summaries paper's: 10 attributes, 24 brokers, subsumption", Summaries, SummariesParameters),
    "overlay": Entry("the overlay paper's: ranges on four ints, selective attributes", Overlay, OverlayParameters),
    "video": Entry("the LAN paper's: blocks of video with their pixels", Video, VideoParameters),
}

SCENARIOS: Final[Mapping[str, str]] = MappingProxyType({name: entry.description for name, entry in ENTRIES.items()})


def scenario(name: str, *, seed: int = 0, **parameters: Any) -> Scenario:
    """The named scenario: `scenario("market", seed=7, symbols=500)`. Same name, seed and parameters, same rows."""
    entry = _entry(name)
    if not _is_seed(seed):
        raise WorkloadError(f"{name}: seed is an int from 0 to 2**64 - 1, got {seed!r}")
    told: Any = checked(name, entry.parameters, {**entry.preset, **parameters})
    return Scenario(name, seed, asdict(told), entry.recipe(seed, told))


def parameters_of(name: str) -> set[str]:
    """What this scenario can be told."""
    return set(limits(_entry(name).parameters))


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise WorkloadError(f"contentcast has no scenario {name!r}{nearest(name, ENTRIES)}")
    return ENTRIES[name]


def _is_seed(seed: Any) -> bool:
    return isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**64
