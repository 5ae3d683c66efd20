"""An index with a few subscriptions of every sort."""

from __future__ import annotations

import pytest

import contentcast as cc


@pytest.fixture
def index() -> cc.MatchIndex:
    trades = cc.Space("trades", issue="string", price="float", volume="int")
    index = cc.MatchIndex(trades)
    index.add(1, "issue = 'IBM' AND price < 120 AND volume > 1000")
    index.add_many([2, 3, 4], ["issue = 'SAP'", "price BETWEEN 100 AND 200", "issue LIKE '%B%' OR volume IS NULL"])
    return index
