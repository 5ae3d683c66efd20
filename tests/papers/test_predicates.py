"""The worked examples of the four papers that concern predicates, covering and advertisements.

Banavar et al. 1999 (link matching), Eide et al. 2003 (LAN multicast), Triantafillou and Economides 2004 (summaries), Baldoni et
al. 2005 (structured overlays). Each test says where its example stands; the facts are typed in here.
"""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from contentcast.language import advertisement, covers, overlaps, parse_predicate
from contentcast.matching import Scan
from contentcast.model import Advertisement, Attribute, EventBatch, Space


def receivers(space: Space, subscriptions: dict[int, str], event: dict[str, Any]) -> list[int]:
    """Who gets the event: the oracle's answer, which the canonical form must give too."""
    scan = Scan(space)
    predicates = {each: parse_predicate(space, text) for each, text in subscriptions.items()}
    for each, predicate in predicates.items():
        scan.add(each, predicate)
    (stored,) = EventBatch.from_dicts(space, [event]).to_dicts()
    found = scan.match(stored)
    assert found == [each for each, predicate in predicates.items() if predicate.accepts(stored)]
    return found


# --- Banavar et al. 1999

TRADES = Space("trades", issue="string", price="float", volume="int")
FIVE = Space("five", {f"a{number}": "int" for number in range(1, 6)})
RIGHTMOST_LEAF = "a1 = 1 AND a2 = 2 AND a3 = 3 AND a5 = 3"


def five(*values: int) -> dict[str, int]:
    return {f"a{number}": value for number, value in enumerate(values, start=1)}


def test_the_subscription_that_opens_the_field() -> None:
    """Banavar et al. 1999, section 1: (issue="IBM" & price < 120 & volume > 1000) over [issue, price, volume]."""
    wanted = {1: "issue = 'IBM' AND price < 120 AND volume > 1000"}
    assert receivers(TRADES, wanted, {"issue": "IBM", "price": 119.5, "volume": 5000}) == [1]
    assert receivers(TRADES, wanted, {"issue": "IBM", "price": 120.0, "volume": 5000}) == []
    assert receivers(TRADES, wanted, {"issue": "IBM", "price": 119.5, "volume": 1000}) == []
    assert receivers(TRADES, wanted, {"issue": "SAP", "price": 119.5, "volume": 5000}) == []


def test_the_rightmost_leaf_of_the_tree() -> None:
    """Banavar et al. 1999, figure 2: a1=1 & a2=2 & a3=3 & a5=3; a4 is a star level and takes any value."""
    for anything in range(4):
        assert receivers(FIVE, {1: RIGHTMOST_LEAF}, five(1, 2, 3, anything, 3)) == [1]
    for at in (0, 1, 2, 4):
        values = [1, 2, 3, 1, 3]
        values[at] += 1
        assert receivers(FIVE, {1: RIGHTMOST_LEAF}, five(*values)) == []


def test_the_event_of_the_search() -> None:
    """Banavar et al. 1999, section 2, event <1,2,3,1,2>: at each level the branch of its value and the star branch are taken.

    So it matches exactly those paths that have, at every level, its value or a star. The rightmost leaf wants a5 = 3.
    """
    event = (1, 2, 3, 1, 2)
    paths = {
        number: [value if cares else None for value, cares in zip(event, chosen, strict=True)]
        for number, chosen in enumerate(product([True, False], repeat=5))
    }
    others = {100 + number: [3 if value == 1 else 1 for value in event[:number]] for number in range(1, 6)}
    texts = {
        number: " AND ".join(f"a{at} = {value}" for at, value in enumerate(path, start=1) if value is not None) or "TRUE"
        for number, path in (paths | others).items()
    }
    assert receivers(FIVE, texts | {999: RIGHTMOST_LEAF}, five(*event)) == sorted(paths)


