"""`contentcast lan`: publish and subscribe on a LAN without a broker, and its mapping specification.

    contentcast lan subscribe "price < 120" --space trades.json          first terminal
    contentcast lan publish --space trades.json < trades.jsonl           second terminal
    contentcast lan map show                                             third terminal

Rule: stdout has events, mappings and states; how it goes is said on stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from contentcast.commands.live.lan_gateway import gateway
from contentcast.model import ContentcastError

if TYPE_CHECKING:
    from contentcast.live.lan import LanClient
    from contentcast.model import Space

lan = typer.Typer(no_args_is_help=True, help="Publish and subscribe on a LAN without a broker, over multicast groups.")
mapping = typer.Typer(no_args_is_help=True, help="The mapping specification: which events go to which group.")
lan.add_typer(mapping, name="map")
lan.command(epilog="Example: contentcast lan gateway --config gateway.toml")(gateway)

DEFAULT: Final = "lan://239.192.10.0:6666"
Address = Annotated[
    str,
    typer.Option("--lan", metavar="ADDRESS", help="lan://GROUP:PORT?interface=IP&key=FILE; this computer only, unless told."),
]
SpaceFiles = Annotated[list[Path] | None, typer.Option("--space", help="A space, .json or .toml.", show_default=False)]
Within = Annotated[float, typer.Option(min=0, help="Seconds to wait for others.")]


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _spaces(files: list[Path] | None) -> list[Space]:
    from contentcast.model import Space

    return [Space.load(each) for each in files or ()]


def _plain(event: Any) -> str:
    import msgspec

    return json.dumps(msgspec.to_builtins(event), ensure_ascii=False)


def _printed(line: str) -> bool:
    """False: nobody reads any more, as behind `| head -1`."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains of it when it ends
        return False
    return True


def _say(text: str) -> None:
    typer.echo(text, err=True)


async def _others(client: LanClient, within_s: float) -> int:
    """Gives others a moment to say what they want."""
    members = client.server.router.members.members
    end = asyncio.get_running_loop().time() + within_s
    while not any(each.record.blocks for each in members.values()) and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.02)
    return len(members)


@lan.command(epilog="Example: contentcast lan join --seconds 10")
def join(
    address: Address = DEFAULT,
    space: SpaceFiles = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long; 0: until Ctrl-C.")] = 0,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds from line to line.")] = 2,
) -> None:
    """Take part without clients, and print the state of the LAN as a line of JSON now and then."""
    from contentcast.live.lan import connect_lan

    async def work() -> None:
        async with connect_lan(address, spaces=_spaces(space)) as client:
            end = asyncio.get_running_loop().time() + seconds
            while True:
                left = end - asyncio.get_running_loop().time()
                await asyncio.sleep(min(every, max(left, 0)) if seconds else every)
                print(json.dumps(client.server.state()), flush=True)
                if seconds and left <= every:
                    return

    _run(work())


@lan.command(epilog="Example: contentcast lan publish --space trades.json < trades.jsonl")
def publish(
    space: Annotated[Path, typer.Option(help="The space of the events, .json or .toml.", show_default=False)],
    address: Address = DEFAULT,
    wait: Within = 3,
    durable: Annotated[bool, typer.Option("--durable", help="To the disk of the broker behind the LAN's gateway.")] = False,
) -> None:
    """Publish events from stdin as they come, a JSON object a line. What nobody wants is not sent."""
    from contentcast.commands.live.stdin_events import events_from_stdin
    from contentcast.live.lan import connect_lan

    async def work() -> None:
        (chosen,) = _spaces([space])
        async with connect_lan(address, spaces=[chosen]) as client:
            if durable:
                await client.advertise(chosen, quality="durable")
            others = 0 if durable else await _others(client, wait)
            count = 0
            try:
                async for events in events_from_stdin(chosen, {}):
                    await client.publish(chosen, events)
                    count += len(events)
            except ContentcastError as reason:
                raise ContentcastError(f"{reason}; {count} events were published") from None
            if durable:
                _say(f"{count} events accepted")
                return
            state = client.server.state()
            sent = sum(each["sent"] for each in state["traffic"].values())
            _say(f"{count} events, {sent} of them sent; {others} others on the LAN, mode {state['mode']}")
            if not await client.repaired():
                raise typer.Exit(1)

    _run(work())


