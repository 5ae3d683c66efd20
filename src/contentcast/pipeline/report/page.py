"""The report put together, and the sections about the network and its protocols; `content` has those about the events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contentcast import catalog
from contentcast.pipeline.report.charts import (
    NONE,
    Bar,
    Cell,
    bars,
    milliseconds,
    plain_table,
    seconds,
    short,
    size,
    table,
    text,
)
from contentcast.pipeline.report.content import aside_section, distributions_section, examples_section, learnt_section
from contentcast.pipeline.report.network import busiest, drawing, load_of
from contentcast.pipeline.report.papers import papers_section
from contentcast.pipeline.side_by_side import HEADINGS as HEADINGS_OF_ALL
from contentcast.pipeline.side_by_side import TOPICS, shown

if TYPE_CHECKING:
    from contentcast.pipeline.job import Facts

HEADINGS: Final = ("messages", "x lower bound", "bytes", "deliveries", "p50", "p99")
STEP_HEADINGS: Final = ("steps", "steps / event")
"""Shown where steps were counted."""
LATENCIES: Final = (
    "Latencies are those of the cost model: link delays and the brokers' work, without queues. Half of the deliveries are as "
    "quick as <b>p50</b>, 99 % as quick as <b>p99</b>."
)


def write_report(facts: Facts, path: Path) -> None:
    path.write_text(page(facts, path.parent), encoding="utf-8")


def page(facts: Facts, folder: Path) -> str:
    here = files("contentcast.pipeline.report")
    style, script = (here.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    # "</" would end the script element from inside a text.
    data = json.dumps(_data(facts), separators=(",", ":")).replace("</", "<\\/")
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f"<title>{text(facts.feed.title)} · contentcast</title>",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>",
        _header(facts),
        _side_by_side(facts),
        _network(facts),
        _protocols(facts),
        _busiest(facts),
        distributions_section(facts),
        learnt_section(facts),
        examples_section(facts),
        aside_section(facts),
        papers_section(folder),
        _steps(facts),
        _footer(facts),
        f'</main>\n<script type="application/json" id="data">{data}</script>',
        f"<script>\n{script}</script>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _data(facts: Facts) -> dict[str, Any]:
    return {
        "first": next(iter(facts.routes), ""),
        "loads": {name: load_of(each, facts.events) for name, each in facts.routes.items()},
        "busiest": {name: busiest(each, facts.events) for name, each in facts.routes.items()},
    }


def _header(facts: Facts) -> str:
    fan_out = facts.delivered.matches / facts.events if facts.events else 0.0
    tiles = [
        (short(facts.events), "events"),
        (short(facts.subscriptions), "subscriptions"),
        (short(facts.delivered.matches), f"matches, {fan_out:,.1f} an event"),
        (short(facts.summary()["events/s"]), "events/s matched and delivered"),
        (str(len(facts.routes)), "routing protocols compared"),
        (f"{sum(facts.took_s.values()):,.0f} s", "for the whole job"),
    ]
    shown = "".join(f'<div class="tile"><b>{text(value)}</b><span>{text(name)}</span></div>' for value, name in tiles)
    why = "" if facts.side_by_side is None else f"<p><b>{text(facts.side_by_side.sentence())}</b></p>"
    return (
        f'<header><div><h1>{text(facts.feed.title)}</h1>{why}<p class="quiet">Every event reaches exactly those who asked for '
        "it. This page shows what that took: who wanted what, how brokers could route it, and what each way costs.</p></div>"
        f'<button type="button" class="theme">light / dark</button></header><div class="tiles">{shown}</div>'
    )


def _side_by_side(facts: Facts) -> str:
    found = facts.side_by_side
    if found is None:
        return ""
    rows = found.rows()
    messages = [Bar(row["system"], row["messages"], short(row["messages"])) for row in rows]
    kinds = [(name, "number" if at else "text") for at, name in enumerate(HEADINGS_OF_ALL)]
    cells = [[_named(row[0], found.attribute), *(text(cell) for cell in row[1:])] for row in shown(rows)]
    topics = (
        f"<b>topics</b> is a network with one topic for each value of <code>{text(found.attribute)}</code>: subscribers get "
        "their whole topics, also what they did not ask for (<b>unwanted</b>). "
        if found.attribute
        else ""
    )
    return (
        "<section><h2>All systems side by side</h2>"
        f'<p class="quiet">The same {found.events:,} events and {found.subscriptions:,} subscriptions through every system, a '
        "sample, because some systems take long to tell all brokers of many subscriptions. <b>flooding</b> is broadcast: every "
        "event to every broker. "
        f"{topics}A message is a copy of an event on a link; multicast sends one copy to all receivers of a LAN. <b>of "
        "broadcast</b> and <b>of topics</b>: these messages in percent of theirs. CPU is the measured time of all brokers "
        f"together. State is the memory that a broker needs for subscriptions, in the mean. {LATENCIES}</p>"
        f"<h3>Messages</h3>{bars(messages)}"
        '<p class="small quiet">How often events crossed links until all who want them had them. A short bar is better.</p>'
        f"{plain_table(kinds, cells)}</section>"
    )


def _named(system: str, attribute: str) -> str:
    about = (
        f"one topic for each {attribute}, routed by link matching" if system == TOPICS else catalog.protocol(system).description
    )
    return f'{text(system)}<span class="about">{text(about)}</span>'


def _switch(protocols: Iterable[str]) -> str:
    buttons = "".join(
        f'<button type="button" data-protocol="{text(name)}" aria-pressed="{str(at == 0).lower()}" '
        f'title="{text(catalog.protocol(name).description)}">{text(name)}</button>'
        for at, name in enumerate(protocols)
    )
    return f'<div class="switch" role="group" aria-label="protocol">{buttons}</div>'


def _network(facts: Facts) -> str:
    topology = facts.feed.topology
    if not facts.routes or topology is None:
        why = facts.feed.unrouted or "no protocol was asked for"
        return f'<section><h2>The network</h2><p class="quiet">Nothing was routed: {text(why)}.</p></section>'
    first = load_of(next(iter(facts.routes.values())), facts.events)
    return (
        f'<section><h2>The network and its load</h2><p class="quiet">{len(topology)} brokers and {len(topology.links)} links '
        f"({text(facts.feed.topology_name)}). A wide line is a link with many messages, a large circle a busy broker. "
        "Choose a protocol; point at a link or a broker for its numbers.</p>"
        f"{_switch(facts.routes)}{drawing(topology, first)}"
        '<div class="legend"><span><i class="wide"></i>the busiest link: '
        f'<b data-fill="mostOnLink">{text(first["mostOnLink"])}</b></span><span><i class="round"></i>the busiest broker: '
        f'<b data-fill="mostAtBroker">{text(first["mostAtBroker"])}</b></span><span>others in proportion</span></div></section>'
    )


def _protocols(facts: Facts) -> str:
    if not facts.routes:
        return ""
    rows = facts.protocols()
    counted = all(row["steps"] is not None for row in rows)
    shown_headings = (*HEADINGS, *STEP_HEADINGS) if counted else HEADINGS
    sampled = {row["protocol"] for row in rows if row["events"] < facts.events}

    def panel(title: str, caption: str, key: str, shown: Any, mark: float | None = None) -> str:
        each = [
            Bar(row["protocol"], row[key] or 0.0, ("≈ " if row["protocol"] in sampled else "") + shown(row[key]))
            for row in rows
        ]
        return f'<div><h3>{title}</h3>{bars(each, mark, "the lower bound")}<p class="small quiet">{caption}</p></div>'

    panels = [
        panel("Messages on links", "Copies of events on every link.", "messages", short, float(facts.least)),
        panel("Bytes on links", "The same copies by their size on the wire.", "bytes", size),
        *([panel("Matching steps", "Tests made by all brokers.", "steps", short)] if counted else []),
        panel("CPU time of the busiest broker", "The broker that would be full first.", "busiest_broker_s", seconds),
    ]
    headings = [("protocol", "text"), *((name, "number") for name in shown_headings)]
    bound = [Cell("lower bound", "lower bound"), Cell(short(facts.least), facts.least), Cell("1.000", 1.0)]
    bound += [Cell(NONE, 0.0)] * (len(shown_headings) - 2)
    made = table(headings, [*(_cells(row, row["protocol"] in sampled) for row in rows), bound])
    note = ""
    if sampled:
        every = round(facts.events / min(row["events"] for row in rows))
        note = (
            f'<p class="small quiet">≈ {text(", ".join(sorted(sampled)))}: routed with one event in {every} and scaled to '
            "all, to keep the job short.</p>"
        )
    matching = "" if counted else " Matching is not charged: its steps were not counted (<code>run --steps</code>)."
    return (
        '<section><h2>Protocols compared</h2><p class="quiet">The same events and subscriptions through the real routers of '
        "each protocol. All deliver the same; they differ in what they send and how much they match. CPU time is that of the "
        f"cost model. {LATENCIES}{matching}</p>"
        f'<div class="panels">{"".join(panels)}</div><p class="key"><i></i>the lower bound: {short(facts.least)} messages, the '
        "fewest with which every event can reach each broker that wants it along its publisher's tree.</p>"
        f'<div id="protocols">{made}</div>{note}</section>'
    )


def _cells(row: dict[str, Any], sampled: bool) -> list[Cell]:
    about = "≈ " if sampled else ""
    name, times = row["protocol"], row["times_least"]
    steps = []
    if row["steps"] is not None:
        steps = [
            Cell(about + short(row["steps"]), row["steps"]),
            Cell(short(row["steps_per_event"]), row["steps_per_event"]),
        ]
    return [
        Cell(f'{text(name)}<span class="about">{text(catalog.protocol(name).description)}</span>', name),
        Cell(about + short(row["messages"]), row["messages"]),
        Cell(NONE if times is None else f"{about}{times:.3f}", times or 0.0),
        Cell(about + size(row["bytes"]), row["bytes"]),
        Cell(about + short(row["deliveries"]), row["deliveries"]),
        Cell(milliseconds(row["p50_s"]), row["p50_s"] or 0.0),
        Cell(milliseconds(row["p99_s"]), row["p99_s"] or 0.0),
        *steps,
    ]


def _busiest(facts: Facts) -> str:
    if not facts.routes:
        return ""
    found = busiest(next(iter(facts.routes.values())), facts.events)

    def listed(id: str, title: str, headings: Sequence[str], texts: int, rows: list[dict[str, Any]]) -> str:
        kinds = [(name, "text" if at < texts else "number") for at, name in enumerate(headings)]
        cells = [[text(value) for value in row.values()] for row in rows]
        return f'<div id="{id}"><h3>{title}</h3>{plain_table(kinds, cells)}</div>'

    links = listed("busiest-links", "Links", ("from", "to", "messages", "bytes"), 2, found["links"])
    brokers = listed("busiest-brokers", "Brokers", ("broker", "events", "deliveries", "CPU time"), 1, found["brokers"])
    return (
        '<section><h2>The busiest</h2><p class="quiet">The links and brokers with the most to do under the '
        f'protocol that is chosen here.</p>{_switch(facts.routes)}<div class="two">{links}{brokers}</div></section>'
    )


def _steps(facts: Facts) -> str:
    each = [Bar(name, took, f"{took:,.1f} s") for name, took in facts.took_s.items()]
    return (
        '<section><h2>Where the time went</h2><p class="quiet">Seconds of this job by step, from reading events to '
        f"writing this page.</p>{bars(each)}</section>"
    )


def _footer(facts: Facts) -> str:
    listed = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts.machine.items())
    return (
        f"<footer><p>Made by <code>{text(facts.feed.told)}</code>; the tables behind every number are beside this file.</p>"
        f"<dl>{listed}</dl></footer>"
    )
