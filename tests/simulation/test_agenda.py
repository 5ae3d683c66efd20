"""Steps are performed in the order of their times, and of equal times in the order in which they were put."""

import random

import pytest

from contentcast.simulation.agenda import Agenda, SimulationError


def test_steps_come_in_the_order_of_time_then_of_putting() -> None:
    agenda, done = Agenda(), []
    dice = random.Random(5)
    planned = [(dice.randint(0, 20) / 10, number) for number in range(500)]
    for time, number in planned:
        agenda.put(time, done.append, (time, number))
    assert agenda.run()
    assert done == sorted(planned)
    assert (agenda.now, agenda.performed, len(agenda)) == (max(done)[0], 500, 0)


def test_a_step_may_put_others_and_time_stands_still_meanwhile() -> None:
    agenda, done = Agenda(), []

    def first(_: None) -> None:
        agenda.put(agenda.now, done.append, "at once")
        agenda.put(3.0, done.append, "later")
        done.append("first")

    agenda.put(1.0, first)
    agenda.put(1.0, done.append, "second")
    assert agenda.run(until=2.0)
    assert done == ["first", "second", "at once"]
    assert agenda.now == 2.0
    assert agenda.run()
    assert done[-1] == "later"


def test_the_past_and_what_is_no_time_are_refused() -> None:
    agenda = Agenda()
    agenda.run(until=2.0)
    for time in (1.0, float("nan")):
        with pytest.raises(SimulationError, match=r"it is 2\.000000 s already"):
            agenda.put(time, print)


def test_dropped_steps_do_not_happen_and_the_others_keep_their_order() -> None:
    agenda, done = Agenda(), []
    for number in range(100):
        agenda.put((number * 37 % 10) / 10, done.append, number)
    gone = agenda.drop(lambda step: step[3] % 3 == 0)
    agenda.run()
    assert sorted([step[3] for step in gone] + done) == list(range(100))
    assert done == sorted((each for each in range(100) if each % 3), key=lambda each: (each * 37 % 10, each))


def test_most_steps_ends_a_run_early() -> None:
    agenda, done = Agenda(), []
    for number in range(5):
        agenda.put(float(number), done.append, number)
    assert not agenda.run(most_steps=2)
    assert (done, agenda.now) == ([0, 1], 1.0)
