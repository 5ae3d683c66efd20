"""The planner against the optimum on small cases, and against the paper's rule of thumb on large ones.

Source: Eide et al. 2003, section 7 (announced) and 4.3.5 (the rule of thumb). Flows with loads over two factors of ten, each
wanted by some of the servers; the cost is what servers receive and discard.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.lan.tables import bars, summarize
from contentcast.model import Space
from contentcast.routing.multicast.planner import Costs, Flow, best, rule_of_thumb
from contentcast.routing.multicast.planner import plan as make_plan

SPACE: Final = Space("flows", source="string")


def plan(scale: Scale) -> list[Row]:
    few = [
        {"case": "small", "flows": 8, "servers": 5, "groups": 3, "seed": seed} for seed in scale.seeds(5 if scale.quick else 20)
    ]
    many = [
        {"case": "large", "flows": 60, "servers": 12, "groups": 8, "seed": seed}
        for seed in scale.seeds(2 if scale.quick else 10)
    ]
    return [*few, *many]


def measure(case: str, flows: int, servers: int, groups: int, seed: int) -> dict[str, Any]:
    random = Random(f"planner {case} {seed}")
    names = [f"server-{at}" for at in range(servers)]
    chosen = [
        Flow(
            SPACE, "source", f"v{at}", 10 ** (2 * random.random()), frozenset(random.sample(names, random.randint(1, servers)))
        )
        for at in range(flows)
    ]
    costs = Costs(chosen)
    return {
        "planned": costs.of(make_plan(chosen, groups)),
        "rule_of_thumb": costs.of(rule_of_thumb(chosen, groups)),
        "one_group": costs.of((tuple(range(flows)),)),
        "optimum": costs.of(best(chosen, groups)) if case == "small" else float("nan"),
    }


def judge(table: pa.Table) -> list[Verdict]:
    rows = table.to_pylist()
    small = [each for each in rows if each["case"] == "small"]
    large = [each for each in rows if each["case"] == "large"]
    above = [each["planned"] / each["optimum"] if each["optimum"] else 1.0 for each in small]
    saved = [each["planned"] / each["rule_of_thumb"] for each in large]
    return [
        Verdict(
            "The plan is near the optimum on small cases",
            "not shown",
            f"{np.mean(above):.3f} times the optimum on average, {max(above):.3f} at most; "
            f"{sum(each < 1.0001 for each in above)} of {len(above)} optimal",
            max(above) <= 1.25,
        ),
        Verdict(
            "It discards less than the rule of thumb on large cases",
            "announced",
            f"{np.mean(saved):.2f} of the rule of thumb's load",
            max(saved) < 1,
        ),
    ]


EXPERIMENT: Final = Experiment(
    "lan/planner",
    "Planned mappings, the optimum and the rule of thumb",
    "Eide et al. 2003, section 7 (further work)",
    plan,
    measure,
    judge,
    summarize("case", "seed", "planned", "optimum", "rule_of_thumb", "one_group"),
    bars("seed", "planned", "load received and discarded"),
)
