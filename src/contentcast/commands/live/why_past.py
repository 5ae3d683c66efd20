"""What became of an event that was published, out of what every broker remembers of it: one outcome, and a line for each fact.

    a    published here by feed-1, 0.2 s ago
    a    sent over the link to b: all of it was taken
    c    came from b
    c    handed to desk-7 (subscription 12): 4,020 bytes wait before it

Rule: what a broker does not say is not guessed.
"""

from __future__ import annotations

from typing import Any, Final

ARRIVES, NO_MATCH, NOT_REACHED, UNKNOWN, WAITS, LEFT_OUT = 0, 1, 3, 4, 5, 6
LATER_S: Final = 0.005
"""Ages are told by two brokers a moment apart; a subscription that is so much younger than the event came later."""


def outcome(past: list[dict[str, Any]], subscription: int, judged: dict[str, Any] | None) -> tuple[int, str]:
    """The exit code, and where the event is."""
    for broker in past:
        name = broker["broker"]
        for each in broker.get("numbered", ()):
            if each["subscription"] == subscription and each["acknowledged"]:
                return ARRIVES, f"acknowledged as number {each['number']:,}"
        for each in broker.get("waits", ()):
            if each["subscription"] == subscription:
                how = "was handed over and is not acknowledged" if each["handed"] else "waits for its client"
                return (ARRIVES if each["handed"] else WAITS), f"number {each['number']:,} at {name} {how}"
        for each in broker.get("handed", ()):
            if each["subscription"] == subscription:
                return _queued(each, name)
    for broker in past:  # a home that has it, and has not said so yet, counts before
        for each in broker.get("owed", ()):
            if subscription in each["subscriptions"]:
                where = f"position {each['position']:,} of {broker['broker']}'s log"
                return WAITS, f"{where}: {each['home']} has not said that it has it"
    if judged is None:
        return UNKNOWN, ""
    if not judged["matched"]:
        return NO_MATCH, ""
    return _on_the_way(past, judged)


def _queued(handed: dict[str, Any], broker: str) -> tuple[int, str]:
    if handed.get("left_out"):
        return LEFT_OUT, f"the queue of {handed['client']} at {broker} was full"
    if handed["waits_bytes"]:
        if not handed["connected"]:
            return NOT_REACHED, f"the connection of {handed['client']} at {broker} has ended before it was taken"
        return WAITS, f"in the queue of {handed['client']} at {broker}, up to byte {handed['waits_bytes']:,} of it"
    return ARRIVES, f"{broker} gave it to {handed['client']}"


def _on_the_way(past: list[dict[str, Any]], judged: dict[str, Any]) -> tuple[int, str]:
    """It matches and was not handed over: it waits for a link, or there was no way, or the subscription came later."""
    for broker in past:
        for each in broker.get("sent", ()):
            if each["waits_bytes"] and each["connected"]:
                return WAITS, f"in the queue of the link {broker['broker']} > {each['to']}, {each['waits_bytes']:,} bytes"
            if not each["connected"]:
                return NOT_REACHED, f"{broker['broker']} has lost its connection to {each['to']}, or never had one"
    ages = [came["ago_s"] for broker in past for came in broker.get("came", ()) if not came["from"]]
    if ages and judged.get("age_s") is not None and judged["age_s"] < min(ages) - LATER_S:
        return NOT_REACHED, f"the subscription is {judged['age_s']:g} s old, and the event {min(ages):g} s"
    return NOT_REACHED, f"no broker sent it to {judged['broker']}, or the network had not heard of the subscription yet"


def lines_of_past(told: dict[str, Any]) -> list[str]:
    lines = [f"event {told['id']}"]
    for broker in told["became"]:
        name = broker["broker"]
        for each in broker.get("came", ()):
            who = f"came from {each['from']}" if each["from"] else f"published here by {each['client']}"
            lines.append(f"{name}  {who}, {each['ago_s']:g} s ago")
        lines += [f"{name}  sent to {each['to']}: {_taken(each)}" for each in broker.get("sent", ())]
        went = {each["to"] for each in broker.get("sent", ())} | {each["from"] for each in broker.get("came", ())}
        if broker.get("came"):
            lines += [
                f"{name}  not sent to {link}: nobody behind it wanted it, or another way leads there"
                for link in broker["links"]
                if link not in went
            ]
        lines += [
            f"{name}  handed to {each['client']} (subscription {each['subscription']}): "
            + ("left out, its queue was full" if each.get("left_out") else _taken(each))
            for each in broker.get("handed", ())
        ]
        lines += [
            f"{name}  number {each['number']:,} of durable subscription {each['subscription']}: "
            + ("acknowledged" if each["acknowledged"] else _taken(each))
            for each in broker.get("numbered", ())
        ]
        lines += [
            f"{name}  keeps it for {each['home']}, at position {each['position']:,} of its log"
            for each in broker.get("owed", ())
        ]
    return [*lines, *([told["place"]] if told["place"] else [])]


def _taken(told: dict[str, Any]) -> str:
    if not told["connected"]:
        return "that connection has ended" if told["waits_bytes"] else "taken, or lost with a connection that has ended"
    return f"it waits, {told['waits_bytes']:,} bytes with what is before it" if told["waits_bytes"] else "taken"
