"""One broker in virtual time: an input queue, one CPU that serves it input by input, and a router that knows of neither.

    arrives 1.000   CPU free: handled now; effects leave at 1.000 + cpu + latency
    arrives 1.001   CPU busy until 1.004: waits; handled at 1.004

Source: Banavar et al. 1999, section 4.1. An arrival that finds the CPU free costs one step on the agenda, one that waits two.
Rule: inputs are handled in the order of their arrival, and the router is told the time at which its CPU begins with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from contentcast.hosting.costs import Costs
from contentcast.routing.contract import (
    Account,
    Deliver,
    Input,
    LinkUp,
    Router,
    Send,
    SetTimer,
    TimerFired,
)
from contentcast.simulation.agenda import Agenda, SimulationError
from contentcast.simulation.deliveries import Accounts, Deliveries
from contentcast.simulation.network import Direction
from contentcast.simulation.sizes import Parcel, Scales
from contentcast.simulation.trace import Trace, describe_input

NO_MESSAGE: Final = -1
"""The size of an input that did not come as a message: a timer, a link. Only what follows from it costs."""

MakeRouter = Callable[[str, int], Router]


class Broker:
    __slots__ = (
        "_accounts",
        "_agenda",
        "_busy_until",
        "_costs",
        "_deliveries",
        "_make",
        "_scales",
        "_timers",
        "_trace",
        "_waking",
        "busy_s",
        "crashes",
        "delivered",
        "directions",
        "fires",
        "history",
        "incarnation",
        "inputs",
        "most_waiting",
        "name",
        "number",
        "router",
        "steps",
        "up",
        "waiting",
        "wakes",
    )

    def __init__(
        self,
        name: str,
        number: int,
        make_router: MakeRouter,
        agenda: Agenda,
        costs: Costs,
        scales: Scales,
        deliveries: Deliveries,
        accounts: Accounts | None,
        trace: Trace | None,
    ) -> None:
        self.name = name
        self.number = number
        self.directions: dict[str, Direction] = {}
        """To each neighbour."""
        self._make = make_router
        self._agenda = agenda
        self._costs = costs
        self._scales = scales
        self._deliveries = deliveries
        self._accounts = accounts
        self._trace = trace
        self.wakes = self._wake  # bound once: a crash finds its steps on the agenda by them
        self.fires = self._fire
        self.inputs = self.steps = self.delivered = self.most_waiting = self.crashes = 0
        self.busy_s = 0.0
        self.history: list[tuple[float, int]] | None = None
        """(time, inputs waiting) after every change, if the world was told to watch."""
        self.incarnation = 0
        self.start()

    # --- life

    def start(self) -> None:
        self.incarnation += 1
        self.up = True
        self.waiting: deque[tuple[Input, int]] = deque()
        self._timers: dict[str, tuple[float, float]] = {}  # when it is due, and when its step on the agenda is
        self._busy_until = self._agenda.now
        self._waking = False
        self.router = self._make(self.name, self.incarnation)

    def crash(self) -> None:
        """What waits, what it was about to send and its timers are gone."""
        self.up = False
        self.crashes += 1
        self.waiting.clear()
        self._mark()
        self._agenda.drop(lambda step: step[2] is self.wakes or step[2] is self.fires)
        self.delivered -= self._deliveries.take_back(self.number, self._agenda.now)
        for direction in self.directions.values():
            direction.told = direction.heard = 0

    def stall(self, seconds: float) -> None:
        """The CPU does something else for so long."""
        self._busy_until = max(self._busy_until, self._agenda.now) + seconds

    # --- the queue

    def arrive(self, input: Input, size: int) -> None:
        """Now: an input, and its bytes if it is a message."""
        if not self.waiting and self._busy_until <= self._agenda.now:
            self._serve(input, size)
            return
        self.waiting.append((input, size))
        if len(self.waiting) > self.most_waiting:
            self.most_waiting = len(self.waiting)
        if self.history is not None:
            self._mark()
        if not self._waking:
            self._waking = True
            self._agenda.put(self._busy_until, self.wakes)

    def _wake(self, _: None) -> None:
        if self._busy_until > self._agenda.now:  # it was stalled meanwhile
            self._agenda.put(self._busy_until, self.wakes)
            return
        input, size = self.waiting.popleft()
        if self.history is not None:
            self._mark()
        self._serve(input, size)
        if self.waiting:
            self._agenda.put(self._busy_until, self.wakes)
        else:
            self._waking = False

    def _mark(self) -> None:
        if self.history is not None:
            self.history.append((self._agenda.now, len(self.waiting)))

    def _fire(self, name: str) -> None:
        due, step_at = self._timers.get(name, (0.0, -1.0))
        if step_at != self._agenda.now:  # another step stands for it
            return
        if due > step_at:  # it was moved
            self._timers[name] = (due, due)
            self._agenda.put(due, self.fires, name)
            return
        del self._timers[name]
        self.arrive(TimerFired(name), NO_MESSAGE)

    # --- the CPU

    def _serve(self, input: Input, size: int) -> None:
        now = self._agenda.now
        costs = self._costs
        self.inputs += 1
        if size == NO_MESSAGE:
            cpu = 0.0
            self._hear(input)
        else:
            cpu = costs.receive_s + size * costs.byte_s
        try:
            effects = self.router.handle(input, now)
        except Exception as error:
            error.add_note(f"broker {self.name} at {now!r} s, handling {describe_input(input)}")
            raise
        if self._trace is not None:
            self._trace.handled(now, self.name, self.incarnation, input, effects)
        sends: list[tuple[Direction, Parcel]] = []
        delivers: list[Deliver] = []
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                parcel = self._scales.parcel(effect.message)  # type: ignore[union-attr]
                direction = self.directions.get(effect.link)  # type: ignore[union-attr]
                if direction is None:
                    raise self._no_link(effect.link)  # type: ignore[union-attr]
                cpu += costs.send_s + parcel.size * costs.byte_s
                sends.append((direction, parcel))
            elif kind is Deliver:
                pairs = len(effect.rows)  # type: ignore[union-attr]
                if pairs:
                    self.delivered += pairs
                    cpu += pairs * costs.deliver_s
                    delivers.append(effect)  # type: ignore[arg-type]
            elif kind is Account:
                counts = effect.steps  # type: ignore[union-attr]
                # Of an array of one, `item` costs a hundredth of `sum`.
                steps = counts.item() if counts.size == 1 else int(counts.sum())
                self.steps += steps
                cpu += steps * costs.step_s
                if self._accounts is not None:
                    self._accounts.note(self.number, effect)  # type: ignore[arg-type]
            elif kind is SetTimer:
                self._set_timer(effect)  # type: ignore[arg-type]
            else:
                raise SimulationError(f"broker {self.name}: the simulation cannot perform {effect!r}")
        self.busy_s += cpu
        self._busy_until = now + cpu
        leaves = now + cpu + costs.latency_s
        for direction, parcel in sends:
            direction.send(parcel, leaves)
        for deliver in delivers:
            self._deliveries.note(leaves, self.number, self.incarnation, deliver, now)

    def _hear(self, input: Input) -> None:
        """A router may send again once it has heard of the connection that is there now."""
        if type(input) is LinkUp:
            direction = self.directions[input.link]
            direction.heard += 1
            direction.working = direction.connected and direction.heard == direction.told

    def _set_timer(self, timer: SetTimer) -> None:
        at = max(timer.at, self._agenda.now)
        before = self._timers.get(timer.name)
        if before is not None and before[1] <= at:  # its step lies earlier, and finds out by itself that the timer was moved
            self._timers[timer.name] = (at, before[1])
            return
        self._timers[timer.name] = (at, at)
        self._agenda.put(at, self.fires, timer.name)

    def _no_link(self, link: str) -> SimulationError:
        known = ", ".join(sorted(self.directions)) or "nobody"
        return SimulationError(f"broker {self.name} sends to {link!r}; it has links to {known}")
