"""Performing what a router wants done: one dispatch for all hosts.

    how = {Send: self._send, Deliver: self._deliver, SetTimer: self._set_timer}
    perform(router.handle(input, now), how, "the simulation")

Rule: an effect that a host cannot perform is an error that names it, and is never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from contentcast.model.errors import ContentcastError
from contentcast.routing.contract import Effect

How: TypeAlias = Mapping[type[Any], Callable[[Any], object]]
"""For each type of effect what the host does."""


class HostError(ContentcastError):
    """A router wanted something that its host cannot do; the message says what could be done."""


def perform(effects: Iterable[Effect], how: How, host: str) -> None:
    for effect in effects:
        act = how.get(type(effect))
        if act is None:
            known = ", ".join(each.__name__ for each in how)
            raise HostError(f"{host} cannot perform {effect!r}; it performs {known}")
        act(effect)


def no_link(host: str, broker: str, link: str, known: Iterable[str]) -> HostError:
    """For a `Send` to somebody who is no neighbour."""
    linked = ", ".join(sorted(known)) or "nobody"
    return HostError(f"{host}: broker {broker} sends to {link!r}; it has links to {linked}. SendTo reaches any broker")
