"""`contentcast simulate`: a workload on a network in virtual time, protocols side by side.

Rule: the same options print the same table, on any machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contentcast.commands.shared.progress import progress
from contentcast.model import ContentcastError

if TYPE_CHECKING:
    from contentcast.network.ring_picture import Stand
    from contentcast.simulation.trial import Outcome


def simulate(
    scenario: Annotated[str, typer.Option(help="Who wants what: a scenario of `workload --list`.")] = "gryphon",
    topology: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="gryphon-39, star:500, or .graphml, .json, .edges.", show_default="its own")
    ] = "",
    largest_part: Annotated[
        bool, typer.Option("--largest-part", help="Of a file's network that is not connected, the largest part.")
    ] = False,
    protocol: Annotated[list[str] | None, typer.Option(help="Several to compare.", show_default="all")] = None,
    events: Annotated[int, typer.Option(min=1, help="How many events.")] = 1_000,
    subscriptions: Annotated[int, typer.Option(min=0, help="How many subscriptions.")] = 1_000,
    rate: Annotated[float, typer.Option(min=0.001, help="Events a second at each publishing broker.")] = 20.0,
    bursty: Annotated[bool, typer.Option("--bursty", help="In bursts, at the same rate on average.")] = False,
    loss: Annotated[float, typer.Option(min=0, max=0.9, help="Share of messages that links lose; they are sent again.")] = 0.0,
    codec: Annotated[bool, typer.Option("--codec", help="Every message as bytes and back.")] = False,
    seed: Annotated[int, typer.Option(help="Same seed, same run.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the scenario, or of a protocol.", show_default=False),
    ] = None,
    draw: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw the network with its load, as .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run brokers in virtual time: deliveries, messages, bytes, steps, latencies and the busiest links of each protocol."""
    from contentcast import catalog
    from contentcast.commands.shared.compiled import have_compiled
    from contentcast.commands.shared.settings import setting
    from contentcast.network.named import default_network, placed
    from contentcast.network.named import topology as known_topology
    from contentcast.simulation.trial import Trial
    from contentcast.simulation.ways.links import LinkQuality
    from contentcast.warming.parts import part_of

    names, settings = _with_options(list(dict.fromkeys(protocol or catalog.PROTOCOLS)), settings or [], scenario)
    network = known_topology(topology or default_network(scenario), largest_part=largest_part)
    chosen = placed(scenario, network, seed=seed, **dict(setting(each) for each in settings))
    if draw is not None and draw.exists() and not draw.is_dir():
        raise ContentcastError(f"simulate: {draw} is a file; --draw takes a folder")
    have_compiled(part_of(names, count_steps=True))
    outcomes: list[Outcome] = []
    for name in names:
        trial = Trial(
            network, chosen, name, events, subscriptions, rate, bursty, seed, quality=LinkQuality(loss=loss), codec=codec
        )
        with progress(name, events) as advance:
            done = 0.0

            def tell(share: float, advance: Any = advance) -> None:
                nonlocal done
                advance(round((share - done) * events))
                done = share

            outcomes.append(trial.run(tell))
    drawn = [_draw(outcome, draw) for outcome in outcomes] if draw is not None else []
    if as_json:
        described = [outcome.summary() | {"busiest": list(outcome.busiest())} for outcome in outcomes]
        typer.echo(json.dumps({"topology": topology or default_network(scenario), "seed": seed, "protocols": described}))
    else:
        _show(outcomes, drawn)


def _with_options(names: list[str], settings: list[str], scenario: str) -> tuple[list[str], list[str]]:
    """A setting that the scenario does not know goes to the protocols that do; what is left is the scenario's."""
    from contentcast import catalog
    from contentcast.workload.catalog import parameters_of

    named = [(each.partition("=")[0].strip(), each) for each in settings]
    known = {name: catalog.options_of(catalog.protocol(name)).keys() - parameters_of(scenario) for name in names}
    chosen = [",".join([name, *(each for option, each in named if option in known[name])]) for name in names]
    for each in chosen:
        catalog.protocol(each)
    taken = set().union(*known.values())
    return chosen, [each for option, each in named if option not in taken]


def _draw(outcome: Outcome, folder: Path) -> Path:
    from contentcast.network.picture import draw
    from contentcast.network.ring_picture import draw_ring

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.trial.protocol}.svg"
    title = f"{outcome.trial.protocol} on {outcome.trial.topology!r}"
    if stands := _ring(outcome):  # nodes reach each other over it, whatever links are below
        kept = {name: outcome.world.router(name).sizes()["subscriptions"] for name in outcome.trial.topology.brokers}
        path.write_text(draw_ring(stands, kept, outcome.steps(), title=title))
        return path
    loads: dict[tuple[str, str], float] = {}
    for row in outcome.links.to_pylist():
        ends = (row["sender"], row["receiver"])
        loads[ends] = loads.get(ends, 0.0) + row["bytes"]
    path.write_text(draw(outcome.trial.topology, loads, outcome.steps(), unit="bytes", title=title))
    return path


def _ring(outcome: Outcome) -> list[Stand]:
    """The places on the ring of a protocol that has one."""
    from contentcast.network.ring_picture import Stand

    found = []
    for broker in outcome.trial.topology.brokers:
        state = outcome.world.router(broker).state()
        places = state.get("places") or ({broker: state["ring"]} if "ring" in state else {})
        found += [Stand(name, ring["share"], broker) for name, ring in places.items()]
    return found


def _show(outcomes: list[Outcome], drawn: list[Path]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("protocol", no_wrap=True)
    headings = ("deliveries", "messages", "kB", "steps", "p50 ms", "p99 ms")
    for heading in headings:
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        row = outcome.summary()
        latencies = ["-" if row[each] is None else f"{1000 * row[each]:,.1f}" for each in ("p50 s", "p99 s")]
        table.add_row(
            row["protocol"],
            f"{row['deliveries']:,}",
            f"{row['copies']:,}",
            f"{row['bytes'] / 1000:,.0f}",
            f"{row['steps']:,}",
            *latencies,
        )
    console.print(table)
    busiest = Table("protocol", "busiest links", box=box.SIMPLE_HEAD)
    for outcome in outcomes:
        told = (f"{row['sender']} > {row['receiver']} {row['bytes'] / 1000:,.0f} kB" for row in outcome.busiest(3))
        busiest.add_row(outcome.trial.protocol, ", ".join(told))
    console.print(busiest)
    for path in drawn:
        console.print(str(path), highlight=False)