def test_a_path_with_a_star_covers_the_path_with_a_value() -> None:
    """Banavar et al. 1999, section 2, footnote 1: an attribute that a subscription does not name is a wild-card."""
    assert covers(FIVE, RIGHTMOST_LEAF, f"{RIGHTMOST_LEAF} AND a4 = 1")
    assert not covers(FIVE, f"{RIGHTMOST_LEAF} AND a4 = 1", RIGHTMOST_LEAF)
    assert not overlaps(FIVE, RIGHTMOST_LEAF, "a1 = 2")  # two branches of the root


# --- Eide et al. 2003

VIDEO = Space(
    "video",
    {
        "media_type": "string",
        "media_source": "string",
        "encoding": "string",
        "block_type": "string",
        "block_h": "int",
        "block_v": "int",
        "pixels": "bytes",
    },
)
STREAM = {
    "media_type": "video",
    "media_source": "fnasa.simula.no",
    "encoding": "/raw/luminance/8/16x16",
    "block_type": "intra_coded",
}
SAME_STREAM = " AND ".join(f"{name} = '{value}'" for name, value in STREAM.items())
NOTIFICATION = {**STREAM, "block_h": 1, "block_v": 5, "pixels": b"q34i23QR...D"}
SUBSCRIPTION = f"{SAME_STREAM} AND block_h >= 0 AND block_h < 10"
TWO_COLUMNS: dict[str, str] = {
    **{name: f"{name} = '{value}'" for name, value in STREAM.items()},
    "block_h": "block_h >= 0 AND block_h < 2",
    "block_v": "ANY",
    "pixels": "ANY",
}


def advertised(**changes: str | list[str] | None) -> Advertisement:
    described = {**TWO_COLUMNS, **changes}
    return advertisement(VIDEO, 1, {name: texts for name, texts in described.items() if texts is not None})


def test_the_video_block_matches_the_subscription() -> None:
    """Eide et al. 2003, tables 2 and 3: block (1, 5) lies in the ten leftmost columns; both bounds of block_h hold."""
    assert receivers(VIDEO, {1: SUBSCRIPTION}, NOTIFICATION) == [1]
    for column, gets in ((-1, []), (0, [1]), (9, [1]), (10, [])):
        assert receivers(VIDEO, {1: SUBSCRIPTION}, {**NOTIFICATION, "block_h": column}) == gets


def test_a_notification_matches_when_every_constraint_is_met() -> None:
    """Eide et al. 2003, section 2.5, notification and subscription: for each constraint an attribute that meets it."""
    for name in (*STREAM, "block_h"):
        without = {each: value for each, value in NOTIFICATION.items() if each != name}
        assert receivers(VIDEO, {1: SUBSCRIPTION}, without) == []
    for name in ("block_v", "pixels"):  # not asked for
        without = {each: value for each, value in NOTIFICATION.items() if each != name}
        assert receivers(VIDEO, {1: SUBSCRIPTION}, without) == [1]


def test_the_video_block_matches_the_advertisement() -> None:
    """Eide et al. 2003, tables 2 and 4: the two leftmost columns, any row, any pixels."""
    for column, may in ((-1, False), (0, True), (1, True), (2, False)):
        assert advertised().allows({**NOTIFICATION, "block_h": column}) is may
        assert advertised().predicate.accepts({**NOTIFICATION, "block_h": column}) is may


def test_every_attribute_of_a_notification_must_be_advertised() -> None:
    """Eide et al. 2003, section 2.5, notification and advertisement: for each attribute a constraint that it meets."""
    for name in TWO_COLUMNS:
        assert not advertised(**{name: None}).allows(NOTIFICATION)  # carried and not listed
        without = {each: value for each, value in NOTIFICATION.items() if each != name}
        assert advertised().allows(without)  # listed and not carried
        assert advertised(**{name: None}).allows(without)


def test_constraints_of_an_advertisement_on_one_attribute_are_alternatives() -> None:
    """Eide et al. 2003, section 2.5: what is a conjunction in a subscription is a disjunction in an advertisement."""
    twice = ["block_h = 1", "block_h = 7"]
    either = advertised(block_h=twice)
    for column, may in ((1, True), (7, True), (2, False)):
        event = {**NOTIFICATION, "block_h": column}
        assert either.allows(event) is may
        assert receivers(VIDEO, {1: " AND ".join(twice)}, event) == []


