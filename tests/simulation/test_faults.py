"""Fault stories: a few dozen for every protocol, and routers with a known fault, which the stories must find."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from contentcast import catalog
from contentcast.network.named import network
from contentcast.routing.contract import Deliver, Effect, Input, LinkUp, Received, Router, Subscribed
from contentcast.routing.flooding import Flooding
from contentcast.routing.multicast.aggregate import Told
from contentcast.routing.multicast.held_back import HeldBack
from contentcast.routing.setup import Setup
from contentcast.simulation.faults import main, play, replay_command
from contentcast.simulation.story import Act, Story, Wish
from contentcast.wire import Known, Neighbours, Publish

HOLDING_BACK = "multicast,hold_back=true"
STORIES = 12
"""For each protocol, here; `make soak` plays a thousand."""


@pytest.mark.parametrize("protocol", catalog.PROTOCOLS)
@pytest.mark.parametrize("seed", range(STORIES))
def test_after_every_story_everybody_gets_what_he_wants(seed: int, protocol: str) -> None:
    outcome = play(Story.random(seed), protocol, codec=seed % 3 == 0)
    assert not outcome.problems, replay_command(seed, protocol)


@pytest.mark.parametrize("seed", range(STORIES))
def test_the_same_where_the_servers_of_a_lan_hold_back_what_others_tell(seed: int) -> None:
    """Three brokers want everything, so that the others keep silent, until those crash or are cut off."""
    outcome = play(with_three_who_want_all(Story.random(seed, network("line:6"))), HOLDING_BACK, codec=seed % 3 == 0)
    assert not outcome.problems


def with_three_who_want_all(story: Story) -> Story:
    """From the beginning, and no longer when all is mended."""
    wishes = [(broker, Wish(1000 + at, "shapes", "TRUE", f"all-{at}")) for at, broker in enumerate(story.topology.brokers[:3])]
    begin = [Act(0.0, "subscribe", (broker, [wish])) for broker, wish in wishes]
    end = [Act(story.acts[-1].at + 5.0, "unsubscribe", (broker, (wish.id,))) for broker, wish in wishes]
    return replace(story, acts=(*begin, *story.acts, *end))


def test_the_stories_find_servers_that_do_not_tell_what_they_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldBack, "reveal", lambda self, general, now: Told())
    stories = [with_three_who_want_all(Story.random(seed, network("line:6"))) for seed in range(STORIES)]
    assert any(play(story, HOLDING_BACK).problems for story in stories)


def test_the_stories_are_about_something() -> None:
    stories = [Story.random(seed) for seed in range(60)]
    verbs = {act.verb for story in stories for act in story.acts}
    assert verbs == {
        *("crash", "restart", "cut", "mend", "partition", "heal", "delay", "stall"),
        *("subscribe", "unsubscribe", "publish"),
    }
    outcomes = [play(story, "flooding") for story in stories[:12]]
    assert min(len(outcome.story.probes) for outcome in outcomes) >= 2
    assert sum(outcome.expected for outcome in outcomes) > 150
    assert sum(outcome.deliveries for outcome in outcomes) > 2 * sum(outcome.expected for outcome in outcomes)
    assert {story.configured for story in stories} == {True, False}
    assert {story.quality.is_perfect for story in stories} == {True, False}


def test_a_story_is_made_of_its_seed() -> None:
    assert str(Story.random(3)) == str(Story.random(3))
    assert str(Story.random(3)) != str(Story.random(4))
    line = network("line:4")
    assert Story.random(3, line, rough=True).topology is line
    assert not Story.random(3, line, rough=True).quality.is_perfect


class Faulty:
    """Flooding, with a fault that each of these adds."""

    def __init__(self, broker: str, setup: Setup) -> None:
        self.broker = broker
        self.inside = Flooding(broker, setup)
        self.sizes, self.state = self.inside.sizes, self.inside.state

    def handle(self, input: Input, now: float) -> list[Effect]:
        return self.inside.handle(input, now)


class Deaf(Faulty):
    """Does not listen when others tell which links they have."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        ignored = isinstance(input, Received) and isinstance(input.message, Neighbours | Known)
        return [] if ignored else super().handle(input, now)


