"""A mapping that changes seldom: quantiles of observed values take the load off hotspots, and all nodes change or none.

Source: Baldoni et al. 2005, section 4.2 (discussion), suggests "nearly static" mappings and leaves the how open.

    prepare    the version goes round the ring; every node stores its clients' subscriptions by both mappings from then on
    wait       one renewal period, in which everything is told by both
    commit     round the ring again; events go by the new mapping, subscriptions by both
    forget     when all that was stored by the old mapping alone has expired

Until the commit all events go by the old mapping, and every subscription stands under both before and after it: whoever has
changed and whoever has not meet the same subscriptions. If the first round does not come back, nobody changes.
A first round that does not come back is given up after a while, and the next proposal takes its number.

Rule: the node that covers key 0 proposes, so that versions have one source; a node that missed a commit is told by the first
neighbour that asks it something. Nobody goes further than MOST_STEP versions at once: a forged or damaged version would be the
last one for ever. Who is further behind takes several steps, one each time that it is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from contentcast.model import EventBatch, Space
from contentcast.routing.overlay.mappings import KeyMapping
from contentcast.routing.overlay.scales import Scale
from contentcast.routing.overlay.store import Ranges
from contentcast.wire.overlay import Mapping

KEPT_VALUES: Final = 4096
"""Values of each attribute that a node remembers of the events published at it."""
LEAST_VALUES: Final = 256
CUTS: Final = 255
LEARNT_KINDS: Final = ("int", "float", "string")
PARTS: Final = 16
MOST_STEP: Final = 1 << 20
"""A network that changes its mapping every minute is two years ahead by then."""
SKEWED: Final = 4.0
"""A mapping is worth changing when the fullest of PARTS equal parts of the places holds this many times its share."""


@dataclass
class Remapping:
    """The versions that a node holds. `ranges` is what it stores and looks up by: the mapping for events comes first."""

    mapping: KeyMapping
    given: Dict[str, Dict[str, tuple[Any, ...]]] = field(default_factory=dict)
    """Cuts that were learnt elsewhere, by Spark from the history; what is observed here comes after them."""
    version: int = 0
    proposer: str = ""
    pending: Mapping | None = None
    pending_until: float = float("-inf")
    """When the pending version is given up, unless it has come round."""
    came_round: int = 0
    """The version that everybody has prepared, at the node that proposed it."""
    before: KeyMapping | None = None
    """The mapping that was committed before, as long as subscriptions may stand under it alone."""
    observed: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)
    """Those that events were published in here, in the version that they had last."""

    def ranges(self) -> Ranges:
        held = [self.mapping]
        if self.pending is not None:
            held.append(self._of(self.pending))
        if self.before is not None:
            held.append(self.before)
        return Ranges(held)

    def _of(self, told: Mapping) -> KeyMapping:
        cuts: Dict[str, Dict[str, list[Any]]] = json.loads(told.specification)
        learnt = {space: {name: tuple(each) for name, each in mine.items()} for space, mine in cuts.items()}
        return replace(self.mapping, learnt=learnt)

    # --- learning

    def observe(self, events: EventBatch) -> None:
        space = events.space
        self.spaces[space.name] = space
        mine = self.observed.setdefault(space.name, {})
        for at, (name, attribute) in enumerate(space.items()):
            if attribute.kind in LEARNT_KINDS:
                kept = mine.setdefault(name, [])
                kept += [each for each in events.records.column(at).to_pylist() if each is not None]
                del kept[:-KEPT_VALUES]

    def proposal(self, broker: str) -> Mapping | None:
        """The next version: cuts that were given, or observed values that are skewed under the present one."""
        if self.given and not self.version:
            plain = {space: {name: list(each) for name, each in mine.items()} for space, mine in self.given.items()}
            return Mapping(self.version + 1, broker, json.dumps(plain, sort_keys=True))
        cuts: dict[str, dict[str, list[Any]]] = {}
        skewed = False
        for name, space in self.spaces.items():
            scales = dict(zip(space.names, self.mapping.in_space(space).scales, strict=True))
            for attribute, values in self.observed.get(name, {}).items():
                if attribute not in scales or len(values) < LEAST_VALUES:
                    continue
                ordered = sorted(values)
                chosen = sorted({ordered[len(ordered) * at // (CUTS + 1)] for at in range(1, CUTS + 1)})
                fullest = _fullest(scales[attribute], values)
                # One value that everybody carries stays one place whatever the cuts are: that is no reason to change.
                better = _fullest(Scale.learnt(space[attribute], tuple(chosen)), values) < fullest / 2
                skewed |= better and fullest > SKEWED / PARTS
                cuts.setdefault(name, {})[attribute] = chosen
        if not skewed:
            return None
        return Mapping(self.version + 1, broker, json.dumps(cuts, sort_keys=True))

    # --- versions

    def is_preparing(self, now: float) -> bool:
        """Is a version on its way that may still be committed?"""
        return self.pending is not None and (now < self.pending_until or self.pending.version == self.came_round)

    def prepare(self, told: Mapping, now: float, given_up_at: float) -> bool:
        if not self.version < told.version <= self.version + MOST_STEP:
            return False
        if self.pending is not None and self.pending.version >= told.version and self.is_preparing(now):
            return False
        self.pending = replace(told, commit=False, asked=False)
        self.pending_until, self.came_round = given_up_at, 0
        return True

    def comes_round(self, told: Mapping) -> bool:
        """What was proposed here is back; from now on it can be committed."""
        if self.pending is None or self.pending.version != told.version or self.came_round == told.version:
            return False
        self.came_round = told.version
        return True

    def to_commit(self) -> Mapping | None:
        if self.pending is None or self.pending.version != self.came_round:
            return None
        return replace(self.pending, commit=True)

    def commit(self, told: Mapping) -> bool:
        step = told.version - self.version
        if step <= 0 or (step > MOST_STEP and not told.asked):
            return False
        self.before = self.mapping
        self.mapping = self._of(told)
        self.version += min(step, MOST_STEP)
        self.proposer, self.pending = told.proposer, None
        return True

    def committed(self) -> Mapping:
        """For somebody who has missed it."""
        return Mapping(self.version, self.proposer, self.specification(), commit=True, asked=True)

    def specification(self) -> str:
        plain = {space: {name: list(cuts) for name, cuts in mine.items()} for space, mine in self.mapping.learnt.items()}
        return json.dumps(plain, sort_keys=True)


def _fullest(scale: Scale, values: list[Any]) -> float:
    """The share of the values that the fullest part of the places holds."""
    places = np.array([scale.of_value(each) for each in values], np.uint64)
    parts = np.bincount((places >> np.uint64(60)).astype(np.int64), minlength=PARTS)
    return float(parts.max()) / len(values)