@lan.command(epilog='Example: contentcast lan subscribe "price < 120" --space trades.json')
def subscribe(
    predicate: Annotated[str, typer.Argument(help="What you want.")] = "TRUE",
    space: SpaceFiles = None,
    name: Annotated[str, typer.Option(help="A space that others have declared.", show_default=False)] = "",
    address: Address = DEFAULT,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many events; 0: never.")] = 0,
    reliable: Annotated[bool, typer.Option("--reliable", help="Ask again for what was lost.")] = False,
    durable: Annotated[
        str, typer.Option(metavar="NAME", help="Miss nothing: the broker behind the gateway keeps it.", show_default=False)
    ] = "",
) -> None:
    """Print every event that matches, a JSON object a line."""
    from contentcast.live.lan import connect_lan

    declared = _spaces(space)
    if not name and len(declared) != 1:
        raise ContentcastError("lan subscribe: of which space? Add --space FILE, or --name NAME if others have declared it")

    async def work() -> None:
        async with connect_lan(address, spaces=declared) as client:
            done, unread = asyncio.Event(), asyncio.Event()
            came = 0

            def show(event: Any) -> None:
                nonlocal came
                came += 1
                if (not count or came <= count) and not unread.is_set() and not _printed(_plain(event)):
                    unread.set()
                if came == count or unread.is_set():
                    done.set()

            if durable:
                async with client.events(name or declared[0], predicate, durable=durable) as events:
                    _say(f"subscribed durably as {durable}")
                    async for event in events:
                        show(event)
                        if done.is_set():
                            if not unread.is_set():
                                events.acknowledge()
                            return
            quality: Any = "reliable" if reliable else None
            await client.subscribe(name or declared[0], predicate, deliver=show, quality=quality)
            _say(f"subscribed; {client.server.mode} on {client.server.options.interface.address}")
            await done.wait()

    _run(work())


# --- the mapping


@mapping.command(name="show", epilog="Example: contentcast lan map show")
def show_mapping(address: Address = DEFAULT, space: SpaceFiles = None, wait: Within = 3) -> None:
    """Print the mapping that the servers use, as TOML, and what is strange about it."""
    from contentcast.live.lan import connect_lan
    from contentcast.routing.multicast.mapping_check import findings
    from contentcast.routing.multicast.mapping_files import to_toml

    async def work() -> None:
        async with connect_lan(address, spaces=_spaces(space)) as client:
            agreement = client.server.router.agreement
            end = asyncio.get_running_loop().time() + wait
            members = client.server.router.members.members
            while (not members or agreement.is_behind()) and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0.02)
            found = agreement.sending()
            if found is None:
                raise ContentcastError("the servers of this LAN have no mapping in common yet; wait longer: --wait 30")
            typer.echo(to_toml(found), nl=False)
            using = sum(each.uses == found.id for each in members.values())
            _say(f"mapping {found.id}, used by {using} of {len(members)} others")
            for each in findings(found):
                _say(str(each))

    _run(work())


@mapping.command(name="set", epilog="Example: contentcast lan map set mapping.toml --space trades.json")
def set_mapping(
    file: Annotated[Path, typer.Argument(help="A mapping specification, TOML.", show_default=False)],
    space: SpaceFiles = None,
    address: Address = DEFAULT,
    wait: Within = 10,
) -> None:
    """Have all servers change to this mapping, or none."""
    from contentcast.live.lan import connect_lan
    from contentcast.routing.multicast.mapping_check import findings
    from contentcast.routing.multicast.mapping_files import load_mapping

    declared = _spaces(space)
    chosen = load_mapping(file, declared)
    for each in findings(chosen):
        _say(str(each))

    async def work() -> None:
        async with connect_lan(address, spaces=declared) as client:
            await _others(client, 1.0)  # whoever is there answers within 20 ms
            members = client.server.router.members.members
            end = asyncio.get_running_loop().time() + wait
            while not members:
                if asyncio.get_running_loop().time() >= end:
                    raise ContentcastError(f"no other server was heard at {address}, and a mapping lives in servers that run")
                await asyncio.sleep(0.02)
            id = await client.propose(chosen, wait)
            typer.echo(f"mapping {id} is used by all {1 + len(members)} servers")

    _run(work())