def test_the_subscription_overlaps_the_advertisement() -> None:
    """Eide et al. 2003, section 2.5 and 4.3.2: some notification satisfies both, so the server joins the row's group."""
    assert overlaps(VIDEO, SUBSCRIPTION, advertised().predicate)
    assert not overlaps(VIDEO, f"{SAME_STREAM} AND block_h >= 2", advertised().predicate)
    assert not overlaps(VIDEO, SUBSCRIPTION, advertised(block_h=None).predicate)  # nobody will ever publish a column
    assert not overlaps(VIDEO, SUBSCRIPTION, advertised(media_source="media_source = 'other.simula.no'").predicate)


def test_one_subscription_covers_another() -> None:
    """Eide et al. 2003, section 2.5, as in SIENA: the ten leftmost columns cover the two leftmost, and not the reverse."""
    two = f"{SAME_STREAM} AND block_h >= 0 AND block_h < 2"
    assert covers(VIDEO, SUBSCRIPTION, two)
    assert not covers(VIDEO, two, SUBSCRIPTION)
    assert covers(VIDEO, "media_type = 'video'", SUBSCRIPTION)
    assert covers(VIDEO, advertised(block_h="block_h >= 0 AND block_h < 10").predicate, advertised().predicate)
    assert covers(VIDEO, advertised().predicate, two)
    assert not covers(VIDEO, advertised(block_v=None).predicate, two)  # the subscription takes blocks that carry a row


def test_the_first_row_of_the_mapping_that_allows_the_notification_carries_it() -> None:
    """Eide et al. 2003, section 4.3.2: f1 does not cover the notification and f2, which is table 4, does."""
    rows = [advertised(media_source="media_source = 'other.simula.no'"), advertised(), advertised(block_h="ANY")]
    assert next(at for at, row in enumerate(rows, start=1) if row.allows(NOTIFICATION)) == 2
    joined = [at for at, row in enumerate(rows, start=1) if overlaps(VIDEO, SUBSCRIPTION, row.predicate)]
    assert joined == [2, 3]


# --- Triantafillou and Economides 2004

QUOTES = Space(
    "quotes",
    {
        "exchange": "string",
        "symbol": "string",
        "when": "timestamp",
        "price": "float",
        "volume": "int",
        "high": "float",
        "low": "float",
    },
)
EVENT = {
    "exchange": "NYSE",
    "symbol": "OTE",
    "when": datetime(2003, 7, 1, 10, 5, 25, tzinfo=UTC),  # 12:05:25 EET
    "price": 8.40,
    "volume": 132700,
    "high": 8.80,
    "low": 8.22,
}
S1 = "exchange LIKE 'N%SE' AND symbol = 'OTE' AND price < 8.70 AND price > 8.30"
S2 = "symbol LIKE 'OT%' AND price = 8.20 AND volume > 130000 AND low < 8.05"


def test_only_the_first_subscription_matches() -> None:
    """Triantafillou and Economides 2004, example 1 with figures 2 and 3: the event is for S1 alone."""
    assert receivers(QUOTES, {1: S1, 2: S2}, EVENT) == [1]


def test_the_counters_of_the_example() -> None:
    """Triantafillou and Economides 2004, example 1: S1 has 3 of its 3 attributes met, S2 has 2 of its 4.

    Two constraints on one attribute count once: price < 8.70 and price > 8.30 are one.
    """
    counted = {}
    for name, text in (("S1", S1), ("S2", S2)):
        (conjunction,) = parse_predicate(QUOTES, text).conjunctions
        met = [each for each, constraint in conjunction.items if constraint.accepts(EVENT.get(each))]
        counted[name] = (met, len(conjunction))
    assert counted == {"S1": (["exchange", "symbol", "price"], 3), "S2": (["symbol", "volume"], 4)}


