"""The space of a LAN in which its gateways say that they live, and to which broker they lead.

    {"brokers": "brokers", "gateway": "office-1", "server": "1f...", "connected": true,
     "address": "contentcast://10.0.0.5:7411"}

Gateways hear each other here, and so does a program that looks for a broker (`durable`).
Rule: a gateway that was not heard for AWAY_AFTER_S is gone; one that is not connected to a broker carries nothing.
"""

from __future__ import annotations

from typing import Final

from contentcast.model import Space

GATEWAYS: Final = Space(
    "contentcast gateways", brokers="string", gateway="string", server="string", address="string", connected="bool"
)
"""`address`: where programs of the LAN reach the broker; empty if the gateway cannot say. `connected`: absent is true."""
BEAT_EVERY_S: Final = 0.5
AWAY_AFTER_S: Final = 2.0
