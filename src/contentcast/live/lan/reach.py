"""Whom does multicast reach here? Probed at the start, and watched as long as the server runs.

    to oneself      an empty message to the control group that does not come back: the computer itself has no multicast
    to a peer       a probe to the peer alone, and an empty message to the group; the peer answers with both. Heard alone only:
                    something between the two swallows multicast
    to nobody       nothing was heard for NOBODY_AFTER_S: there is no other server, or it is behind such a network

    a sends to the group: b hears it, c does not        b -> a   probe, unheard: nobody
                                                        c -> a   probe, unheard: a        so a does not reach c

A probe names the servers that its sender hears alone only, so that they know whom they do not reach. That a server sends copies
says nothing: it may do so because of a third one.
With `auto` the server then sends a copy to each peer, besides the group: others may still hear that one. With `multicast` it
says whom it does not reach. Two servers that are not named to each other cannot tell a network that swallows multicast from one
where nobody else is.
Rule: a server that reaches nobody has said so in its log; `state` has it too. Who is silent counts no more, and is forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from contentcast.live.lan.keys import CLOCKS_DIFFER_S
from contentcast.live.lan.options import LanError, LanOptions
from contentcast.live.lan.packets import MOST_SENDERS
from contentcast.routing.multicast.members import EXPIRE_AFTER_S

PROBE_S: Final = 0.3
"""How long the own probe may take to come back through the group."""
PEERS_CHECKED_S: Final = 1.0
"""After this long a peer that is heard alone, but not over the group, is behind something that swallows multicast."""
LOOK_EVERY_S: Final = 2.0
"""So often peers are probed again, and it is looked who is silent."""
SILENT_AFTER_S: Final = EXPIRE_AFTER_S
FORGET_AFTER_S: Final = 3 * CLOCKS_DIFFER_S
"""Numbers of a sender are kept until what somebody recorded of it is too old to be sent again."""
PROBE_AGAIN_S: Final = 0.2
"""Servers that are new within this time are answered with one probe: somebody may make them up."""
MOST_PLANNED: Final = 256
"""Times at which it is looked whether new servers are heard over groups. More come only from somebody who makes servers up."""
NOBODY_AFTER_S: Final = 5.0
"""Servers tell what they want every two seconds."""
NEVER: Final = float("-inf")

log = logging.getLogger("contentcast.lan")


@dataclass(slots=True)
class Heard:
    """When another server was last heard, and by which way."""

    group: float = NEVER
    alone: float = NEVER
    is_checked: bool = False
    """It was heard alone, and has had time to be heard over the group."""
    is_deaf: bool = False
    """It says that what this server sends to the group does not come to it."""


class Reach:
    """`send_alone` sends a probe with the servers that are not heard over groups, `send_group` an empty message. `switch` has
    the server send copies from now on; `forget` is told who has been silent for long.
    """

    def __init__(
        self,
        options: LanOptions,
        *,
        send_alone: Callable[[set[int]], None],
        send_group: Callable[[], None],
        switch: Callable[[], None],
        forget: Callable[[int], None],
    ) -> None:
        self._options = options
        self._send_alone, self._send_group, self._switch, self._forget = send_alone, send_group, switch, forget
        self._heard: OrderedDict[int, Heard] = OrderedDict()
        """The one that was heard last is the last; without a key at most MOST_SENDERS."""
        self._probed_at = NEVER
        self._is_probe_planned = False
        self._told: set[int] = set()
        self._planned: set[asyncio.TimerHandle] = set()

    async def probe(self, came_back: Callable[[], bool]) -> bool:
        """Does the group work on this computer? False: no, and there are peers to send copies to."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PROBE_S
        while not came_back() and loop.time() < until:
            self._send_group()
            await asyncio.sleep(0.02)
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
        now = monotonic()
        for each in senders:
            self._of(each).group = now

    def heard_alone(self, senders: Iterable[int]) -> None:
        now = monotonic()
        new = {each for each in senders if now - self._of(each).alone >= SILENT_AFTER_S}
        for each in senders:
            self._of(each).alone = now
        if not new:
            return
        for each in new & self._heard.keys():
            self._heard[each].is_checked = self._hears_no_group
        self._probe_soon()
        if not self._hears_no_group and len(self._planned) < MOST_PLANNED:
            self._plan(PEERS_CHECKED_S, lambda: self._check(new))

    def probed(self, sender: int, is_deaf: bool) -> None:
        """`is_deaf`: its probe names this server among those that it does not hear over groups."""
        self._of(sender).is_deaf = is_deaf
        if is_deaf:
            self._say_unreached()  # at once: what is sent until then is lost

    def unheard(self) -> set[int]:
        """Servers that are heard alone only."""
        now = monotonic()
        return {
            name
            for name, each in self._heard.items()
            if each.is_checked and now - each.alone < SILENT_AFTER_S <= now - each.group
        }

    def unreached(self) -> set[int]:
        """Servers that are there, and that the group does not connect with this one."""
        if self._hears_no_group:
            return set()
        now = monotonic()
        deaf = {name for name, each in self._heard.items() if each.is_deaf and now - each.alone < SILENT_AFTER_S}
        return self.unheard() | deaf

    @property
    def _hears_no_group(self) -> bool:
        """By its own choice: there is nothing to watch, but peers are told."""
        return self._options.mode == "fanout"

    def _of(self, sender: int) -> Heard:
        found = self._heard.get(sender)
        if found is None:
            found = self._heard[sender] = Heard()
            if self._options.key is None and len(self._heard) > MOST_SENDERS:
                gone, _ = self._heard.popitem(last=False)
                self._forget(gone)
        else:
            self._heard.move_to_end(sender)
        return found

    def _probe_soon(self) -> None:
        """Now, or when the last one is PROBE_AGAIN_S ago."""
        wait_s = self._probed_at + PROBE_AGAIN_S - monotonic()
        if wait_s <= 0:
            self._probe()
        elif not self._is_probe_planned:
            self._is_probe_planned = True
            self._plan(wait_s, self._probe)

    def _probe(self) -> None:
        self._probed_at, self._is_probe_planned = monotonic(), False
        self._send_alone(self.unheard())
        if not self._hears_no_group:
            self._send_group()

    def _check(self, new: set[int]) -> None:
        for each in new & self._heard.keys():
            self._heard[each].is_checked = True
        if new & self.unheard():
            self._probe()  # they do not reach this server, and learn it now
        self._say_unreached()

    def _say_unreached(self) -> None:
        unreached = self.unreached()
        swallowed = unreached - self._told
        self._told = unreached
        if not swallowed:
            return
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
        if not self._heard and not self._options.interface.is_loopback:
            log.warning(
                "nobody is reached: no other server was heard on %s at %s in %g s. It may be the only one; if it is not, "
                "the network swallows multicast: name the others with peer=host:port",
                self._options.mapping.control,
                self._options.interface.address,
                NOBODY_AFTER_S,
            )

    # --- life

    def look(self) -> None:
        """Now, and again and again: probes the peers, and forgets who is silent."""
        self._plan(LOOK_EVERY_S, self.look)
        now = monotonic()
        for sender in [name for name, each in self._heard.items() if now - max(each.group, each.alone) >= FORGET_AFTER_S]:
            del self._heard[sender]
            self._forget(sender)
        if self._options.peers:
            self._probe()
        self._say_unreached()

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
        now = monotonic()
        heard = sum(now - each.group < SILENT_AFTER_S for each in self._heard.values())
        return {"heard over groups": heard, "not reached over groups": len(self.unreached())}