@mapping.command(name="plan", epilog="Example: contentcast lan map plan --watch 10 --space trades.json --by issue --groups 3")
def plan_mapping(
    workload: Annotated[
        Path | None, typer.Option(help="Plan from a folder that `contentcast workload` wrote.", show_default=False)
    ] = None,
    learnt: Annotated[
        Path | None, typer.Option(help="Plan from a plan.json that Spark's learn wrote.", show_default=False)
    ] = None,
    watch: Annotated[
        float, typer.Option(min=0, help="Plan from what is sent on the LAN for this many seconds.", show_default=False)
    ] = 0,
    space: SpaceFiles = None,
    address: Address = DEFAULT,
    by: Annotated[str, typer.Option(help="The attribute whose values make the flows.", show_default=False)] = "",
    load: Annotated[float, typer.Option(min=0.001, help="With --learnt: bytes a second, of all events together.")] = 1e6,
    groups: Annotated[int, typer.Option(min=1, help="At most so many groups.")] = 8,
    seconds: Annotated[float, typer.Option(min=0.001, help="With --workload: how long its events took.")] = 1.0,
    group: Annotated[
        list[str] | None,
        typer.Option(help="The groups to use, each once; else those after the control group.", show_default=False),
    ] = None,
    control: Annotated[str, typer.Option(help="The control group.")] = "udp_ipm://239.192.10.0:6666",
) -> None:
    """Plan a mapping from measured traffic, and print it as TOML, with its cost beside that of simpler ones."""
    from contentcast.matching.learnt import LearntPlan
    from contentcast.routing.multicast import planner
    from contentcast.routing.multicast.mapping_files import to_toml

    if sum((workload is not None, learnt is not None, watch > 0)) != 1:
        raise ContentcastError("lan map plan: of which traffic? One of --workload FOLDER, --learnt plan.json, --watch SECONDS")
    if learnt is None and not by:
        raise ContentcastError("lan map plan: add --by ATTRIBUTE, whose values make the flows")
    if learnt is not None:
        flows = planner.learnt_flows(LearntPlan.load(learnt), load)
    elif workload is not None:
        events, wants = _workload(workload)
        flows = planner.flows(events, by, wants, seconds)
    else:
        flows = _watched(address, space, watch, by)
    if not flows:
        raise ContentcastError("lan map plan: nothing was sent, so there is nothing to plan; watch longer, or while it is used")
    if group:
        apart = planner.usable(group, control)
        if len(apart) < len(group):
            _say(f"{len(group) - len(apart)} groups share an Ethernet address with others; a switch cannot tell them apart")
        groups = min(groups, max(1, len(apart) - 1))
    made = planner.plan(flows, groups)
    typer.echo(to_toml(planner.mapping(flows, made, control=control, groups=group)), nl=False)
    costs = planner.Costs(flows)
    everything = (tuple(range(len(flows))),)
    for what, plan in (
        ("this plan", made),
        ("the rule of thumb", planner.rule_of_thumb(flows, groups)),
        ("one group for all", everything),
    ):
        links = f"{costs.links(plan):,.0f} over the links of a switched LAN"
        _say(f"{what}: servers receive and discard {costs.of(plan):,.0f} bytes a second, {links}")
    _say(f"a broadcast LAN carries {costs.links(everything, broadcast=True):,.0f} to all of them, whatever the plan")


def _watched(address: str, files: list[Path] | None, seconds: float, by: str) -> list[Any]:
    """The flows of what is sent now."""
    from contentcast.live.lan import connect_lan
    from contentcast.live.lan.watching import watch

    declared = _spaces(files)
    if len(declared) != 1:
        raise ContentcastError("lan map plan --watch: of which space? Add --space FILE")
    found: list[Any] = []

    async def work() -> None:
        async with connect_lan(address, spaces=declared) as client:
            watched = await watch(client, declared[0], seconds)
            _say(f"{len(watched.events)} events in {watched.seconds:.1f} s, wanted by {len(watched.wants)} servers")
            found.extend(watched.flows(by))

    _run(work())
    return found


def _workload(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The events of a folder, and what each of its servers wants."""
    import pyarrow.parquet as pq

    from contentcast.language import parse_predicate
    from contentcast.model import EventBatch, Space

    space = Space.load(folder / "space.json")
    table = pq.read_table(folder / "events.parquet")
    events = EventBatch.from_arrow(space, table.select([name for name in table.column_names if name in space]))
    subscriptions = pq.read_table(folder / "subscriptions.parquet")
    wants: dict[str, Any] = {}
    for text, broker in zip(subscriptions["predicate"].to_pylist(), subscriptions["broker"].to_pylist(), strict=True):
        parsed = parse_predicate(space, text)
        wants[broker] = parsed if broker not in wants else wants[broker].union(parsed)
    return events, wants
