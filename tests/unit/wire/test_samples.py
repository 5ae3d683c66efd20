"""Every type of message has a sample among those that strangers change, and each sample comes back as it was."""

from __future__ import annotations

import random

import pytest

from contentcast.wire import decode, encode
from contentcast.wire.registry import FIRST_FROM_OUTSIDE, describe, form_of, forms, message_bytes
from tests.fuzz_frames import attack, take
from tests.messages import KNOWN, mutated, samples

SAMPLES = samples()


def test_every_type_of_the_registry_has_a_sample() -> None:
    have = {form_of(each).number for each in SAMPLES}
    assert have == {each.number for each in forms() if each.number < FIRST_FROM_OUTSIDE}


@pytest.mark.parametrize("at", range(len(SAMPLES)), ids=lambda at: f"{at}-{type(SAMPLES[at]).__name__}")
def test_a_sample_comes_back(at: int) -> None:
    sent = encode(SAMPLES[at])
    came = decode(sent, KNOWN)
    assert encode(came) == sent
    assert describe(came) == describe(SAMPLES[at])
    assert message_bytes(came) == message_bytes(SAMPLES[at])


def test_mutated_samples_are_read_or_refused() -> None:
    """A first handful; `fuzz_frames` goes on from there."""
    dice, good = random.Random(19), [encode(each) for each in SAMPLES]
    assert {take(mutated(dice, good)) for _ in range(2_000)} == {True, False}


def test_the_attack_finds_what_is_no_wire_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would find nothing."""

    def hurt(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr("tests.fuzz_frames.decode", hurt)
    with pytest.raises(SystemExit, match="seed 1, block 0, frame 0: KeyError"):
        attack(1, 0, [encode(each) for each in SAMPLES])
