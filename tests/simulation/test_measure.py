"""What is measured: a fit that finds known costs again, and a run that gives costs a world can be made with."""

from random import Random

import pytest

from contentcast.simulation.measure import fit, measure


def test_the_fit_finds_known_costs_again() -> None:
    dice = Random(2)
    visits = []
    for _ in range(3000):
        steps, sends, pairs = dice.randint(1, 200), dice.randint(0, 4), dice.randint(0, 9)
        busy_elsewhere = 1e6 if dice.random() < 0.01 else 0.0
        visits.append(
            (
                50_000 + 300 * steps + 20_000 * sends + 1_000 * pairs + dice.uniform(-500, 500) + busy_elsewhere,
                steps,
                sends,
                pairs,
            )
        )
    step, receive, send, deliver = fit(visits)
    assert (step, receive, send, deliver) == pytest.approx((300e-9, 50e-6, 20e-6, 1e-6), rel=0.05)


def test_our_routers_can_be_measured() -> None:
    costs = measure("flooding", subscriptions=100, events=20)
    assert costs.receive_s > 0
    assert costs.send_s > 0
    assert costs.latency_s == 0.001
