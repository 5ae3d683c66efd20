"""What a broker's CPU time is: a stated cost model, by which virtual time passes.

    cpu = receive_s per message received + step_s per matching step + send_s per message sent + deliver_s per event handed to a
          client + byte_s per byte received and sent
    what it sends leaves when that is spent, and latency_s later (the communication stack; it delays, it does not load)

Source: Banavar et al. 1999, section 4.1: "the queue delay at the incoming queue, the CPU consumption for executing the link
matching algorithm, and the software latency for traversing the communication stack". Given there: 100 us for a matching step in
their implementation, 10 us estimated for a fast one. From section 4.2: a broker that hands 700 events/s to each of 20 clients
passes 14,000 messages/s through its transport, 71 us for each. Not given: the cost of receiving (taken to be that of sending)
and the software latency (`latency_s`; 1 ms here). Vary what is not given and see how much it matters.
Rule: everything that costs virtual CPU time is here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import Final

from contentcast.model.errors import ContentcastError

PAPER_TRANSPORT_S: Final = 1 / (20 * 700)


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of CPU time, and `latency_s` beside it. The defaults are the paper's estimate of a fast broker."""

    step_s: float = 10e-6
    receive_s: float = PAPER_TRANSPORT_S
    send_s: float = PAPER_TRANSPORT_S
    byte_s: float = 0.0
    deliver_s: float = PAPER_TRANSPORT_S
    latency_s: float = 0.001

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int | float) or not isfinite(value) or value < 0:
                raise ContentcastError(f"costs: {each.name} is a number of seconds from 0, got {value!r}")


FREE: Final = Costs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Only links take time: for stories about who gets what."""

PAPER: Final = Costs(step_s=100e-6)
"""Their implementation, on a Pentium of 150 MHz."""

PAPER_FAST: Final = Costs()
"""Their estimate of one that is "time efficient"."""

OURS: Final = Costs(step_s=0.35e-6, receive_s=110e-6, send_s=34e-6, deliver_s=23e-6)
"""Our link matching in Python, events one by one, without sockets: the middle of three runs of `measure`, rounded, on 2 cores
that were busy with other work as well (0.30 to 0.35, 106 to 117, 33 to 36 and 22 to 25 us). The latency is not measured."""
