"""`contentcast simulate`: a workload on a network in virtual time, protocols side by side.

Rule: the same options print the same table, on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from contentcast.commands.shared.intake_options import Epoch, Finer, Nan, Unknown, how_of
from contentcast.commands.shared.progress import progress
from contentcast.model import ContentcastError

if TYPE_CHECKING:
    from contentcast.files.own_workload import OwnWorkload
    from contentcast.model import How
    from contentcast.network.ring_picture import Stand
    from contentcast.network.topology import Topology
    from contentcast.simulation.trial import Outcome, Trial

USUALLY: Final = 1_000
"""Events and subscriptions of a scenario."""
USUAL_SCENARIO: Final = "gryphon"


def simulate(
    scenario: Annotated[
        str | None, typer.Option(help="Who wants what: a scenario of `workload --list`.", show_default=USUAL_SCENARIO)
    ] = None,
    events_from: Annotated[
        list[str] | None, typer.Option(metavar="FILES", help="Your own events, instead of a scenario.", show_default=False)
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="With --events-from: the table of your rules, or .txt.", show_default=False)
    ] = None,
    space: Annotated[
        Path | None, typer.Option(help="With --events-from: the space of your events.", show_default=False)
    ] = None,
    publisher: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --events-from: the broker where an event enters.", show_default="publisher"),
    ] = None,
    unknown: Unknown = None,
    nan: Nan = None,
    finer: Finer = None,
    epoch: Epoch = None,
    topology: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="gryphon-39, star:500, or .graphml, .json, .edges.", show_default="its own")
    ] = "",
    delay_attribute: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Which attribute of a file's links is the delay in ms; NAME:s for seconds, or none.",
            show_default="delay_ms",
        ),
    ] = None,
    undirected: Annotated[
        bool, typer.Option("--undirected", help="The edges of a file's directed graph are links both ways.")
    ] = False,
    largest_part: Annotated[
        bool, typer.Option("--largest-part", help="If a file's network is not connected, take its largest part.")
    ] = False,
    protocol: Annotated[list[str] | None, typer.Option(help="Several to compare.", show_default="all")] = None,
    events: Annotated[int | None, typer.Option(min=1, help="How many events.", show_default="1,000; own: all")] = None,
    subscriptions: Annotated[
        int | None, typer.Option(min=0, help="How many subscriptions.", show_default="1,000; own: all")
    ] = None,
    rate: Annotated[float, typer.Option(min=0.001, help="Events a second at each publishing broker.")] = 20.0,
    rates: Annotated[
        str | None, typer.Option(metavar="A:B:STEP", help="One rate after the other: 100:1000:100.", show_default=False)
    ] = None,
    bursty: Annotated[bool, typer.Option("--bursty", help="In bursts, at the same rate on average.")] = False,
    loss: Annotated[float, typer.Option(min=0, max=0.9, help="Share of messages that links lose; they are sent again.")] = 0.0,
    codec: Annotated[bool, typer.Option("--codec", help="Every message as bytes and back.")] = False,
    seed: Annotated[int, typer.Option(help="Same seed, same run.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the scenario, or of a protocol.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Tables as .csv and .parquet; with --rates a plot.", show_default=False),
    ] = None,
    draw: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw the network with its load, as .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run brokers in virtual time: deliveries, messages, bytes, steps, latencies and the busiest links of each protocol."""
    from contentcast import catalog
    from contentcast.commands.shared.compiled import have_compiled
    from contentcast.commands.shared.settings import setting
    from contentcast.commands.simulating.rates import draw_rates, rates_of, row_of, write
    from contentcast.network.named import default_network, placed
    from contentcast.network.named import topology as known_topology
    from contentcast.simulation.trial import Trial
    from contentcast.simulation.ways.links import LinkQuality
    from contentcast.warming.parts import part_of

    how = how_of(unknown, None, nan, finer, epoch)
    _check_together(
        events_from,
        rules,
        space,
        {"--publisher": publisher, "--unknown": unknown, "--nan": nan, "--finer": finer, "--epoch": epoch},
    )
    if events_from and scenario is not None:
        raise ContentcastError("simulate: your own events take the place of a scenario; leave out --scenario or --events-from")
    scenario = scenario or USUAL_SCENARIO
    for folder, option in ((draw, "--draw"), (out, "--out")):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise ContentcastError(f"simulate: {folder} is a file; {option} takes a folder")
    wanted_rates = rates_of(rates) if rates is not None else [rate]
    if rates is not None and draw is not None:
        raise ContentcastError("simulate: --draw shows one rate, and --rates are several; leave one out")
    names, settings = _with_options(list(dict.fromkeys(protocol or catalog.PROTOCOLS)), settings or [], scenario)
    named = topology or ("tree:3x3" if events_from else default_network(scenario))
    network = known_topology(named, largest_part=largest_part, delay_attribute=delay_attribute, undirected=undirected)
    if events_from and rules and space:
        if settings:
            raise ContentcastError(
                f"simulate: no protocol here takes --set {settings[0]}, and your own events take no settings"
            )
        own = _own(events_from, rules, space, network, publisher, how)
        chosen, most_events, most_rules = own.scenario, own.events, own.subscriptions
        events, subscriptions = (
            min(events or most_events, most_events),
            min(most_rules if subscriptions is None else subscriptions, most_rules),
        )
    else:
        chosen = placed(scenario, network, seed=seed, **dict(setting(each) for each in settings))
        events, subscriptions = events or USUALLY, USUALLY if subscriptions is None else subscriptions
    have_compiled(part_of(names, count_steps=True))
    outcomes: list[Outcome] = []
    for name in names:
        for each in wanted_rates:
            trial = Trial(
                network, chosen, name, events, subscriptions, each, bursty, seed, quality=LinkQuality(loss=loss), codec=codec
            )
            outcomes.append(_played(trial, name if rates is None else f"{name} at {each:g}/s"))
    files = [_draw(outcome, draw) for outcome in outcomes] if draw is not None else []
    if out is not None:
        rows = [row_of(outcome) for outcome in outcomes]
        files += write(rows, out, "protocols" if rates is None else "rates", None if rates is None else draw_rates)
    if as_json:
        described = [
            outcome.summary()
            | {"rate": outcome.trial.rate, "longest queue": outcome.longest_queue, "busiest share": outcome.busiest_share}
            | {"busiest": list(outcome.busiest())}
            for outcome in outcomes
        ]
        typer.echo(json.dumps({"topology": named, "seed": seed, "protocols": described}))
    elif rates is not None:
        _show_rates(outcomes, files)
    else:
        _show(outcomes, files)


