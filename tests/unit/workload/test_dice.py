"""Dice: the same words for ever, any stretch of rows, and the odds they promise."""

from collections import Counter
from decimal import ROUND_UP, Decimal, localcontext

import numpy as np
import pytest

from contentcast.workload.dice import BELL_DEVIATION, Dice, odds_of, steps, zipf

ROWS = range(100_000)
WHOLE = 2**53


@pytest.fixture
def dice() -> Dice:
    return Dice(7, "test")


def test_the_words_of_a_seed_never_change(dice):
    """If this fails, NumPy broke its promise of stable streams, and every stored digest with it."""
    assert [int(word) for word in dice.words("decision", range(2))] == [
        17_498_449_474_486_203_271,
        5_692_976_278_076_913_365,
    ]
    assert int(dice.words("decision", range(10**12, 10**12 + 1))[0]) == 11_162_535_313_131_884_252


def test_rows_can_be_had_from_anywhere(dice):
    whole = dice.words("decision", range(1_000))
    assert np.array_equal(dice.words("decision", range(400, 700)), whole[400:700])
    pairs = dice.words("decision", range(100), each=2)
    assert np.array_equal(dice.words("decision", range(30, 40), each=2), pairs[60:80])
    assert len(dice.words("decision", range(5, 5))) == 0


@pytest.mark.parametrize(
    "other", [Dice(8, "test"), Dice(7 + 2**32, "test"), Dice(7, "toast")], ids=["seed", "upper half of seed", "subject"]
)
def test_other_seeds_and_subjects_have_other_words(dice, other):
    assert not np.array_equal(dice.words("decision", range(4)), other.words("decision", range(4)))
    assert not np.array_equal(dice.words("decision", range(4)), dice.words("decision 2", range(4)))


def test_below_makes_every_value_alike(dice):
    seen = Counter(dice.below("decision", ROWS, 10).tolist())
    assert sorted(seen) == list(range(10))
    assert max(abs(count - 10_000) for count in seen.values()) < 400
    each_its_own = dice.below("decision", range(3), np.array([1, 2**32, 5]))
    assert each_its_own[0] == 0
    assert 0 <= each_its_own[1] < 2**32


def test_chance_keeps_its_probability(dice):
    assert dice.chance("decision", ROWS, 0.3).mean() == pytest.approx(0.3, abs=0.005)
    assert not dice.chance("decision", ROWS, 0.0).any()
    assert dice.chance("decision", ROWS, 1.0).all()
    mixed = dice.chance("decision", ROWS, np.arange(len(ROWS)) % 2 * 0.5)
    assert not mixed[::2].any()
    assert mixed[1::2].mean() == pytest.approx(0.5, abs=0.01)


def test_unit_can_be_divided_by(dice):
    drawn = dice.unit("decision", ROWS)
    assert drawn.min() > 0
    assert drawn.max() <= 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)


def test_bell_is_centred_and_as_wide_as_it_says(dice):
    drawn = dice.bell("decision", ROWS)
    assert drawn.mean() == pytest.approx(0, abs=0.02 * BELL_DEVIATION)
    assert drawn.std() == pytest.approx(BELL_DEVIATION, rel=0.01)
    assert abs(drawn).max() <= 2 * 0xFFFF
    assert (abs(drawn) < BELL_DEVIATION).mean() == pytest.approx(0.66, abs=0.02)


def test_order_is_a_shuffle(dice):
    shuffled = dice.order("decision", 100)
    assert sorted(shuffled) == list(range(100))
    assert list(shuffled) != list(range(100))


def test_zipf_odds_are_exact():
    """1, 1/2 and 1/3 of 11/6."""
    assert zipf(3, 1.0).tolist() == [WHOLE * 6 // 11, WHOLE * 9 // 11]
    assert zipf(4, 0.0).tolist() == [WHOLE // 4, WHOLE // 2, WHOLE * 3 // 4]
    assert zipf(1, 1.0).tolist() == []


def test_pick_follows_the_odds(dice):
    seen = Counter(dice.pick("decision", ROWS, odds_of((5, 3, Decimal(2)))).tolist())
    assert [seen[choice] / len(ROWS) for choice in range(3)] == pytest.approx([0.5, 0.3, 0.2], abs=0.005)
    hot = Counter(dice.pick("decision", ROWS, zipf(1_000, 1.0)).tolist())
    assert hot[0] / hot[9] == pytest.approx(10, rel=0.1)
    assert not dice.pick("decision", ROWS, zipf(1, 1.0)).any()


def test_steps_grow_by_one_factor():
    """Ten steps from 10 to 1000: the middles of tenths of the way, 10 * 100 ** 0.05 first."""
    levels = steps(10, 10, 1_000)
    assert levels.tolist() == [12, 19, 31, 50, 79, 125, 199, 316, 501, 794]


def test_the_callers_decimal_settings_change_nothing():
    expected = zipf.__wrapped__(50, 0.7).tolist(), steps.__wrapped__(50, 500, 50_000).tolist()
    with localcontext(prec=3, rounding=ROUND_UP):
        assert (zipf.__wrapped__(50, 0.7).tolist(), steps.__wrapped__(50, 500, 50_000).tolist()) == expected
