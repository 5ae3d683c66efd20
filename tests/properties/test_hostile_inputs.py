"""Some inputs as strangers would make them; `python -m tests.fuzz_inputs` goes on from there."""

import pytest

from tests.fuzz_inputs import KINDS, attack, take

EACH = 750


@pytest.mark.parametrize("first", [0, 1_000_000])
def test_every_input_is_answered_or_refused_within_time_and_memory(first: int) -> None:
    attack(first, EACH)


def test_the_attack_names_the_input_that_ends_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would find nothing."""

    def hurt(random: object) -> None:
        raise RecursionError

    monkeypatch.setattr("tests.fuzz_inputs.KINDS", [hurt])
    with pytest.raises(RecursionError):
        take(0)
    assert len(KINDS) > 1
    with pytest.raises(AssertionError, match=r"input \S+ ended the process with 2"):
        attack(0, "many")  # type: ignore[arg-type]
