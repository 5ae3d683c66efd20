"""The numbers of a LAN's mappings: whoever forges or damages one keeps no later mapping away."""

from __future__ import annotations

from dataclasses import replace

from contentcast.language import advertisement
from contentcast.model import Space
from contentcast.routing.contract import SendGroup
from contentcast.routing.dice import Dice
from contentcast.routing.multicast import MappingSpecification, Row
from contentcast.routing.multicast.agreement import MOST_STEP, Agreement, proposal_of
from contentcast.routing.multicast.members import Member, Members
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.wire import encode
from contentcast.wire.multicast import Proposal

LEVELS = Space("levels", level="int")
MAPPING = MappingSpecification((Row(advertisement(LEVELS, 1, {"level": "ANY"}), "udp_ipm://239.192.10.2:6666"),))
WISH = replace(proposal_of(MAPPING), number=0)


def an_agreement() -> tuple[Agreement, Members]:
    members = Members(MAPPING.control, Dice("a"), SpaceRegister("a", Versions("a", 1)))
    return Agreement("a", MAPPING, members, 0.1), members


def number_given(agreement: Agreement) -> int:
    """To somebody's wish; it must fit into a message."""
    told = [each.message for each in agreement.propose(WISH, 0.0) if isinstance(each, SendGroup)]
    (proposal,) = told
    assert isinstance(proposal, Proposal)
    assert encode(proposal)
    return proposal.number


def test_a_number_far_ahead_is_refused_and_said() -> None:
    """The last number was taken, and the next wish got one that no message can hold."""
    agreement, _ = an_agreement()
    agreement.propose(replace(WISH, number=2**63 - 1, proposer="x"), 0.0)
    ((id, reason),) = agreement.state()["mapping"]["refused"].items()
    assert "9223372036854775807" in id
    assert reason == "its number is more than 1,048,576 ahead of the mappings here"
    assert number_given(agreement) == MAPPING.id.number + 1
    agreement.propose(replace(WISH, number=MOST_STEP, proposer="x"), 0.0)
    assert number_given(agreement) == MOST_STEP + 1


def test_a_number_far_ahead_that_somebody_says_to_hear_does_not_count() -> None:
    agreement, members = an_agreement()
    members.members["b"] = Member(1, 0.0, hears=frozenset({(2**63 - 1, "x"), (7, "b")}))
    assert number_given(agreement) == 8
