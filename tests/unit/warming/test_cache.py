"""What is compiled once is found again: by other processes, from a folder that may not be written, and never when it is old."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contentcast.kernels import cache
from contentcast.warming.parts import AFTER, needed_for

AGAIN = """
import sys
from numba.core import event
from contentcast import every_kernel
from contentcast.warming.background import kernels

COMPILED = []

class Counting(event.Listener):
    def on_start(self, event):
        pass
    def on_end(self, event):
        COMPILED.append(event.data["dispatcher"].__module__ + "." + event.data["dispatcher"].__name__)

event.register("numba:compile", Counting())
kernels.ready = True
for part in every_kernel.PARTS.values():
    part()
assert not [each for each in COMPILED if each.startswith("contentcast.")], COMPILED
"""


def test_a_second_process_compiles_nothing() -> None:
    from contentcast.warming.compilers import compile_parts
    from contentcast.warming.parts import EVERYTHING

    compile_parts(EVERYTHING, print)
    subprocess.run([sys.executable, "-c", AGAIN], check=True, timeout=400)


def test_a_folder_that_may_not_be_written_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, own = tmp_path / "image", tmp_path / "own"
    for name in ("kernels/a-1/f.nbi", "compiled/index-1"):
        (image / name).parent.mkdir(parents=True)
        (image / name).write_text(name)
    monkeypatch.setenv(cache.FOLDER, str(image))
    monkeypatch.setenv("XDG_CACHE_HOME", str(own))
    monkeypatch.setattr(cache, "_is_writable", lambda path: path != image and not os.makedirs(path, exist_ok=True))
    found = cache.folder.__wrapped__()
    assert found == own / "contentcast"
    assert (found / "kernels/a-1/f.nbi").read_text() == "kernels/a-1/f.nbi"
    assert (found / "compiled/index-1").is_file()


def test_a_module_is_known_by_all_that_it_imports() -> None:
    """Numba looks at one file, and the kernels and constants of others are compiled into it."""
    kernel = cache.PACKAGE / "matching/index/matching/kernel_call.py"
    names = {path.relative_to(cache.PACKAGE / "matching/index").as_posix() for path in cache._closure(kernel)}
    assert {"matching/kernel.py", "machine/layout.py", "machine/raw_arrays.py"} <= names


def test_parts_come_after_those_that_they_need() -> None:
    assert needed_for("index") == ["matching", "building", "index"]
    assert needed_for("routing") == list(AFTER)
