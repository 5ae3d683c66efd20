"""Nodes join, leave and crash while others publish: every event reaches everybody who stays, once. Failed seeds are kept."""

from __future__ import annotations

import pytest

from contentcast.routing.overlay import post
from contentcast.simulation.coming_and_going import main, play, tell

KEPT = {
    5: "a node that had just restarted took events for its own and held no subscriptions",
    32: "an arc grew over that of a dead node whose subscriptions the newcomer had never heard of",
    208: "copies expired while their originals were renewed",
    1021: "a node came back a thousandth of a second after it had begun to leave, and the story broke off",
    240: "two that joined at the same time made a ring of their own",
}


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_failed_once(seed: int) -> None:
    assert play(tell(seed), "overlay").problems == (), KEPT[seed]


def test_the_same_seed_is_the_same_story_and_the_wire_changes_nothing() -> None:
    assert str(tell(3)) == str(tell(3))
    assert play(tell(3), "overlay", codec=True).problems == ()


def test_a_network_that_forgets_what_it_has_acknowledged_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No message is ever sent again: over links that lose some, events are lost."""
    monkeypatch.setattr(post.Post, "woken", lambda self, background, now: ([], []))
    assert main(["--seed", "5"]) == 1
    assert "did not get event" in capsys.readouterr().out
