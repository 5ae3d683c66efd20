"""One broker in virtual time: an input queue, one CPU that serves it input by input, and a router that knows of neither.

    arrives 1.000   CPU free: handled now; effects leave at 1.000 + cpu + latency
    arrives 1.001   CPU busy until 1.004: waits; handled at 1.004

Source: Banavar et al. 1999, section 4.1. An arrival that finds the CPU free costs one step on the agenda, one that waits two.
Rule: inputs are handled in the order of their arrival, and the router is told the time at which its CPU begins with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from contentcast.hosting.costs import Costs
from contentcast.hosting.perform import How, no_link, perform
from contentcast.hosting.timers import Timers
from contentcast.routing.contract import (
    Accepted,
    Account,
    Append,
    Changed,
    Deliver,
    DeliverDurably,
    Holds,
    Input,
    Join,
    Leave,
    LinkUp,
    Router,
    Send,
    SendGroup,
    SendTo,
    SetTimer,
    Started,
    Stopping,
    Synced,
    Timer,
    TimerFired,
    Trim,
)
from contentcast.routing.dice import Dice
from contentcast.routing.setup import Life, MakeRouter
from contentcast.simulation.agenda import Agenda, Root
from contentcast.simulation.clients import DurableClients
from contentcast.simulation.deliveries import Accounts, Deliveries
from contentcast.simulation.disk import Disk
from contentcast.simulation.trace import Trace, describe_input
from contentcast.simulation.ways.links import Direction
from contentcast.simulation.ways.parcels import Parcel, Scales
from contentcast.simulation.ways.segment import Segment
from contentcast.simulation.ways.underlay import Underlay

NO_MESSAGE: Final = -1
"""The size of an input that did not come as a message: a timer, a link. Only what follows from it costs."""
HOST: Final = "the simulation"


@dataclass(frozen=True)
class Surroundings:
    """What the brokers of a world share."""

    agenda: Agenda
    costs: Costs
    scales: Scales
    deliveries: Deliveries
    durable: DurableClients
    accounts: Accounts | None
    trace: Trace | None
    underlay: Underlay
    segments: tuple[Segment, ...]
    seed: int
    sync_s: float
    clock_s: float


class Broker:
    """`stopped` is called when the router has handled `Stopping` and what it wanted sent has left."""

    def __init__(
        self, name: str, number: int, make_router: MakeRouter, around: Surroundings, stopped: Callable[[Broker], None]
    ) -> None:
        self.name = name
        self.number = number
        self.directions: dict[str, Direction] = {}
        """To each neighbour."""
        self.up = False
        self.inputs = self.steps = self.delivered = self.most_waiting = self.crashes = 0
        self.busy_s = 0.0
        self.history: list[tuple[float, int]] | None = None
        """(time, inputs waiting) after every change, if the world was told to watch."""
        self.incarnation = 0
        self.waiting: deque[tuple[Input, int, Root]] = deque()
        self.router: Router
        self._make = make_router
        self._around = around
        self._agenda = around.agenda
        self._stopped = stopped
        self.disk = Disk(name, around.agenda, around.sync_s, around.seed, self._synced)
        self._timers = Timers()
        self._busy_until = 0.0
        self._waking = False
        self._wakes = self._wake  # bound once: a crash finds its steps on the agenda by them
        self._fires = self._fire
        self._cpu = 0.0
        self._sends: list[tuple[Direction | SendTo | SendGroup, Parcel]] = []
        self._delivers: list[Deliver] = []
        self._durably: list[Accepted | DeliverDurably | Holds] = []
        self._how: How = {
            Send: self._send,
            SendTo: self._send_elsewhere,
            SendGroup: self._send_elsewhere,
            Deliver: self._deliver,
            Accepted: lambda effect: self._durably.append(effect),
            DeliverDurably: lambda effect: self._durably.append(effect),
            Account: self._account,
            SetTimer: self._set_timer,
            Join: lambda effect: self._each_segment(lambda segment: segment.join(self.name, effect.group)),
            Leave: lambda effect: self._each_segment(lambda segment: segment.leave(self.name, effect.group)),
            Append: lambda effect: self.disk.append(effect.record),
            Trim: lambda effect: self.disk.trim(effect.before),
            Holds: lambda effect: self._durably.append(effect),
            Changed: lambda effect: None,
        }

    # --- life

    def start(self) -> None:
        """A new life: the router is made, and told what the disk has kept."""
        self.incarnation += 1
        self.up = True
        self._busy_until = self._agenda.now
        dice = Dice(f"{self._around.seed} {self.name} {self.incarnation}")
        self.router = self._make(self.name, Life(self.incarnation, dice, self._around.clock_s))
        self.arrive(Started(*self.disk.restore()), NO_MESSAGE)

    def crash(self) -> None:
        """What waits, what it was about to send, its timers and what was not synced are gone."""
        self.crashes += 1
        self.end()
        self.delivered -= self._around.deliveries.take_back(self.number, self._agenda.now)
        self.disk.crash()

    def end(self) -> None:
        self.up = False
        self._agenda.quiet.foreground -= sum(root is None for _, _, root in self.waiting)
        self.waiting.clear()
        self._mark()
        self._timers.clear()
        self._waking = False
        self._agenda.drop(lambda step: step[2] is self._wakes or step[2] is self._fires)
        self._each_segment(lambda segment: segment.leave(self.name))
        for direction in self.directions.values():
            direction.told = direction.heard = 0

    def stall(self, seconds: float) -> None:
        """The CPU does something else for so long."""
        self._busy_until = max(self._busy_until, self._agenda.now) + seconds

    # --- the queue

    def arrive(self, input: Input, size: int) -> None:
        """Now: an input, and its bytes if it is a message."""
        agenda = self._agenda
        if not self.waiting and self._busy_until <= agenda.now:
            self._serve(input, size)
            return
        # A foreground input that waits is something to do; the step that will wake for it is not counted.
        agenda.quiet.foreground += agenda.root is None
        self.waiting.append((input, size, agenda.root))
        if len(self.waiting) > self.most_waiting:
            self.most_waiting = len(self.waiting)
        if self.history is not None:
            self._mark()
        if not self._waking:
            self._waking = True
            agenda.put(self._busy_until, self._wakes, root=agenda.now)

    def _wake(self, _: None) -> None:
        agenda = self._agenda
        if self._busy_until > agenda.now:  # it was stalled meanwhile
            agenda.put(self._busy_until, self._wakes, root=agenda.now)
            return
        input, size, agenda.root = self.waiting.popleft()
        agenda.quiet.foreground -= agenda.root is None
        if self.history is not None:
            self._mark()
        self._serve(input, size)
        if self.waiting:
            agenda.put(self._busy_until, self._wakes, root=agenda.now)
        else:
            self._waking = False

    def _mark(self) -> None:
        if self.history is not None:
            self.history.append((self._agenda.now, len(self.waiting)))

    def _fire(self, timer: Timer) -> None:
        woken = self._timers.wake(timer, self._agenda.now)
        if woken is True:
            self.arrive(TimerFired(timer), NO_MESSAGE)
        elif woken is not None:
            self._agenda.put(woken, self._fires, timer, root=None if self._agenda.root is None else woken)

    def _synced(self, upto: int) -> None:
        if self.up:
            self.arrive(Synced(upto), NO_MESSAGE)

    # --- the CPU

    def _serve(self, input: Input, size: int) -> None:
        agenda, costs = self._agenda, self._around.costs
        now = agenda.now
        self.inputs += 1
        if size == NO_MESSAGE:
            self._cpu = 0.0
            self._hear(input)
        else:
            self._cpu = costs.receive_s + size * costs.byte_s
        try:
            effects = self.router.handle(input, now)
        except Exception as error:
            error.add_note(f"broker {self.name} at {now!r} s, handling {describe_input(input)}")
            raise
        if self._around.trace is not None:
            self._around.trace.handled(now, self.name, self.incarnation, input, effects)
        if not agenda.quiet.handled(input, effects, now, agenda.root is not None):
            agenda.root = None
        self._sends, self._delivers, self._durably = [], [], []
        perform(effects, self._how, HOST)
        self.busy_s += self._cpu
        self._busy_until = now + self._cpu
        leaves = now + self._cpu + costs.latency_s
        for way, parcel in self._sends:
            if type(way) is Direction:
                way.send(parcel, leaves)
            else:
                self._send_off(way, parcel, leaves)
        for deliver in self._delivers:
            self._around.deliveries.note(leaves, self.number, self.incarnation, deliver, now)
        for told in self._durably:
            self._around.durable.told(leaves, self.name, told)
        if type(input) is Stopping:
            agenda.put(leaves, self._stopped, self, root=None)

    def _hear(self, input: Input) -> None:
        """A router may send again once it has heard of the connection that is there now."""
        if type(input) is LinkUp:
            direction = self.directions[input.link]
            direction.heard += 1
            direction.working = direction.connected and direction.heard == direction.told

    # --- effects

    def _send(self, effect: Send) -> None:
        direction = self.directions.get(effect.link)
        if direction is None:
            raise no_link(HOST, self.name, effect.link, self.directions)
        self._sends.append((direction, self._packed(effect)))

    def _send_elsewhere(self, effect: SendTo | SendGroup) -> None:
        self._sends.append((effect, self._packed(effect)))

    def _packed(self, effect: Send | SendTo | SendGroup) -> Parcel:
        parcel = self._around.scales.parcel(effect.message)
        self._cpu += self._around.costs.send_s + parcel.size * self._around.costs.byte_s
        return parcel

    def _send_off(self, way: Direction | SendTo | SendGroup, parcel: Parcel, leaves: float) -> None:
        if isinstance(way, SendTo):
            self._around.underlay.send(self.name, way.broker, parcel, leaves)
        elif isinstance(way, SendGroup):
            self._each_segment(lambda segment: segment.send(self.name, way.group, parcel, leaves))

    def _deliver(self, effect: Deliver) -> None:
        pairs = len(effect.rows)
        if pairs:
            self.delivered += pairs
            self._cpu += pairs * self._around.costs.deliver_s
            self._delivers.append(effect)

    def _account(self, effect: Account) -> None:
        counts = effect.steps
        # For an array of one, `item` costs a hundredth of `sum`.
        steps = counts.item() if counts.size == 1 else int(counts.sum())
        self.steps += steps
        self._cpu += steps * self._around.costs.step_s
        if self._around.accounts is not None:
            self._around.accounts.note(self.number, effect)

    def _set_timer(self, effect: SetTimer) -> None:
        self._agenda.quiet.timer_set(effect, self._agenda.now)
        at = self._timers.set(effect, self._agenda.now)
        if at is not None:
            self._agenda.put(at, self._fires, effect.timer, root=at if effect.background else None)

    def _each_segment(self, act: Callable[[Segment], object]) -> None:
        for segment in self._segments():
            act(segment)

    def _segments(self) -> Iterable[Segment]:
        return (segment for segment in self._around.segments if segment.has(self.name))
