"""Turns: many may read an index at once, or one may change it.

Rule: nobody waits for a lock in order to read unless somebody changes the index at that moment. A change is whole or not begun,
whenever Ctrl-C is pressed: an index has several parts, and its turn itself must be given back.
"""

from __future__ import annotations

from collections.abc import Callable
from os import getpid
from threading import Event, Lock, get_ident

from contentcast.model.errors import ContentcastError
from contentcast.uninterrupted import Uninterrupted


class Turns:
    """Many may read at once, or one may change.

    Whoever reads puts a token into `reading` and then looks whether somebody is changing. Whoever changes says so and then
    waits until all tokens are taken back. Both speak before they look, so one of them sees the other.
    """

    __slots__ = ("_lock", "_owner", "_process", "changing", "left", "reading")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.reading: dict[object, int] = {}
        """The thread of each token."""
        self.changing = False
        self.left = Event()
        """Set by who stops reading while somebody waits to change."""
        self._lock, self._owner, self._process = Lock(), 0, getpid()

    def read(self) -> _Reading:
        return _Reading(self)

    def wait(self, mine: object) -> None:
        """Let the change go first."""
        while self.changing and self._process == getpid():
            if self._owner == get_ident():
                raise ContentcastError("the index cannot be read in the midst of its own change")
            self.reading.pop(mine, None)
            self.left.set()
            with self._lock:
                self.reading[mine] = get_ident()

    def change(self) -> _Changing:
        return _Changing(self)

    def take(self, waiting: Callable[[], None]) -> None:
        """The turn to change, once nobody reads; `waiting` is called again and again until then."""
        me = get_ident()
        if self._process != getpid():
            self._begin()  # a fork has none of the other threads
        if self._owner == me or me in list(self.reading.values()):
            raise ContentcastError("the index cannot be changed in the midst of reading or changing it; finish that first")
        while not self._lock.acquire(timeout=0.05):
            waiting()
        self._owner, self.changing = me, True
        try:
            while self.reading:
                self.left.wait(0.05)
                self.left.clear()
                waiting()
        except BaseException:
            self.give_back()
            raise

    def give_back(self) -> None:
        self._owner, self.changing = 0, False
        self._lock.release()


class _Changing:
    """A change goes on while this is entered. Ctrl-C waits for its end, but not while it waits for its turn."""

    __slots__ = ("_calm", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns, self._calm = turns, Uninterrupted()

    def __enter__(self) -> None:
        self._calm.__enter__()
        try:
            self._turns.take(self._calm.let_through)
        except BaseException:
            self._calm.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._turns.give_back()
        self._calm.__exit__()


class _Reading:
    """Reading goes on while this is entered. It is its own token; a generator in its place took a microsecond more."""

    __slots__ = ("_turns",)

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        try:
            self._turns.reading[self] = get_ident()
            if self._turns.changing:
                self._turns.wait(self)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._turns.reading.pop(self, None)
        if self._turns.changing:
            self._turns.left.set()