class Stubborn(Faulty):
    """Sees a link come up once and never again."""

    def __init__(self, broker: str, setup: Setup) -> None:
        super().__init__(broker, setup)
        self.seen: set[str] = set()

    def handle(self, input: Input, now: float) -> list[Effect]:
        if isinstance(input, LinkUp):
            if input.link in self.seen:
                return []
            self.seen.add(input.link)
        return super().handle(input, now)


class Stammering(Faulty):
    """Hands over every event twice."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        effects = super().handle(input, now)
        return [*effects, *(each for each in effects if isinstance(each, Deliver))]


class Generous(Faulty):
    """Gives its first client everything."""

    def __init__(self, broker: str, setup: Setup) -> None:
        super().__init__(broker, setup)
        self.friend: list[str] = []

    def handle(self, input: Input, now: float) -> list[Effect]:
        if isinstance(input, Subscribed):
            self.friend = self.friend or [input.subscriptions.subscribers[0]]
        effects = super().handle(input, now)
        if self.friend and isinstance(input, Received) and isinstance(input.message, Publish):
            events = input.message.events
            every = np.arange(len(events))
            effects = [each for each in effects if not isinstance(each, Deliver)]
            return [*effects, Deliver(events, every, np.zeros_like(every), self.friend)]
        return effects


class Forgetful(Faulty):
    """Does not remember which events have passed."""

    def __init__(self, broker: str, setup: Setup) -> None:
        super().__init__(broker, setup)
        self.inside.publishing.fresh = lambda publish: publish  # type: ignore[method-assign]


def ageless(broker: str, setup: Setup) -> Router:
    """Does not say that it has started again, so that the others keep what they knew of its clients."""
    return catalog.router("link-matching", broker, replace(setup, incarnation=1))


class Failing(Faulty):
    def handle(self, input: Input, now: float) -> list[Effect]:
        if now > 5:
            raise RuntimeError("out of memory")
        return super().handle(input, now)


@pytest.mark.parametrize(
    ("router", "found"),
    [
        (Deaf, "0 times, not once"),
        (Stubborn, "0 times, not once"),
        (Stammering, "2 times"),
        (Generous, "which he never asked for"),
        (Forgetful, "at b1.2 got event 47 2 times"),
        (ageless, "0 times, not once"),
        (Failing, "RuntimeError: out of memory"),
    ],
)
def test_the_stories_find_a_router_that_does_wrong(router: Callable[[str, Setup], Router], found: str) -> None:
    problems = [problem for seed in range(9) for problem in play(Story.random(seed, rough=False), router).problems]
    assert any(found in problem for problem in problems), problems


def test_the_command_plays_seeds_and_says_how_to_replay_a_failing_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--protocol", "flooding", "--seeds", "3", "--first", "7"]) == 0
    assert "flooding: 3 of 3 stories passed" in capsys.readouterr().out
    assert main(["--protocol", "flooding", "--seed", "7", "--replay"]) == 0
    shown = capsys.readouterr().out
    assert str(Story.random(7)) in shown
    assert "Received b1 Publish" in shown
    assert main(["--protocol", "floding"]) == 2
    assert "did you mean 'flooding'?" in capsys.readouterr().err

    def stammering(name: str, broker: str, setup: Setup, **options: Any) -> Router:
        return Stammering(broker, setup)

    monkeypatch.setattr("contentcast.simulation.faults.catalog.router", stammering)
    assert main(["--protocol", "flooding", "--seeds", "1"]) == 1
    shown = capsys.readouterr().out
    assert f"replay with {replay_command(0, 'flooding')}" in shown
    assert "flooding: 0 of 1 stories passed" in shown
