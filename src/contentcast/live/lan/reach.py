"""Whom does multicast reach here? Probed at the start, and watched as long as the server runs.

    to oneself      an empty message to the control group that does not come back: the computer itself has no multicast
    to a peer       an empty message to the peer alone; it answers alone and over the group. Heard alone only: something between
                    the two swallows multicast. A peer that sends all of its messages alone does not hear the group either
    to nobody       nothing was heard for NOBODY_AFTER_S: there is no other server, or it is behind such a network

With `auto` the server then sends a copy to each peer, besides the group: others may still hear that one. With `multicast` it
says whom it does not reach. Two servers that are not named to each other cannot tell a network that swallows multicast from one
where nobody else is.
Rule: a server that reaches nobody has said so in its log; `state` has it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from contentcast.live.lan.options import LanError, LanOptions

PROBE_S: Final = 0.3
"""How long the own probe may take to come back through the group."""
PEERS_CHECKED_S: Final = 1.0
"""After this long a peer that is heard alone, but not over the group, is behind something that swallows multicast."""
NOBODY_AFTER_S: Final = 5.0
"""Servers tell what they want every two seconds."""

log = logging.getLogger("contentcast.lan")


class Reach:
    """`send_alone` and `send_group` send an empty message; `switch` has the server send copies from now on."""

    def __init__(
        self,
        options: LanOptions,
        send_alone: Callable[[], None],
        send_group: Callable[[], None],
        switch: Callable[[], None],
    ) -> None:
        self._options = options
        self._send_alone, self._send_group, self._switch = send_alone, send_group, switch
        self._group: set[int] = set()
        self._alone: set[int] = set()
        self._talks_alone: set[int] = set()
        self._told: set[int] = set()
        self._planned: set[asyncio.TimerHandle] = set()

    async def probe(self, came_back: Callable[[], bool]) -> bool:
        """Does the group work on this computer? False: no, and there are peers to send copies to."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PROBE_S
        while not came_back() and loop.time() < until:
            self._send_group()
            await asyncio.sleep(0.02)
        self._send_alone()
        if came_back():
            self._plan(NOBODY_AFTER_S, self._say_nobody)
            return True
        options = self._options
        control = options.mapping.control
        what = f"multicast does not work on {options.interface.address}: a datagram to {control} did not come back"
        if options.mode == "auto" and options.peers:
            log.warning("%s; sending a copy to each of %d peers", what, len(options.peers))
            return False
        raise LanError(f"{what}; name the other servers (peer=host:port) for a copy to each, or take another interface")

    # --- who was heard

    def heard_group(self, senders: Iterable[int]) -> None:
        self._group.update(senders)

    def heard_alone(self, senders: set[int], with_messages: set[int]) -> None:
        """`with_messages`: those whose messages came alone, not only their probes."""
        if self._options.mode == "fanout":
            return
        new = senders - self._alone
        self._alone |= senders
        if new:
            self._send_alone()
            self._send_group()
            self._plan(PEERS_CHECKED_S, self._check)
        if not with_messages <= self._talks_alone:
            self._talks_alone |= with_messages
            self._check()  # at once: what is sent until then is lost

    def unreached(self) -> set[int]:
        """Servers that are there, and that the group does not connect with this one."""
        return (self._alone - self._group) | self._talks_alone

    def _check(self) -> None:
        swallowed = self.unreached() - self._told
        if not swallowed:
            return
        self._told |= swallowed
        what = "the network swallows multicast: %d peers are not reached through the group %s"
        told = (len(swallowed), self._options.mapping.control)
        if self._options.mode == "auto" and self._options.peers:
            log.warning(f"{what}; sending a copy to each of %d peers", *told, len(self._options.peers))
            self._switch()
        else:
            log.warning(
                f"{what}; what is published here does not come to them: take mode=auto and peer=host:port for each", *told
            )

    def _say_nobody(self) -> None:
        if not self._group and not self._alone and not self._options.interface.is_loopback:
            log.warning(
                "nobody is reached: no other server was heard on %s at %s in %g s. It may be the only one; if it is not, "
                "the network swallows multicast: name the others with peer=host:port",
                self._options.mapping.control,
                self._options.interface.address,
                NOBODY_AFTER_S,
            )

    # --- life

    def _plan(self, after_s: float, what: Callable[[], None]) -> None:
        def due() -> None:
            self._planned.discard(handle)
            what()

        handle = asyncio.get_running_loop().call_later(after_s, due)
        self._planned.add(handle)

    def stop(self) -> None:
        for each in self._planned:
            each.cancel()
        self._planned.clear()

    def state(self) -> dict[str, Any]:
        return {"heard over groups": len(self._group), "not reached over groups": len(self.unreached())}
