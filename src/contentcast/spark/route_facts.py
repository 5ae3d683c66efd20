"""What a protocol cost, as rows that workers make and Spark adds up, and as the arrays that the driver reads them into.

    protocol  fact      one  other  value
    flooding  messages  b1   b2     17        copies on the link from b1 to b2
    flooding  state     b1          4096      bytes that b1 holds; told by every chunk, like `chunks` itself

Rule: every fact can be added up over chunks, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.hosting.ledger import LATENCY_BINS, Ledger, percentile
from contentcast.network.topology import Topology

FACTS: Final = pa.schema(
    [("protocol", pa.string()), ("fact", pa.string()), ("one", pa.string()), ("other", pa.string()), ("value", pa.float64())]
)


@dataclass(frozen=True, slots=True)
class Totals:
    """What one protocol cost, all events together."""

    protocol: str
    topology: Topology
    messages: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    visits: npt.NDArray[np.int64]
    steps: npt.NDArray[np.int64] | None
    """None: not counted. The cost model then charges nothing for matching."""
    deliveries: npt.NDArray[np.int64]
    busy_s: npt.NDArray[np.float64]
    latencies: npt.NDArray[np.int64]
    group_messages: npt.NDArray[np.int64]
    """Copies that each broker sent to a group of a LAN: one for all its receivers."""
    group_bytes: npt.NDArray[np.int64]
    state: npt.NDArray[np.float64]
    """Bytes that each broker holds of subscriptions and of what it is told about others'."""
    cpu_s: float = 0.0
    """Measured: what the routers of all brokers took for the events, on one core."""

    @property
    def all_messages(self) -> int:
        """On links and to groups."""
        return int(self.messages.sum() + self.group_messages.sum())

    @property
    def all_bytes(self) -> int:
        return int(self.bytes.sum() + self.group_bytes.sum())

    def latency_s(self, share: float) -> float:
        return percentile(self.latencies, share)

    def links(self) -> pa.Table:
        """Copies and bytes on each link in each direction, the busiest first."""
        one, other = np.nonzero(self.messages)
        order = np.argsort(-self.messages[one, other], kind="stable")
        one, other = one[order], other[order]
        names = pa.array(self.topology.brokers, pa.string())
        return pa.table(
            {
                "protocol": pa.array([self.protocol] * len(one), pa.string()),
                "from": names.take(pa.array(one)),
                "to": names.take(pa.array(other)),
                "messages": self.messages[one, other],
                "bytes": self.bytes[one, other],
            }
        )

    def brokers(self) -> pa.Table:
        columns = {
            "visits": self.visits,
            "steps": pa.nulls(len(self.visits), pa.int64()) if self.steps is None else self.steps,
            "deliveries": self.deliveries,
            "busy_s": self.busy_s,
        }
        names = {"protocol": pa.array([self.protocol] * len(self.visits), pa.string()), "broker": list(self.topology.brokers)}
        return pa.table({**names, **columns})


def fact_rows(name: str, ledger: Ledger, state: Sequence[float], cpu_s: float) -> pa.RecordBatch:
    """Of one chunk on a worker."""
    names = ledger.topology.brokers
    facts: list[tuple[str, str, str, str, float]] = []
    for fact, matrix in (("messages", ledger.messages), ("bytes", ledger.bytes)):
        for one, other in zip(*np.nonzero(matrix), strict=True):
            facts.append((name, fact, names[one], names[other], float(matrix[one, other])))
    sums = {"visits": ledger.visits, "steps": ledger.steps, "deliveries": ledger.deliveries, "busy_s": ledger.busy_s}
    sums |= {"group_messages": ledger.group_messages, "group_bytes": ledger.group_bytes}
    for fact, values in sums.items():
        facts += [(name, fact, names[at], "", float(values[at])) for at in np.flatnonzero(values)]
    # Every chunk tells the state, so that the mean over chunks is that of the workers.
    facts += [(name, "state", broker, "", size) for broker, size in zip(names, state, strict=True)]
    facts += [(name, "chunks", "", "", 1.0), (name, "cpu_s", "", "", cpu_s)]
    facts += [(name, "latency", str(at), "", float(ledger.latencies[at])) for at in np.flatnonzero(ledger.latencies)]
    columns = list(zip(*facts, strict=True)) or [()] * 5
    return pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, FACTS, strict=True)], schema=FACTS
    )


def gathered(facts: pa.Table, topology: Topology, protocols: Mapping[str, Any], count_steps: bool) -> dict[str, Totals]:
    count = len(topology)
    found = {
        name: Totals(
            name,
            topology,
            messages=np.zeros((count, count), np.int64),
            bytes=np.zeros((count, count), np.int64),
            visits=np.zeros(count, np.int64),
            steps=np.zeros(count, np.int64) if count_steps else None,
            deliveries=np.zeros(count, np.int64),
            busy_s=np.zeros(count),
            latencies=np.zeros(len(LATENCY_BINS) + 1, np.int64),
            group_messages=np.zeros(count, np.int64),
            group_bytes=np.zeros(count, np.int64),
            state=np.zeros(count),
        )
        for name in protocols
    }
    rows = facts.to_pylist()
    chunks = {row["protocol"]: row["value"] for row in rows if row["fact"] == "chunks"}
    cpu_s = {row["protocol"]: row["value"] for row in rows if row["fact"] == "cpu_s"}
    for row in rows:
        totals = found[row["protocol"]]
        match row["fact"]:
            case "chunks" | "cpu_s":
                continue
            case "state":
                totals.state[topology.number(row["one"])] = row["value"] / chunks[row["protocol"]]
            case "messages" | "bytes" as fact:
                getattr(totals, fact)[topology.number(row["one"]), topology.number(row["other"])] = row["value"]
            case "latency":
                totals.latencies[int(row["one"])] = row["value"]
            case fact:
                getattr(totals, fact)[topology.number(row["one"])] = row["value"]
    return {name: replace(each, cpu_s=cpu_s.get(name, 0.0)) for name, each in found.items()}
