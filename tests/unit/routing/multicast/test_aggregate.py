"""Only the most general subscriptions are told, and they cover all that clients want."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.language import parse_predicate
from contentcast.model import Space
from contentcast.routing.multicast.aggregate import Aggregate, Wish

TRADES = Space("trades", issue="string", price="float")


def wish(text: str, quality: str = "best effort") -> Wish:
    return Wish(parse_predicate(TRADES, text), quality)  # type: ignore[arg-type]


def test_the_story_of_four_desks() -> None:
    aggregate = Aggregate()
    assert aggregate.change([], [(1, wish("price < 100"))]).added == {1: wish("price < 100")}
    assert not aggregate.change([], [(2, wish("price < 100")), (3, wish("price < 50"))])
    told = aggregate.change([], [(4, wish("price < 200"))])
    assert (told.added, told.removed) == ({2: wish("price < 200")}, [1])
    told = aggregate.change([4], [])
    assert (told.added, told.removed) == ({3: wish("price < 100")}, [2])
    assert not aggregate.change([1], [])  # desk 2 still wants the same
    told = aggregate.change([2], [])
    assert (told.added, told.removed) == ({4: wish("price < 50")}, [3])
    told = aggregate.change([3], [])
    assert (told.added, told.removed, len(aggregate)) == ({}, [4], 0)


def test_best_effort_does_not_cover_reliable() -> None:
    aggregate = Aggregate()
    aggregate.change([], [(1, wish("price < 100"))])
    assert aggregate.change([], [(2, wish("price < 50", "reliable"))]).added == {2: wish("price < 50", "reliable")}
    assert not aggregate.change([], [(3, wish("price < 40"))])


@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_what_is_told_covers_what_is_wanted_and_nothing_stands_twice(random: Random) -> None:
    aggregate, wanted, heard = Aggregate(), {}, {}
    for step in range(30):
        removed = [each for each in wanted if random.random() < 0.2]
        low = random.randint(0, 6)
        text = random.choice([f"price < {low}", f"price BETWEEN {low} AND {low + 2}", f"issue = '{low}'", "TRUE"])
        added = [(step, wish(text, random.choice(["best effort", "reliable"])))]
        told = aggregate.change(removed, added)
        for each in removed:
            del wanted[each]
        wanted.update(added)
        for number in told.removed:
            del heard[number]
        heard.update(told.added)
        assert heard == dict(aggregate.general())
        for each in wanted.values():
            assert any(one.covers(each) for one in heard.values()), each
        assert not any(one is not other and one.covers(other) for one in heard.values() for other in heard.values())
