"""Whoever must wait for the kernels hears about it, and waits no longer than for those of the index."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from contentcast.kernels import kernel
from contentcast.warming import background
from contentcast.warming.parts import EVERYTHING, INDEX


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kernels of a machine on which nothing is compiled; a test says how compiling goes."""
    monkeypatch.setattr(background, "is_compiled", lambda part: False)
    monkeypatch.setattr(background, "TELL_EVERY_S", 0.01)
    monkeypatch.setattr("contentcast.warming.loading.load_index_kernels", lambda: None)
    return background._Kernels()


def test_save_and_load_say_how_far_the_compiling_is(
    kernels: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "compile_parts", lambda part, tell: tell("compiling: 3 kernels"))
    kernels.wait()
    said = [(each.name, each.getMessage()) for each in caplog.records]
    assert said == [
        ("contentcast.kernels", f"contentcast: {background.WAITING}"),
        ("contentcast.kernels", "contentcast: compiling: 3 kernels"),
    ]
    assert kernels.ready


def test_who_waits_while_a_broker_compiles_hears_lines_and_needs_only_the_index(
    kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, index_may_end, all_may_end, over = [], Event(), Event(), Event()

    def compile_slowly(part: str, tell: Any, *, quietly: bool) -> None:
        (index_may_end if part == INDEX else all_may_end).wait()
        if part == EVERYTHING:
            over.set()

    def tell(line: str) -> None:
        heard.append(line)
        if len(heard) == 3:
            index_may_end.set()

    monkeypatch.setattr(background, "compile_parts", compile_slowly)
    kernels.ask(EVERYTHING, lambda line: None)
    assert kernel.as_python
    kernels.wait(tell)
    assert heard[0] == background.WAITING
    assert all(each.startswith("waiting for the kernels (") for each in heard[1:])
    assert len(heard) >= 3
    assert kernel.as_python, "the rest is not compiled yet"
    all_may_end.set()
    over.wait()
    while kernel.as_python:
        pass


def test_an_index_that_asks_leaves_the_kernels_of_others_alone(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation has its search trees compiled; one large index in it must not make them a hundred times slower."""
    may_end = Event()
    monkeypatch.setattr(background, "compile_parts", lambda part, tell, quietly: may_end.wait())
    told: list[str] = []
    kernels.ask(INDEX, told.append)
    assert not kernel.as_python
    may_end.set()
    kernels.wait(told.append)
    assert background.COMPILING in told
