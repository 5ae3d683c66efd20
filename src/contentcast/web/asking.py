"""Why: who would get an event, over which links, and for all others the test that it fails.

    asked     {"space": "trades", "event": {"issue": "IBM", "price": 121.0}, "broker": "a"}
    answer    entered a; links a > b; gets desk-9 at b; misses desk-7 at c: price < 120.0, and the event has 121.0
    asked     {"space": "trades", "subscription": "7"}
    answer    what it has accepted, and the test that keeps it from the last events of the whole network

Every broker on the way says what it would do, as for `contentcast publish --dry-run`: nothing is delivered. Those who would not
get it are judged here, by the predicates that the brokers tell.
A value of an event also goes as JSON in a text, `shown`, since a number of JavaScript has 53 bits and an event's int has 64.
Rule: whatever is wrong with the question is said to the one who asked.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from contentcast.language import parse_predicate
from contentcast.live.client.tracing import Tracer
from contentcast.live.looking.judging import judged
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.web.lookout import as_json

LIMIT_S: Final = 15.0
MOST_JUDGED: Final = 200
ID: Final = re.compile("[0-9]{1,19}")


async def answer(
    asked: Any, brokers: Mapping[str, str], counted: Sequence[Mapping[str, Any]], options: dict[str, Any]
) -> dict[str, Any]:
    """`brokers`: their addresses, those that answer. `counted`: the subscriptions that they told."""
    if not isinstance(asked, Mapping):
        raise ContentcastError("ask with a JSON object: space, event, and the broker where it enters")
    try:
        async with asyncio.timeout(LIMIT_S):
            if "subscription" in asked:
                return await _judge(asked, brokers, options)
            return await _would(asked, brokers, counted, options)
    except TimeoutError:
        raise ContentcastError(f"the brokers have not answered within {LIMIT_S:g} s; try again") from None


async def _judge(asked: Mapping[str, Any], brokers: Mapping[str, str], options: dict[str, Any]) -> dict[str, Any]:
    space, wanted = _space(asked), str(asked["subscription"])
    if not ID.fullmatch(wanted):
        raise ContentcastError(f"the id of a subscription is a number of at most 19 digits, got {wanted[:40]!r}")
    async with Tracer(brokers[_entrance(asked, brokers)], **options) as tracer:
        await tracer.open()
        found = await tracer.judge(space, int(wanted))
    if found is None:
        raise ContentcastError("no broker has this subscription any more")
    tests = [each | {"shown": [_shown(value) for value in each.get("values", ())]} for each in found.get("tests", ())]
    return found | {"subscription": wanted, "tests": tests}


async def _would(
    asked: Mapping[str, Any], brokers: Mapping[str, str], counted: Sequence[Mapping[str, Any]], options: dict[str, Any]
) -> dict[str, Any]:
    space, event = _space(asked), asked.get("event")
    if not isinstance(event, dict):
        raise ContentcastError('event is one event, an object with attributes: {"price": 119.5}')
    async with Tracer(brokers[_entrance(asked, brokers)], **options) as tracer:
        client = await tracer.open()
        known = await client.space(space)
        EventBatch.from_dicts(known, [event])  # raises what is wrong with it
        trace = await tracer.follow(space, event)
    gets = {str(each["subscription"]) for each in trace.gets}
    others = [each for each in counted if each["space"] == space and each["id"] not in gets]
    misses = await asyncio.to_thread(_misses, known, others[:MOST_JUDGED], event)
    return {
        "entered": trace.entered,
        "links": [{"from": one, "to": other} for one, other in trace.taken],
        "not_taken": [{"from": one, "to": other} for one, other in trace.not_taken],
        "gets": [each | {"subscription": str(each["subscription"])} for each in trace.gets],
        "misses": misses,
        "more": max(0, len(others) - MOST_JUDGED),
        "unreachable": trace.unreachable,
    }


def _space(asked: Mapping[str, Any]) -> str:
    space = asked.get("space")
    if not isinstance(space, str) or not space:
        raise ContentcastError("which space? Choose one that is declared")
    return space


def _entrance(asked: Mapping[str, Any], brokers: Mapping[str, str]) -> str:
    broker = str(asked.get("broker") or next(iter(brokers), ""))
    if broker not in brokers:
        raise ContentcastError(f"no broker {broker!r} answers" if broker else "no broker answers; the question needs one")
    return broker


def _misses(space: Space, counted: Sequence[Mapping[str, Any]], event: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for each in counted:
        told = {"broker": each["broker"], "client": each["client"], "subscription": each["id"]}
        try:
            verdict = judged(parse_predicate(space, each["predicate"]), event)
        except ContentcastError as reason:
            verdict = {"matched": False, "predicate": each["predicate"], "failed": [], "problem": str(reason)}
        failed = [failure | {"shown": _shown(failure["value"])} for failure in verdict["failed"]]
        found.append(told | verdict | {"failed": failed})
    return found


def _shown(value: Any) -> str:
    return as_json(value).decode()
