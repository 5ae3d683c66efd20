"""The worked examples of Eide et al. 2003 (LAN multicast): tables 2 to 5 and the walk through them in section 4.3."""

from contentcast.hosting.instant import Instant
from contentcast.language import advertisement, parse_predicate, subscription
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Deliver, Effect, Input, Join, Published, SendGroup, Subscribed
from contentcast.routing.multicast import MappingSpecification, Multicast, Row
from contentcast.routing.setup import Setup
from contentcast.wire import Publish

VIDEO = Space(
    "video",
    media_type="string",
    media_source="string",
    encoding="string",
    block_type="string",
    block_h="int",
    block_v="int",
    pixels="bytes",
)
STREAM = {
    "media_type": "media_type = 'video'",
    "media_source": "media_source = 'fnasa.simula.no'",
    "encoding": "encoding = '/raw/luminance/8/16x16'",
    "block_type": "block_type = 'intra_coded'",
}
NOTIFICATION = {
    "media_type": "video",
    "media_source": "fnasa.simula.no",
    "encoding": "/raw/luminance/8/16x16",
    "block_type": "intra_coded",
    "block_h": 1,
    "block_v": 5,
    "pixels": b"q34i23QR",
}
WANTED = " AND ".join([*STREAM.values(), "block_h >= 0", "block_h < 10"])


def group(number: int) -> str:
    return f"udp_ipm://239.0.10.{number}:6666"


def stripe(number: int, low: int, high: int) -> Row:
    """Columns `low` to `high` - 1 of the stream, as table 4 writes them."""
    columns = {"block_h": f"block_h >= {low} AND block_h < {high}", "block_v": "ANY", "pixels": "ANY"}
    return Row(advertisement(VIDEO, number, {**STREAM, **columns}), group(number))


TABLE_5 = MappingSpecification(
    (stripe(1, 20, 45), stripe(2, 0, 2), stripe(3, 2, 10), stripe(4, 10, 20)),
    otherwise=(group(5),),
    control="udp_ipm://239.0.10.0:6666",
)


def test_the_notification_goes_to_the_first_row_that_covers_it() -> None:
    """Section 4.3.3: f1 does not cover the notification of table 2, f2 (table 4) does."""
    events = EventBatch.from_dicts(VIDEO, [NOTIFICATION, {**NOTIFICATION, "block_h": 12}, {**NOTIFICATION, "block_h": 99}])
    assert TABLE_5.first(events).tolist() == [1, 3, -1]
    assert [(way.group, way.rows.tolist()) for way in TABLE_5.ways(events)] == [
        (group(5), [2]),
        (group(2), [0]),
        (group(4), [1]),
    ]


def test_the_subscription_joins_every_group_whose_row_overlaps_it() -> None:
    """Section 4.3.2: the subscription of table 3 overlaps f2, and partially others."""
    assert TABLE_5.joined(parse_predicate(VIDEO, WANTED)) == {group(2), group(3)}
    assert TABLE_5.joined(parse_predicate(VIDEO, "media_type = 'audio'")) == {group(5)}
    everything = TABLE_5.joined(parse_predicate(VIDEO, "media_type = 'video'"))
    assert everything == {group(each) for each in (1, 2, 3, 4, 5)}


def test_the_walk_of_section_4_3() -> None:
    """A camera's server and a viewer's server: told on the control group, joined, sent once, handed over."""
    happened: list[tuple[str, str]] = []

    def watch(broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Join(name):
                    happened.append((broker, f"join {name}"))
                case SendGroup(name, Publish()):
                    happened.append((broker, f"send {name}"))
                case Deliver():
                    happened.extend((broker, f"deliver {client}") for client, _ in effect.each())

    lan = Topology.of(["camera", "viewer"], [])
    network = Instant(lan, lambda broker, life: Multicast(broker, Setup().living(life), mapping=TABLE_5), watch)
    happened.clear()
    network.put("camera", Published(EventBatch.from_dicts(VIDEO, [NOTIFICATION])))
    assert happened == []  # nobody else wants it: it is not sent
    network.put("viewer", Subscribed(SubscriptionBatch.of(subscription(VIDEO, 1, WANTED, subscriber="screen"))))
    network.put("camera", Published(EventBatch.from_dicts(VIDEO, [NOTIFICATION])))
    assert happened == [
        ("viewer", f"join {group(2)}"),
        ("viewer", f"join {group(3)}"),
        ("camera", f"send {group(2)}"),
        ("viewer", "deliver screen"),
    ]


def test_parties_of_one_process_are_called_directly() -> None:
    """Section 3.1: what only clients of the same process want never leaves it."""
    sent: list[Effect] = []

    def watch(broker: str, input: Input, effects: list[Effect]) -> None:
        sent.extend(each for each in effects if isinstance(each, SendGroup) and isinstance(each.message, Publish))

    network = Instant(
        Topology.of(["camera", "other"], []),
        lambda broker, life: Multicast(broker, Setup().living(life), mapping=TABLE_5),
        watch,
    )
    network.put("camera", Subscribed(SubscriptionBatch.of(subscription(VIDEO, 1, WANTED, subscriber="screen"))))
    network.put("other", Subscribed(SubscriptionBatch.of(subscription(VIDEO, 2, "block_h = 7", subscriber="screen"))))
    network.put("camera", Published(EventBatch.from_dicts(VIDEO, [NOTIFICATION])))
    assert sent == []
    assert network.routers["camera"].state()["kept back"] == 1
