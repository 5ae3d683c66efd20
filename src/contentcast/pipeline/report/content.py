"""The sections of the report about the events themselves: who wants what, what was learnt, examples, and what was set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from contentcast.model.errors import counted
from contentcast.pipeline.report.charts import NONE, Bin, Cell, histogram, percent, plain_table, short, table, text

if TYPE_CHECKING:
    from contentcast.pipeline.examples import Example
    from contentcast.pipeline.job import Facts

COLUMNS_AT_MOST: Final = 40
"""Of a histogram."""
SHOWN: Final = 6
"""Of what was set aside."""


def distributions_section(facts: Facts) -> str:
    if facts.learnt is None or not facts.events:
        return ""
    fan_out = facts.delivered.fan_out
    rates = facts.learnt.rates["matches"].to_numpy()
    median = float(np.median(rates)) if len(rates) else 0.0
    unwanted = (
        f"nobody wants {percent(fan_out[0] / facts.events)} of the events" if fan_out[0] else "somebody wants each of them"
    )
    half = f"Half of them get {median:,.0f} or fewer. " if median else ""
    events = histogram(_fan_out_bins(fan_out), "subscriptions that match", "events")
    subscriptions = histogram(_rate_bins(rates), "events that match", "subscriptions")
    return (
        '<section><h2>Who wants what</h2><div class="two">'
        f'<div><h3>How many subscriptions an event satisfies</h3>{events}<p class="small quiet">A bar counts the events that '
        f"this many subscriptions want: {facts.delivered.matches / facts.events:,.1f} in the mean; {unwanted}.</p></div>"
        f'<div><h3>How many events a subscription gets</h3>{subscriptions}<p class="small quiet">A bar counts '
        f"the subscriptions that get this many of the {facts.events:,} events. {half}{facts.learnt.plan.idle:,} get none.</p>"
        "</div></div></section>"
    )


def _fan_out_bins(fan_out: np.ndarray[Any, Any]) -> list[Bin]:
    """Of equal width, up to where 99.9 % of the events are; the rest is in the last."""
    counts = np.asarray(fan_out)
    reached = int(np.searchsorted(np.cumsum(counts), 0.999 * counts.sum())) + 1
    width = max(1, -(-reached // COLUMNS_AT_MOST))
    bins = []
    for first in range(0, reached, width):
        last = first + width - 1
        final = last >= reached - 1 and len(counts) > last + 1
        count = int(counts[first : None if final else last + 1].sum())
        name = f"{first}" if width == 1 else f"{first} to {last}"
        more = " and more" if final else ""
        bins.append(Bin(f"{first}{'+' if final else ''}", count, f"{name}{more} subscriptions: {count:,} events"))
    return bins


def _rate_bins(matches: np.ndarray[Any, Any]) -> list[Bin]:
    """Doubling: 0, 1, 2 to 3, 4 to 7, ..."""
    if not len(matches):
        return []
    none = int(np.count_nonzero(matches == 0))
    bins = [Bin("0", none, f"no event: {none:,} subscriptions")]
    first = 1
    while first <= int(matches.max()):
        count = int(np.count_nonzero((matches >= first) & (matches < 2 * first)))
        name = f"{first // 1024}k" if first >= 1024 else str(first)
        bins.append(Bin(name, count, f"{first:,} to {2 * first - 1:,} events: {count:,} subscriptions"))
        first *= 2
    return bins


def learnt_section(facts: Facts) -> str:
    if facts.learnt is None or not facts.learnt.plan.events:
        return ""
    plan = facts.learnt.plan
    order = "".join(
        [f'<li class="factored" title="one tree for each value">{text(name)}</li>' for name in plan.factored]
        + [f"<li>{text(name)}</li>" for name in plan.order if name not in plan.factored]
    )
    gain = ""
    if plan.steps and plan.steps_before:
        gain = (
            f"<p>With it an event takes <b>{plan.steps:,.1f}</b> steps in the search tree; by the rule of the paper (fewest "
            f"don't-cares first) it takes <b>{plan.steps_before:,.1f}</b>, <b>{plan.steps_before / plan.steps:.1f} times</b> "
            "as many.</p>"
        )
    rows = []
    for name, each in plan.attributes.items():
        frequent = ", ".join(f"{text(value.value)} {percent(value.share)}" for value in each.values[:3])
        middle = f"{text(each.quantiles[len(each.quantiles) // 2])} is in the middle" if each.quantiles else ""
        rows.append(
            [
                Cell(text(name), name),
                Cell(percent(1 - each.stars), 1 - each.stars),
                Cell(f"{each.tests:,}", each.tests),
                Cell(percent(each.selectivity) if each.tests else NONE, each.selectivity),
                Cell(short(each.distinct) if each.distinct is not None else "many", each.distinct or 1e18),
                Cell(middle or frequent, name),
            ]
        )
    headings = [
        ("attribute", "text"),
        ("subscriptions that test it", "number"),
        ("different tests", "number"),
        ("a test lets through", "number"),
        ("values", "number"),
        ("most frequent", "text"),
    ]
    framed = ", the framed ones first, with a tree for each value" if plan.factored else ""
    return (
        '<section><h2>What was learnt</h2><p class="quiet">From the history and the subscriptions: in which order a search '
        f'looks at the attributes{framed}.</p><ol class="order">{order}</ol>{gain}{table(headings, rows)}</section>'
    )


def examples_section(facts: Facts) -> str:
    if not facts.examples:
        return ""
    return f"<section><h2>A few events, and why</h2>{''.join(_example(each) for each in facts.examples)}</section>"


def _example(each: Example) -> str:
    values = "".join(f"<div><dt>{text(name)}</dt><dd>{_value(value)}</dd></div>" for name, value in each.event.items())
    enters = f" enters at {text(each.publisher)} and" if each.publisher else ""
    headings = [("subscriber", "text"), ("because it asked for", "text"), ("the way there", "text")]
    rows = [
        [text(one.subscriber), f"<code>{text(one.predicate)}</code>", f'<span class="way">{text(" → ".join(one.way))}</span>']
        for one in each.getters
    ]
    more = each.matches - len(each.getters)
    left = f'<p class="small quiet">and {more:,} more</p>' if more else ""
    miss = ""
    if each.miss is not None:
        miss = (
            f'<p class="miss"><b>{text(each.miss.subscriber)}</b> does not get it: it asked for '
            f"<code>{text(each.miss.predicate)}</code>, and the event has {_value(each.miss.value)} where "
            f"<code>{text(each.miss.failed)}</code> is wanted.</p>"
        )
    plural = "s" if each.matches != 1 else ""
    return (
        f'<div class="example"><h3>The event with the id {each.number}{enters} goes to '
        f"{each.matches:,} subscription{plural}</h3>"
        f"<dl>{values}</dl>{plain_table(headings, rows)}{left}{miss}</div>"
    )


def _value(value: Any) -> str:
    if value is None:
        return '<span class="quiet">nothing</span>'
    return text(f"{value:,}") if isinstance(value, int) and not isinstance(value, bool) else text(value)


def aside_section(facts: Facts) -> str:
    parts = []
    if facts.bad:
        rows = [[text(row["attribute"] or ""), text(row["reason"])] for row in facts.quarantined[:SHOWN]]
        made = plain_table([("attribute", "text"), ("why", "text")], rows)
        said = "1 record that is no event" if facts.bad == 1 else f"{facts.bad:,} records that are no events"
        parts.append(f"<div><h3>{said}</h3>{made}</div>")
    if facts.refused:
        rows = [
            [text(row["subscription"]), f"<code>{text(row['predicate'])}</code><br>{text(str(row['reason']).splitlines()[0])}"]
            for row in facts.refusals[:SHOWN]
        ]
        made = plain_table([("id", "text"), ("what it says, and why not", "text")], rows)
        parts.append(f"<div><h3>{counted(facts.refused, 'subscription')} refused</h3>{made}</div>")
    if not parts:
        return ""
    return (
        '<section><h2>Set aside</h2><p class="quiet">Nothing is lost and nothing stops: the rows and their reasons are in the '
        f'tables quarantine and refused.</p><div class="two">{"".join(parts)}</div></section>'
    )
