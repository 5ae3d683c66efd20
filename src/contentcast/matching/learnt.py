"""What was learnt from the events that came and the subscriptions that stand, as a plan that matching and routing load.

    plan = LearntPlan.load("plan.json")
    tree = SearchTree(space, **plan.tree_options())      # the attribute order and the factoring that the history asks for
    plan.chance("b7", {"symbol": "IBM"})                 # how likely somebody at b7 wants such an event

Made by `contentcast.spark.learn`, from any amount of history; saved as one JSON file; needs no Spark to be used.
Rule: a plan changes speed, memory and guesses, never a match; so an old plan is never wrong, only less good.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from contentcast.model.errors import ContentcastError
from contentcast.model.space import Space
from contentcast.model.values.kinds import Value


class LearntError(ContentcastError):
    """A plan that cannot be read, or is one for another space."""


class ValueShare(msgspec.Struct, frozen=True):
    """`share` of the events carry the value."""

    value: Value
    share: float


class AttributeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Shares are from 0 to 1. Of the subscriptions: `stars`, `tests`; of the events: `present`, `distinct`, `values` (the most
    frequent ones first), `quantiles` (21 from least to greatest, of a sample); of both: `selectivity`, `survivors`.

    `distinct` is None if there are more than were counted. `matching.search_tree.choose` says what the others mean.
    """

    stars: float
    tests: int
    selectivity: float
    survivors: float
    present: float
    distinct: int | None
    values: list[ValueShare]
    quantiles: list[Value]


class FanOut(msgspec.Struct, frozen=True):
    """`share` of the events matched so many subscriptions that this is the first bound: 0, 1, 2, 4, 8, ..."""

    at_most: int
    share: float


class Flow(msgspec.Struct, frozen=True):
    """`share` of the events that `publisher` published were wanted at `broker`."""

    publisher: str
    broker: str
    share: float


class Split(msgspec.Struct, frozen=True):
    """How likely an event is wanted at a broker, given the value of one attribute.

    `shares[broker]` has one share for each of `values`, and a last one for all other values and none.
    """

    attribute: str
    values: list[Value]
    shares: dict[str, list[float]]


class LearntPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`steps`: of an event of the sample in the tree with `order` and `factored`; `steps_before`: by the paper's rule."""

    format: int = 1
    space: dict[str, Any]
    events: int
    subscriptions: int
    attributes: dict[str, AttributeFacts]
    order: list[str]
    factored: list[str]
    steps: float
    steps_before: float
    matches: float
    """Subscriptions that an event satisfies, in the mean."""
    unwanted: float
    """The share of events that nobody wants."""
    idle: int
    """Subscriptions that no event matched."""
    fan_out: list[FanOut]
    wanted: dict[str, float]
    """For each broker the share of events that somebody there wants."""
    by_value: Split | None
    flows: list[Flow]
    """For each publisher and broker, if the events say who published them."""

    def tree_options(self) -> dict[str, Any]:
        """For `SearchTree(space, **plan.tree_options())`."""
        return {"order": tuple(self.order), "factored": tuple(self.factored)}

    def cuts(self) -> dict[str, dict[str, tuple[Value, ...]]]:
        """For `Setup(cuts=plan.cuts())`: by them the overlay gives each node its share of skewed values."""
        inner = {name: tuple(dict.fromkeys(facts.quantiles[1:-1])) for name, facts in self.attributes.items()}
        return {self.space["name"]: {name: found for name, found in inner.items() if found}}

    def chance(self, broker: str, event: Mapping[str, Value] | None = None) -> float:
        """How likely somebody at the broker wants an event; given one, an event with its value of the split's attribute.

        A broker that the history does not know is 1.0: forward rather than lose.
        """
        if broker not in self.wanted:
            return 1.0
        if event is None or self.by_value is None:
            return self.wanted[broker]
        shares = self.by_value.shares[broker]
        value = event.get(self.by_value.attribute)
        return shares[self.by_value.values.index(value)] if value in self.by_value.values else shares[-1]

    def check(self, space: Space) -> None:
        """Raises if the plan was learnt for another space."""
        if Space.from_dict(self.space) != space:
            raise LearntError(
                f"the plan was learnt for the space {self.space['name']}, which is not this {space.name}; learn anew"
            )

    # --- files

    def save(self, path: str | Path) -> None:
        """As JSON: timestamps in ISO 8601, bytes in base64. The file appears when it is complete."""
        made = Path(path).with_name(f".{Path(path).name}.unfinished")
        made.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        made.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        try:
            read = msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except FileNotFoundError:
            raise LearntError(f"there is no plan {path}; contentcast.spark.learn makes one") from None
        except OSError as reason:
            raise LearntError(f"{path} cannot be read: {reason.strerror}") from None
        except msgspec.MsgspecError as reason:
            raise LearntError(f"{path} is not a learnt plan: {reason}") from None
        return read._with_values_restored()

    def _with_values_restored(self) -> Self:
        """JSON has no timestamps and no bytes: back to what the attribute's kind stores."""
        kinds = Space.from_dict(self.space).kinds
        attributes = {}
        for name, facts in self.attributes.items():
            read = kinds[name].read
            values = [ValueShare(read(each.value), each.share) for each in facts.values]
            quantiles = [read(each) for each in facts.quantiles]
            attributes[name] = msgspec.structs.replace(facts, values=values, quantiles=quantiles)
        split = self.by_value
        if split is not None:
            split = msgspec.structs.replace(split, values=[kinds[split.attribute].read(each) for each in split.values])
        return msgspec.structs.replace(self, attributes=attributes, by_value=split)
