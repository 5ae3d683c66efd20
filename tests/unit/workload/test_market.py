"""Market data: the shares that W2 states, the match rate, and prices that read back as themselves."""

from collections import Counter

import numpy as np
import pytest

from contentcast.workload import scenario


@pytest.fixture(scope="module")
def market():
    return scenario("market", seed=11)


@pytest.fixture(scope="module")
def events(market):
    return market.events(50_000)


@pytest.fixture(scope="module")
def tests_by_attribute(market, read):
    """Of each subscription: attribute -> its tests."""
    told = []
    for predicate in market.subscriptions(20_000)["predicate"].to_pylist():
        tests = {}
        for attribute, operator, values in read(predicate):
            tests.setdefault(attribute, []).append((operator, values))
        told.append(tests)
    return told


def share(told, attribute):
    return sum(attribute in tests for tests in told) / len(told)


def test_how_often_each_part_is_there(tests_by_attribute):
    with_symbol = [tests for tests in tests_by_attribute if "symbol" in tests]
    without = [tests for tests in tests_by_attribute if "symbol" not in tests]
    assert share(tests_by_attribute, "symbol") == pytest.approx(0.7, abs=0.015)
    assert share(tests_by_attribute, "exchange") == pytest.approx(0.3, abs=0.015)
    assert share(tests_by_attribute, "volume") == pytest.approx(0.3, abs=0.015)
    assert share(with_symbol, "price") == pytest.approx(0.5, abs=0.015)
    assert share(without, "price") == 1


def test_a_price_range_without_a_symbol_is_narrow(tests_by_attribute):
    def widths(told):
        bounds = [[value for _, values in tests["price"] for value in values] for tests in told if "price" in tests]
        return np.array([(high - low) / low for low, high in bounds])

    wide = widths([tests for tests in tests_by_attribute if "symbol" in tests])
    narrow = widths([tests for tests in tests_by_attribute if "symbol" not in tests])
    assert wide.mean() == pytest.approx(0.025, rel=0.1)
    assert narrow.mean() == pytest.approx(0.015, rel=0.1)
    assert narrow.max() < 0.03


def test_ranges_come_in_both_forms(tests_by_attribute):
    forms = Counter(tuple(operator for operator, _ in tests["price"]) for tests in tests_by_attribute if "price" in tests)
    assert set(forms) == {("between",), (">=", "<")}
    assert forms["between",] / forms.total() == pytest.approx(0.5, abs=0.02)


def test_about_eight_of_ten_thousand_subscriptions_match(market, match_table):
    rate = match_table(market.subscriptions(10_000), market.events(2_000)).mean()
    assert 0.0006 < rate < 0.0010


def test_where_hot_symbols_are_wanted_ten_times_as_many_match(match_table):
    hot = scenario("market-hot", seed=11)
    rate = match_table(hot.subscriptions(4_000), hot.events(1_000)).mean()
    assert 0.006 < rate < 0.010


def wanted_symbols(made, read):
    texts = made.subscriptions(20_000)["predicate"].to_pylist()
    return Counter(values[0] for text in texts for attribute, _, values in read(text) if attribute == "symbol")


def test_symbols_are_traded_by_zipf_and_wanted_alike(market, events, read):
    traded = [count for _, count in Counter(events["symbol"].to_pylist()).most_common()]
    assert len(traded) > 950
    assert traded[0] / events.num_rows == pytest.approx(1 / 7.485, rel=0.05), "the first of 1000, exponent 1"
    assert traded[0] / traded[9] == pytest.approx(10, rel=0.15)
    wanted = wanted_symbols(market, read)
    assert len(wanted) == 1_000
    assert max(wanted.values()) < 5 * 14


def test_in_the_hot_variant_the_most_traded_is_the_most_wanted(read):
    hot = scenario("market-hot", seed=11)
    traded = Counter(hot.events(20_000)["symbol"].to_pylist()).most_common(3)
    assert [symbol for symbol, _ in traded] == [symbol for symbol, _ in wanted_symbols(hot, read).most_common(3)]


def test_a_price_stays_near_the_level_of_its_symbol(events):
    prices = {}
    for symbol, price in zip(events["symbol"].to_pylist(), events["price"].to_pylist(), strict=True):
        prices.setdefault(symbol, []).append(price)
    spreads = [np.std(each) / np.mean(each) for each in prices.values() if len(each) > 200]
    assert np.mean(spreads) == pytest.approx(0.02, rel=0.1)
    levels = [np.mean(each) for each in prices.values()]
    assert 4.5 < min(levels) < 8
    assert 300 < max(levels) < 550


def test_prices_are_the_doubles_that_their_text_reads_as(events):
    assert all(price == float(f"{price:.2f}") for price in events["price"].to_pylist())


def test_volume_has_a_heavy_tail(events):
    """P(volume > x) = (100 / x) ** (4/3)."""
    volume = np.array(events["volume"].to_pylist())
    assert volume.min() >= 100
    for limit in (1_000, 10_000):
        assert (volume > limit).mean() == pytest.approx((100 / limit) ** (4 / 3), rel=0.15)


def test_symbols_look_like_symbols():
    made = scenario("market", symbols=6_840)
    names = made.recipe.symbols.to_pylist()
    assert len(set(names)) == 6_840
    assert {len(name) for name in names} == {3, 4}
    assert not any(set(name) & set("AEIOUY") for name in names)


def test_each_exchange_enters_at_one_broker(market, events):
    entries = set(zip(events["exchange"].to_pylist(), market.publishers(50_000).to_pylist(), strict=True))
    assert sorted(entries) == [("LSE", "b5"), ("NASDAQ", "b3"), ("NYSE", "b1"), ("TSE", "b9"), ("XETRA", "b7")]
