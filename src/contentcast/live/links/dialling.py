"""Dialling: connections that this end makes, and how long it waits before it tries again.

    1st failure  0.05 .. 0.15 s    2nd  0.1 .. 0.3 s    ...    never more than 5 s in the mean

The wait is random between half and one and a half of its mean, so that brokers that were cut off together do not come back
together.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import ssl
from collections.abc import Callable
from typing import Final

from contentcast.live.links.connection import Connection
from contentcast.live.settings.address import Address

FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0
DIAL_TIMEOUT_S: Final = 3.0
OTHER_NAME: Final = (62, 64)
"""OpenSSL's numbers for a host and an IP address that do not stand in a certificate."""
FIRST_DELAY_S: Final = 0.001
"""What a link is taken to need before its first heartbeat is back, and the least that is told."""


class BackOff:
    def __init__(self, first_s: float = FIRST_WAIT_S, longest_s: float = LONGEST_WAIT_S) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def wait_s(self) -> float:
        mean, self._next_s = self._next_s, min(self._longest_s, 2 * self._next_s)
        return mean * random.uniform(0.5, 1.5)

    def succeeded(self) -> None:
        self._next_s = self._first_s


async def dial(address: Address, make: Callable[[], Connection], tls: ssl.SSLContext | None) -> Connection:
    """An `OSError` (a timeout is one too) if there is nobody; TLS is used if the address says so."""
    loop = asyncio.get_running_loop()
    if address.secure and tls is None:
        tls = ssl.create_default_context()
    try:
        async with asyncio.timeout(DIAL_TIMEOUT_S):
            _, connection = await loop.create_connection(make, address.host, address.port, ssl=tls if address.secure else None)
    except TimeoutError:
        raise TimeoutError(f"{address} does not answer within {DIAL_TIMEOUT_S:g} s") from None
    return connection


def fault(reason: Exception) -> str:
    """Why nobody was reached, in words that say what to do."""
    match reason:
        case ssl.SSLCertVerificationError(verify_code=code) if code in OTHER_NAME:
            return f"its certificate is another one's: {reason.verify_message.rstrip('.')}; take an address that stands in it"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {reason.verify_message}; the authority that signed it must be given"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            return "it does not speak TLS; an address without TLS begins with contentcast://"
        case OSError(errno=int(number)) if number > 0 and not isinstance(reason, ssl.SSLError):
            return os.strerror(number)
        case OSError():
            return reason.strerror or str(reason)
    return str(reason)


def rounded_s(seconds: float) -> float:
    """A delay, to a power of two of milliseconds from 1 on."""
    steps = max(0, round(math.log2(max(seconds, 1e-4) * 1000)))
    return FIRST_DELAY_S * (1 << steps)
