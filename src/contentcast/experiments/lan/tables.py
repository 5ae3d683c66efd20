"""What the LAN experiments share: running a row again at lower rates until nothing is lost, and plain tables and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from contentcast.experiments.figures import label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER: Final = {100: 9000, 500: 7000, 1000: 5500, 1450: 4500}
"""Notifications a second, intra LAN and intra host (table 6)."""
PAPER_PROCESS: Final = {100: 115_000, 500: 100_000, 1000: 85_000, 1450: 75_000}
SIZES: Final = (100, 500, 1000, 1450)
LOST_AT_MOST: Final = 0.001
TRIES: Final = 4

Play = Callable[[float], Mapping[str, dict[str, Any]]]


def loss_free(play: Play, receivers: Mapping[str, float], senders: tuple[str, ...]) -> dict[str, Any]:
    """As fast as it goes, then at lower rates until at most a thousandth is lost. `receivers`: the share that each wants."""
    rate, found = 0.0, {}
    for _ in range(TRIES):
        found = dict(play(rate))
        sent = sum(found[each]["sent"] for each in senders)
        got = {name: found[name]["received"] / share for name, share in receivers.items()}
        lost = 1 - min(got.values()) / max(sent, 1)
        took = max([*(found[each]["took"] for each in senders), *(found[each]["took"] for each in receivers)])
        received = min(got.values()) / took
        cpu = sum(found[each]["cpu"] for each in senders) / max(sent, 1)
        result = {"rate": received, "lost": lost, "sent": sent, "sender_cpu_us": 1e6 * cpu, "parties": found}
        if lost <= LOST_AT_MOST:
            break
        rate = 0.7 * received
    return result


def summarize(*columns: str) -> Callable[[pa.Table], pa.Table]:
    def chosen(table: pa.Table) -> pa.Table:
        return table.select([name for name in columns if name in table.column_names])

    return chosen


def bars(across: str, value: str, title: str) -> Callable[[pa.Table, Figure], None]:
    def draw(table: pa.Table, figure: Figure) -> None:
        axes = figure.subplots()
        names = [str(each) for each in table[across].to_pylist()]
        axes.bar(range(len(names)), table[value].to_pylist())
        axes.set_xticks(range(len(names)), names, rotation=30)
        label(axes, across, value, title)

    return draw
