"""A mapping specification is checked when it is loaded, and means the same after it was written and read."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.language import advertisement, parse_predicate
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.routing.multicast import Group, MappingId, MappingSpecification, Row
from contentcast.routing.multicast.groups import MappingError
from contentcast.routing.multicast.mapping_check import checked, findings
from contentcast.routing.multicast.mapping_files import from_toml, load_mapping, to_toml
from tests.properties.generate import Generator

TRADES = Space("trades", issue="string", price="float", volume="int")
G = "udp_ipm://239.192.10.{}:6666"


def row(number: int, group: str | None = None, **filter: str) -> Row:
    every = dict.fromkeys(TRADES.names, "ANY")
    return Row(advertisement(TRADES, number, {**every, **filter}), group or G.format(number + 1))


def test_a_group_says_its_ethernet_address() -> None:
    assert Group.of("udp_ipm://239.192.10.2:6666").ethernet == "01:00:5e:40:0a:02"
    assert Group.of("udp_ipm://239.64.10.2").ethernet == Group.of("udp_ipm://239.192.10.2").ethernet
    assert str(Group.of("udp_ipm://239.192.10.2")) == "udp_ipm://239.192.10.2:6666"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("239.192.10.2:6666", "a group is written udp_ipm://"),
        ("udp_ipm://10.0.0.1:6666", "10.0.0.1 is no multicast address"),
        ("udp_ipm://host:6666", "no IPv4 address"),
        ("udp_ipm://239.192.10.2:99999", "a port goes from 1 to 65535"),
    ],
)
def test_what_is_no_group_is_refused(text: str, said: str) -> None:
    with pytest.raises(MappingError, match=said):
        Group.of(text)


def test_a_row_that_can_never_be_reached_is_refused() -> None:
    mapping = MappingSpecification((row(0, price="price < 10"), row(1, price="price >= 10"), row(2, issue="issue = 'IBM'")))
    # An event without a price is covered by the first row as well, so nothing is left for the third.
    with pytest.raises(MappingError, match=r"row 2 can never be reached: rows above it \(0, 1\)"):
        checked(mapping)


def test_what_is_only_strange_is_said() -> None:
    mapping = MappingSpecification(
        (row(0, price="price < 10"), row(1, issue="issue = 'IBM'"), row(2, "udp_ipm://239.64.10.1:6666", issue="issue = 'SAP'"))
    )
    said = [str(each) for each in findings(checked(mapping))]
    assert "warning: rows 0 and 1 overlap; events of both go to row 0" in said
    assert any("share the Ethernet address 01:00:5e:40:0a:01" in each for each in said)
    assert any("239.64.10.1:6666 is outside 239.192.0.0/14" in each for each in said)
    with pytest.raises(MappingError, match=r"outside 239\.0\.0\.0/8"):
        checked(MappingSpecification((row(0, "udp_ipm://224.1.1.1:6666", price="price < 10"),)))


def test_the_control_group_is_for_control() -> None:
    with pytest.raises(MappingError, match="is the control group"):
        MappingSpecification((row(0, G.format(0)),))


TEXT = """
number = 3
otherwise = ["udp_ipm://239.192.10.99:6666"]

[[rows]]
space = "trades"
group = "udp_ipm://239.192.10.1:6666"
quality = "reliable"
others = "ANY"
filter.issue = ["issue = 'IBM'", "issue = 'SAP'"]

[[rows]]
space = "trades"
group = "udp_ipm://239.192.10.2:6666"
filter.issue = "ANY"
filter.price = "price >= 0 AND price < 100"
"""


def test_a_file_is_read_and_written_again(tmp_path: object) -> None:
    mapping = from_toml(TEXT, [TRADES])
    assert mapping.id == MappingId(3)
    assert from_toml(to_toml(mapping), [TRADES]) == mapping
    dicts = [{"issue": "IBM"}, {"issue": "X", "price": 5.0}, {"issue": "X", "price": 5.0, "volume": 1}, {"price": 500.0}]
    # The third carries a volume, which the second filter does not allow; the fourth has no issue, which the first one allows.
    assert mapping.first(EventBatch.from_dicts(TRADES, dicts)).tolist() == [0, 1, -1, 0]
    assert [way.reliable for way in mapping.ways(EventBatch.from_dicts(TRADES, dicts))] == [False, True, False]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('space = "trades"', 'space = "trade"', "did you mean 'trades'"),
        ("others", "other", "row 0 has no 'other'; did you mean 'others'"),
        ('"reliable"', '"relyable"', "quality is 'best effort' or 'reliable'"),
        ("issue = 'IBM'", "price < 5", "may ask of issue alone, not of price"),
        ("filter.issue = [", "filter.isue = [", "did you mean 'issue'"),
        ("number = 3", "number = ", "no TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_the_row(before: str, after: str, said: str) -> None:
    with pytest.raises(MappingError, match=said):
        from_toml(TEXT.replace(before, after, 1), [TRADES])


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(MappingError, match=r"nowhere\.toml: No such file"):
        load_mapping("nowhere.toml", [TRADES])


@pytest.mark.parametrize("events", [1, 100, 2_000])
def test_an_event_goes_to_the_first_of_many_rows_that_cover_it(events: int) -> None:
    """The index finds rows by what they test, and so in another order: those with an issue before those with a price alone."""
    random = Random(events)
    rows = tuple(
        row(number, price=f"price >= {random.randint(0, 60)} AND price < {random.randint(40, 100)}", **issue)
        for number in range(40)
        for issue in [{"issue": "issue = 'IBM'"} if number >= 20 else {}]
    )
    drawn = [
        {"issue": random.choice(["IBM", "SAP"]), "price": float(random.randint(0, 99)), "volume": 1} for _ in range(events)
    ]
    tests = [each.filter.predicate for each in rows]
    expected = [next((number for number, test in enumerate(tests) if test.accepts(event)), -1) for event in drawn]
    assert MappingSpecification(rows).first(EventBatch.from_dicts(TRADES, drawn)).tolist() == expected


@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_a_subscription_joins_the_group_of_every_event_that_it_wants(random: Random) -> None:
    """The one promise of a mapping: whatever the rows are, an event comes by a group that those who want it have joined."""
    generate = Generator(random)
    space = generate.space()
    rows = []
    for number in range(random.randint(0, 5)):
        names = [name for name in space.names if random.random() < 0.7]
        drawn = parse_predicate(space, generate.text(space, 1))
        filter = {name: "ANY" for name in names}
        made = advertisement(space, number, filter)
        allowed = dict(made.allowed)
        for each in drawn.conjunctions[:2]:
            for name in each:
                constraint = each.get(name)
                if constraint is not None and not constraint.is_empty and constraint.ranges:
                    allowed[name] = (constraint,)
        try:
            rows.append(Row(type(made)(number, space, allowed), G.format(random.randint(1, 9))))
        except ContentcastError:
            continue
    mapping = MappingSpecification(tuple(rows))
    wanted = parse_predicate(space, generate.text(space, 2))
    joined = mapping.joined(wanted)
    events = EventBatch.from_dicts(space, [generate.event(space) for _ in range(20)])
    for way in mapping.ways(events):
        for event in events.take(way.rows).to_dicts():
            assert way.group in joined or not wanted.accepts(event)