def test_what_the_second_subscription_waits_for() -> None:
    """Triantafillou and Economides 2004, figure 3, each missing piece by itself."""
    wanted = {**EVENT, "price": 8.20, "low": 8.04}
    assert receivers(QUOTES, {1: S1, 2: S2}, wanted) == [2]
    assert receivers(QUOTES, {2: S2}, {**wanted, "low": 8.05}) == []
    assert receivers(QUOTES, {2: S2}, {**wanted, "volume": 130000}) == []
    assert receivers(QUOTES, {2: S2}, {**wanted, "symbol": "OT"}) == [2]
    assert receivers(QUOTES, {2: S2}, {**wanted, "symbol": "XOTE"}) == []


def test_the_rows_of_the_price_summary() -> None:
    """Triantafillou and Economides 2004, figure 4: the range 8.30 to 8.70 for S1, the equality 8.20 outside of it for S2."""
    span, point = "price > 8.30 AND price < 8.70", "price = 8.20"
    assert covers(QUOTES, span, S1)
    assert covers(QUOTES, point, S2)
    assert not overlaps(QUOTES, span, point)
    assert not overlaps(QUOTES, S1, S2)


def test_the_row_of_the_symbol_summary_may_say_yes_wrongly_and_never_no() -> None:
    """Triantafillou and Economides 2004, figure 5: `OT*` holds both, so OTC is let through and S1 tests it exactly."""
    row = "startswith(symbol, 'OT')"
    assert covers(QUOTES, row, S1)
    assert covers(QUOTES, row, S2)
    other = {**EVENT, "symbol": "OTC"}
    assert receivers(QUOTES, {0: row, 1: S1}, other) == [0]


@pytest.mark.parametrize("word", ["microsoft", "micronet", "mt"])
def test_a_general_constraint_covers_the_words_it_takes(word: str) -> None:
    """Triantafillou and Economides 2004, section 3.1: m*t can cover microsoft or micronet."""
    assert covers(QUOTES, "symbol LIKE 'm%t'", f"symbol = '{word}'")
    assert not covers(QUOTES, f"symbol = '{word}'", "symbol LIKE 'm%t'")
    assert not covers(QUOTES, "symbol LIKE 'm%t'", "symbol LIKE 'micro%'")


# --- Baldoni et al. 2005

PLANE = Space("plane", a1=Attribute("int", low=0, high=7), a2=Attribute("int", low=0, high=7))
SIGMA = "a1 < 2 AND 3 < a2 AND a2 < 7"


def test_the_event_lies_in_the_subscription() -> None:
    """Baldoni et al. 2005, section 4.2 and figure 3(a): e = {a1 = 1, a2 = 6}."""
    assert receivers(PLANE, {1: SIGMA}, {"a1": 1, "a2": 6}) == [1]
    assert covers(PLANE, SIGMA, "a1 = 1 AND a2 = 6")


def test_the_subscription_spans_two_values_by_three() -> None:
    """Baldoni et al. 2005, section 4.2: two values of a1, three of a2, hence five keys in mapping 1."""
    matched = [(x, y) for x in range(8) for y in range(8) if receivers(PLANE, {1: SIGMA}, {"a1": x, "a2": y})]
    assert matched == [(x, y) for x in (0, 1) for y in (4, 5, 6)]
    (conjunction,) = parse_predicate(PLANE, SIGMA).conjunctions
    within = {name: (constraint.ranges & PLANE[name].domain).values() for name, constraint in conjunction.items}
    assert within == {"a1": (0, 1), "a2": (4, 5, 6)}


def test_the_edges_of_the_declared_values() -> None:
    """Baldoni et al. 2005, section 4.2: attributes are 0 to 7, so a1 < 2 is 0 and 1 and covers what asks for no more."""
    assert covers(PLANE, "a1 IN (0, 1) AND a2 BETWEEN 4 AND 6", SIGMA)
    assert covers(PLANE, SIGMA, "a1 IN (0, 1) AND a2 BETWEEN 4 AND 6")
    assert not overlaps(PLANE, SIGMA, "a2 = 7")
    assert not overlaps(PLANE, SIGMA, "a1 >= 2")
