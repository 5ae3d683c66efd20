"""A sweep: the same load at one rate after the other, to see from which rate on queues and latencies grow.

    --rates 100:1000:100        100, 200, ... 1,000 events a second at each publishing broker; or 50,100,400

Rule: each rate is a trial of its own with the same events, subscriptions and seed. Beyond what a broker can do its queue grows
for as long as events come, so latencies there depend on how many events were played; the page says so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from contentcast.model import ContentcastError
from contentcast.simulation.trial import Outcome

MOST_RATES: Final = 200


def rates_of(text: str) -> list[float]:
    """`FIRST:LAST:STEP`, or rates with commas."""
    try:
        if ":" in text:
            first, last, step = (float(each) for each in text.split(":"))
            if not 0 < first <= last or step <= 0:
                raise ValueError
            found = [first + at * step for at in range(int((last - first) / step + 1e-9) + 1)]
        else:
            found = [float(each) for each in text.split(",")]
    except (ValueError, OverflowError):
        raise ContentcastError(f"simulate: --rates takes FIRST:LAST:STEP, 100:1000:100, or 50,100,400; got {text!r}") from None
    if not all(0 < each < float("inf") for each in found):
        raise ContentcastError(f"simulate: a rate is a number above 0, got {text!r}")
    if len(found) > MOST_RATES:
        raise ContentcastError(f"simulate: --rates {text} are {len(found):,} rates, more than {MOST_RATES}; take a larger step")
    return found


def row_of(outcome: Outcome) -> dict[str, Any]:
    """One row of the table, in seconds; `longest queue` counts inputs that waited at one broker while events were published."""
    told = outcome.summary()
    return {
        "protocol": told["protocol"],
        "rate": outcome.trial.rate,
        "deliveries": told["deliveries"],
        "copies": told["copies"],
        "bytes": told["bytes"],
        "p50_s": told["p50 s"],
        "p99_s": told["p99 s"],
        "longest_queue": outcome.longest_queue,
        "busiest_share": outcome.busiest_share,
    }


def write(
    rows: list[dict[str, Any]], folder: Path, name: str, draw: Callable[[pa.Table, Path], list[Path]] | None
) -> list[Path]:
    """`name`.csv and `name`.parquet, and the figure."""
    import pyarrow.csv
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    return [folder / f"{name}.csv", folder / f"{name}.parquet", *(draw(table, folder) if draw else [])]


def draw_rates(table: pa.Table, folder: Path) -> list[Path]:
    """Latencies and queues against the rate, as rates.svg and rates.png."""
    from contentcast.experiments.figures import STYLE, label, look

    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ContentcastError(
            f"{folder} has the tables; the figure needs matplotlib: pip install 'contentcast[experiments]'"
        ) from None
    protocols = list(dict.fromkeys(table["protocol"].to_pylist()))
    rows = table.to_pylist()
    with rc_context({**STYLE, "svg.hashsalt": "contentcast", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9.0, 4.2))
        latency, queue = figure.subplots(1, 2)
        for number, protocol in enumerate(protocols):
            mine = [row for row in rows if row["protocol"] == protocol and row["p99_s"] is not None]
            rates = [row["rate"] for row in mine]
            latency.plot(rates, [1000 * row["p99_s"] for row in mine], label=f"{protocol}, p99", **look(number))
            latency.plot(rates, [1000 * row["p50_s"] for row in mine], linestyle=":", **look(number))
            queue.plot(rates, [row["longest_queue"] for row in mine], label=protocol, **look(number))
        latency.set_yscale("log")
        label(latency, "events a second at each publisher", "latency in ms", "From publication to delivery (dotted: p50)")
        label(queue, "events a second at each publisher", "inputs that wait", "The longest queue of any broker")
        latency.legend(fontsize=8)
        queue.legend(fontsize=8)
        figure.tight_layout()
        paths = [folder / "rates.svg", folder / "rates.png"]
        figure.savefig(paths[0], format="svg", metadata={"Date": None})
        figure.savefig(paths[1], format="png", dpi=130, metadata={"Software": None})
    return paths
