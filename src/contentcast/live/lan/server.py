"""The host of a LAN's router: real groups, real time, inside the process of its clients.

    a client publishes    router -> Deliver: the clients of this process are called; SendGroup: bytes, datagrams, the wire
    datagrams come        all that one wake-up brings are put together and decoded, then the router hears them
    a timer is due        the router is woken

Source: Eide et al. 2003, sections 5.1 to 5.4. A network that swallows multicast is noticed and said (`reach`).
Rule: an event that only clients of this process want never becomes bytes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from contentcast.hosting.perform import How, perform
from contentcast.hosting.timers import Timers
from contentcast.live.datagrams import RECEIVE_BUFFER_BYTES, Receiver, Sender
from contentcast.live.lan.options import LanError, LanOptions
from contentcast.live.lan.packets import PROBE, Assembler, Cutter, Losses, probe_bytes, probe_ids
from contentcast.live.lan.reach import Reach
from contentcast.model import EventBatch, Space
from contentcast.routing.contract import (
    Account,
    Changed,
    Declared,
    Deliver,
    Input,
    Join,
    Leave,
    Received,
    SendGroup,
    SetTimer,
    Started,
    Stopping,
    Timer,
    TimerFired,
    Via,
)
from contentcast.routing.dice import Dice
from contentcast.routing.multicast import Group, Multicast
from contentcast.routing.multicast.portions import portions
from contentcast.routing.multicast.streams import SENDER_IDLE_S, Gap
from contentcast.routing.setup import Setup
from contentcast.warming.background import kernels
from contentcast.warming.parts import EVERYTHING
from contentcast.wire import (
    DeclaredSpaces,
    Message,
    Publish,
    SpaceVersions,
    WireError,
    decode,
    encode,
    spaces_of,
)
from contentcast.wire.multicast import Ask

HOST: Final = "the LAN server"
KERNELS_FROM_EVENTS: Final = 1000
"""A server with so many events wants its kernels. Loading them keeps a short command, as `lan map show`, from its answers."""
QUIET_S: Final = 1.0
"""When nobody has asked for so long, nobody misses anything. A reader asks again within half of it, whatever happens."""
TURN_S: Final = 0.02
ASK_EVERY_S: Final = 0.1
"""A sender whose messages cannot be read is asked to tell its spaces at most this often."""

log = logging.getLogger("contentcast.lan")
Hand = Callable[[EventBatch], None]


class LanServer:
    """Made with `LanOptions`; `start` before, `stop` after. All clients of a process may share one."""

    def __init__(self, options: LanOptions) -> None:
        self.options = options
        self.sender_id = secrets.randbits(64) | 1
        self.name = f"{self.sender_id:016x}"
        self.mode = "multicast"
        self.undecodable: Counter[str] = Counter()
        """Messages that could not be read, by the reason."""
        setup = Setup(dice=Dice(secrets.randbits(64)), count_steps=False)
        self.router = Multicast(self.name, setup, mapping=options.mapping, quality=options.quality, hold_back=options.hold_back)
        self.hands: dict[str, Hand] = {}
        """Subscriber -> what is called with its events."""
        self.told_gaps: dict[str, Callable[[Gap], None]] = {}
        """Subscriber -> what is called when something that was sent reliably cannot be had any more."""
        self.changed: Callable[[], None] = lambda: None
        """Called after every input: for those who wait for a fact."""
        self._next_event = secrets.randbits(38) << 24
        self._next_number = 0
        self._events = 0
        self._spaces = SpaceVersions()
        self._loop: asyncio.AbstractEventLoop
        self._sender: Sender
        self._cutter = Cutter(self.sender_id, options.key)
        self._alone = Assembler("", self.sender_id, options.key)
        self._receivers: dict[str, tuple[Receiver, Assembler]] = {}
        self._addresses: dict[str, tuple[str, int]] = {}
        self._peers: list[tuple[str, int]] = []
        self._timers = Timers()
        self._handles: dict[Timer, asyncio.TimerHandle] = {}
        self._waiting: deque[Input] = deque()
        self._handling = self._running = False
        self._asked: dict[str, float] = {}
        self.reach = Reach(
            options,
            send_alone=self._probe_alone,
            send_group=self._probe_group,
            switch=self._fan_out,
            forget=self._forget,
        )
        self._how: How = {
            SendGroup: self._send_group,
            Join: self._join,
            Leave: self._leave,
            Deliver: self._deliver,
            SetTimer: self._set_timer,
            Account: lambda effect: None,
            Changed: lambda effect: None,
        }

    # --- life

    async def start(self) -> LanServer:
        self._loop = asyncio.get_running_loop()
        self._peers = [await self._resolved(*each) for each in self.options.peers]
        self._sender = Sender(self.options.interface, port=self.options.port)
        self._loop.add_reader(self._sender.socket, self._read_alone)
        self._running = True
        try:
            if self.options.mode == "fanout":
                self.mode = "fanout"
            else:
                self._open(self.router.control)
                own = self._receivers[self.router.control][1].losses
                if not await self.reach.probe(lambda: own.own > 0):
                    self.mode = "fanout"
            self.reach.look()
            self.put(Started())
        except BaseException:
            self._close()
            raise
        return self

    async def _resolved(self, host: str, port: int) -> tuple[str, int]:
        try:
            found = await self._loop.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_DGRAM)
        except OSError as reason:
            raise LanError(f"the peer {host}:{port} is not known here: {reason.strerror or reason}") from None
        return str(found[0][4][0]), port

    async def repaired(self, within_s: float) -> bool:
        """Waits until nobody asks any more for what was sent reliably; False: somebody still does.

        Only time in which this process had its turns is quiet. While it stood still, questions waited for it.
        """
        streams, loop = self.router.streams, self._loop
        until = loop.time() + within_s
        quiet_s = 0.0
        while self._running and quiet_s < QUIET_S and loop.time() - streams.busy_at < SENDER_IDLE_S:
            if loop.time() >= until:
                return False
            begin, busy_at = loop.time(), streams.busy_at
            await asyncio.sleep(TURN_S)
            quiet_s = quiet_s + min(loop.time() - begin, 2 * TURN_S) if streams.busy_at == busy_at else 0.0
        return True

    async def stop(self) -> None:
        if self._running:
            self.put(Stopping())
            self._close()

    def _close(self) -> None:
        self._running = False
        self.reach.stop()
        for group in list(self._receivers):
            self._leave(Leave(group))
        for handle in self._handles.values():
            handle.cancel()
        self._loop.remove_reader(self._sender.socket)
        self._sender.close()

    # --- whom multicast reaches

    def _probe_alone(self, unheard: set[int]) -> None:
        datagrams = list(self._cutter.cut(probe_bytes(unheard), PROBE, fan_out=True))
        for peer in self._peers:
            self._sender.send_all(datagrams, peer)

    def _probe_group(self) -> None:
        self._send_to_group(b"", self.router.control)

    def _fan_out(self) -> None:
        if self._running and self.mode == "multicast":
            self.mode = "fanout"
            self.put(TimerFired(Timer("answer")))
            self._ask("")

    def _forget(self, sender: int) -> None:
        for each in (self._alone, *(assembler for _, assembler in self._receivers.values())):
            each.forget(sender)
        self._asked.pop(f"{sender:016x}", None)

    # --- inputs

    def put(self, input: Input) -> None:
        """Tells the router something, now or after what it is being told."""
        self._waiting.append(input)
        if self._handling:
            return
        self._handling = True
        try:
            while self._waiting:
                perform(self.router.handle(self._waiting.popleft(), self._loop.time()), self._how, HOST)
        finally:
            self._handling = False
        for gap in self.router.streams.take_gaps():
            log.warning("%d messages of %s to %s cannot be had any more", gap.messages, gap.sender, gap.group)
            for tell in list(self.told_gaps.values()):
                tell(gap)
        self.changed()

    def event_ids(self, count: int) -> int:
        """The first of so many ids for events. Where a server begins is chance, so that ids of two servers hardly meet."""
        first = self._next_event
        self._next_event += count
        self._note_events(count)
        return first

    def _note_events(self, count: int) -> None:
        if self._events < KERNELS_FROM_EVENTS <= self._events + count:
            kernels.ask(EVERYTHING, log.info)  # until they are ready, plain Python answers
        self._events += count

    def next_number(self) -> int:
        """For a subscription or an advertisement."""
        self._next_number += 1
        return self._next_number

    def declare(self, space: Space) -> Space:
        """From now on this process reads and writes the space, and says so."""
        self.put(Declared(space))
        present = self.router.spaces.named()[space.name]
        self._spaces.declare(space)
        self._spaces.declare(present)
        return present

    def space(self, name: str) -> Space | None:
        return self.router.spaces.named().get(name)

    # --- datagrams that come

    def _open(self, group: str) -> None:
        if group in self._receivers or (self.mode == "fanout" and self.options.mode == "fanout"):
            return
        receiver = Receiver(Group.of(group), self.options.interface)
        if receiver.buffer_bytes < RECEIVE_BUFFER_BYTES:
            log.info("%s: the kernel gave a buffer of %d bytes; raise net.core.rmem_max", group, receiver.buffer_bytes)
        self._receivers[group] = (receiver, Assembler(group, self.sender_id, self.options.key))
        self._loop.add_reader(receiver.socket, self._read, group)

    def _read(self, group: str) -> None:
        receiver, assembler = self._receivers[group]
        take = assembler.take
        came = [whole for data in receiver.read() if (whole := take(data)) is not None]
        self.reach.heard_group({each.sender for each in came})
        self._arrive([(each.sender, group, each.payload) for each in came if each.payload])

    def _read_alone(self) -> None:
        came = [whole for data in self._sender.read() if (whole := self._alone.take(data)) is not None]
        self.reach.heard_alone({each.sender for each in came})
        for each in came:
            if each.group == PROBE:
                self.reach.probed(each.sender, is_deaf=self.sender_id in probe_ids(each.payload))
        joined = {self.router.control, *self.router.groups}
        self._arrive([(each.sender, each.group, each.payload) for each in came if each.group in joined])

    def _arrive(self, came: list[tuple[int, str, bytes]]) -> None:
        for sender, group, payload in came:
            message = self._decoded(sender, payload)
            if message is not None and self._running:
                self.put(Received(f"{sender:016x}", message, Via("group", group)))

    def _decoded(self, sender: int, payload: bytes) -> Message | None:
        try:
            message = decode(payload, self._spaces)
        except WireError as reason:
            self.undecodable[str(reason)] += 1
            self._ask(f"{sender:016x}")
            return None
        if isinstance(message, DeclaredSpaces):
            for space in message.spaces:
                self._spaces.declare(space)
        return message

    def _ask(self, sender: str) -> None:
        """Perhaps its spaces are not known here yet."""
        now = self._loop.time()
        if now - self._asked.get(sender, -ASK_EVERY_S) >= ASK_EVERY_S:
            self._asked[sender] = now
            self._send_bytes(encode(Ask(sender)), self.router.control)

    # --- effects

    def _join(self, effect: Join) -> None:
        self._open(effect.group)

    def _leave(self, effect: Leave) -> None:
        found = self._receivers.pop(effect.group, None)
        if found is not None:
            self._loop.remove_reader(found[0].socket)
            found[0].close()

    def _send_group(self, effect: SendGroup) -> None:
        message = effect.message
        for space in spaces_of(message):
            self._spaces.declare(space)
        for part in portions(message) if isinstance(message, Publish) else (message,):
            self._send_bytes(encode(part), effect.group)

    def _send_bytes(self, payload: bytes, group: str) -> None:
        if self.mode == "fanout":
            datagrams = list(self._cutter.cut(payload, group, fan_out=True))
            for peer in self._peers:
                self._sender.send_all(datagrams, peer)
            if not self._receivers:
                return
        self._send_to_group(payload, group)

    def _send_to_group(self, payload: bytes, group: str) -> None:
        address = self._addresses.get(group)
        if address is None:
            parsed = Group.of(group)
            address = self._addresses[group] = (str(parsed.address), parsed.port)
        self._sender.send_all(list(self._cutter.cut(payload, group)), address)

    def _deliver(self, effect: Deliver) -> None:
        events, hands, subscribers = effect.events, self.hands, effect.subscribers
        self._note_events(len(effect.rows))
        if len(events) == 1:
            for who in effect.who.tolist():
                hands[subscribers[who]](events)
            return
        single = int(effect.who[0]) if (effect.who == effect.who[0]).all() else None
        for who in np.unique(effect.who).tolist() if single is None else (single,):
            rows = effect.rows if single is not None else effect.rows[effect.who == who]
            hands[subscribers[who]](events if len(rows) == len(events) else events.take(rows))

    def _set_timer(self, effect: SetTimer) -> None:
        at = self._timers.set(effect, self._loop.time())
        if at is not None:
            self._plan(effect.timer, at)

    def _plan(self, timer: Timer, at: float) -> None:
        before = self._handles.pop(timer, None)
        if before is not None:
            before.cancel()
        self._handles[timer] = self._loop.call_at(at, self._wake, timer, at)

    def _wake(self, timer: Timer, at: float) -> None:
        self._handles.pop(timer, None)
        woken = self._timers.wake(timer, at)
        if woken is True:
            self.put(TimerFired(timer))
        elif woken is not None:
            self._plan(timer, woken)

    # --- looking inside

    def state(self) -> dict[str, Any]:
        """What the router knows, how datagrams travel, and what was lost where."""
        groups = {
            group: {**_shown(each.losses, receiver.dropped), "buffer bytes": receiver.buffer_bytes}
            for group, (receiver, each) in sorted(self._receivers.items())
        }
        alone = _shown(self._alone.losses, self._sender.dropped)
        return {
            "name": self.name,
            "at": time.time(),
            "mode": self.mode,
            **self.reach.state(),
            "interface": self.options.interface.address,
            "signed": self.options.key is not None,
            "datagrams": {"sent": self._sender.sent, "refused": self._sender.refused, "alone": alone, "groups": groups},
            "undecodable": dict(self.undecodable),
            **self.router.state(),
        }


def _shown(losses: Losses, dropped: int) -> dict[str, int]:
    return {
        "received": losses.received,
        "missing": losses.missing,
        "dropped by the kernel": dropped,
        "unfinished": losses.unfinished,
        "foreign": losses.foreign,
        "unsigned": losses.unsigned,
        "replayed": losses.replayed,
    }
