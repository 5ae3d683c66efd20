"""Named, seeded workloads: market data and those of the four papers, as Arrow columns.

`scenario("market", seed=7).events(1_000_000)`; `SCENARIOS` lists the names. Described in docs/guide/workloads.md.
"""

from contentcast.workload.catalog import SCENARIOS, scenario
from contentcast.workload.contract import Scenario
from contentcast.workload.parameters import WorkloadError

__all__ = ["SCENARIOS", "Scenario", "WorkloadError", "scenario"]