def _check_together(
    events_from: list[str] | None, rules: Path | None, space: Path | None, about_them: Mapping[str, object]
) -> None:
    """`about_them`: options that say something of own events, and nothing without them."""
    from contentcast.files.open_events import check_there
    from contentcast.model.plain_files import meant

    given = {"--events-from": events_from, "--rules": rules, "--space": space}
    lacking = [name for name, value in given.items() if not value]
    if lacking and (len(lacking) < len(given) or any(about_them.values())):
        raise ContentcastError(
            f"simulate: your own events take --events-from, --rules and --space; add {' and '.join(lacking)}"
        )
    check_there(events_from or [])
    for path, what in ((rules, "rule"), (space, "space")):
        if path is not None and not path.exists():
            raise ContentcastError(f"there is no {what} file {path}{meant(path)}")


def _own(events: list[str], rules: Path, space: Path, network: Topology, publisher: str | None, how: How) -> OwnWorkload:
    from contentcast.files.own_workload import own_workload
    from contentcast.model import Space
    from contentcast.progress_lines import say

    own = own_workload(events, rules, Space.load(space), network, publisher=publisher, how=how)
    for line in own.told:
        say(line)
    return own


def _played(trial: Trial, name: str) -> Outcome:
    at = "subscriptions settle"
    with progress(lambda: f"{name}, {at}", trial.events) as advance:
        done = 0.0

        def tell(share: float) -> None:
            nonlocal done, at
            # A protocol that renews what it told goes on until a period has brought nothing new: all brokers, for seconds.
            at = "events" if share < 1 else "waiting until all is quiet"
            advance(round((share - done) * trial.events))
            done = share

        return trial.run(tell)


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
            _kilobytes(row["bytes"]),
            f"{row['steps']:,}",
            *latencies,
        )
    console.print(table)
    busiest = Table("protocol", "busiest links", box=box.SIMPLE_HEAD)
    for outcome in outcomes:
        told = (f"{row['sender']} > {row['receiver']} {_kilobytes(row['bytes'])} kB" for row in outcome.busiest(3))
        busiest.add_row(outcome.trial.protocol, ", ".join(told))
    console.print(busiest)
    for path in drawn:
        console.print(str(path), highlight=False)


def _kilobytes(count: int) -> str:
    return f"{count / 1000:,.{1 if 0 < count < 9_950 else 0}f}"


def _show_rates(outcomes: list[Outcome], files: list[Path]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("protocol", no_wrap=True)
    for heading in ("rate", "deliveries", "p50 ms", "p99 ms", "queue", "CPU"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        row = outcome.summary()
        latencies = ["-" if row[each] is None else f"{1000 * row[each]:,.1f}" for each in ("p50 s", "p99 s")]
        counts = f"{outcome.trial.rate:,g}", f"{row['deliveries']:,}"
        table.add_row(row["protocol"], *counts, *latencies, f"{outcome.longest_queue:,}", f"{outcome.busiest_share:.0%}")
    console.print(table)
    for path in files:
        console.print(str(path), highlight=False)
