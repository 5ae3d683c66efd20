"""What is compiled once is found again: by other processes, from a folder that may not be written, and never when it is old."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from time import time

import pytest

from contentcast.kernels import cache
from contentcast.warming.old_kernels import remove_old
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


def test_every_import_counts_however_it_is_written() -> None:
    """Python itself is asked what a module imports; only imports inside of functions are left out, which no kernel has."""
    for path in cache._modules():
        wanted = set()
        for each in ast.parse(path.read_text()).body:
            if isinstance(each, ast.ImportFrom) and each.module is not None:
                wanted |= {each.module, *(f"{each.module}.{name.name}" for name in each.names)}
            elif isinstance(each, ast.Import):
                wanted |= {name.name for name in each.names}
        places = {cache.PACKAGE.parent.joinpath(*each.split(".")).with_suffix(".py") for each in wanted}
        rooms = {each for each in places if each.is_file() and each.relative_to(cache.PACKAGE).parts[0] in cache.ROOMS}
        assert cache._imported(path) == rooms, path


def test_parts_come_after_those_that_they_need() -> None:
    assert needed_for("index") == ["matching", "building", "index"]
    assert needed_for("routing") == list(AFTER)


def test_a_compiled_part_is_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contentcast.warming import compilers

    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    for each in ("matching", "building"):
        cache.set_mark(each)
    started: list[str] = []

    def start(part: str, quietly: bool) -> subprocess.Popen[str]:
        started.append(part)
        return subprocess.Popen([sys.executable, "-c", "print('one')"], stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(compilers, "_started", start)
    compilers.compile_parts("index", print)
    assert started == ["index"]


def test_only_the_last_kernels_of_a_module_are_kept(tmp_path: Path) -> None:
    """Six versions of a module were used, a day apart: the first two more than a week ago are no longer among the last four."""
    now, days = time(), [12, 11, 10, 9, 8, 1]
    for version, ago in enumerate(days):
        made = tmp_path / "kernels" / f"matching.a-{version}"
        made.mkdir(parents=True)
        (made / "f.nbi").touch()
        os.utime(made, (now - ago * 86400, now - ago * 86400))
    lone = tmp_path / "kernels" / "matching.b-0"
    lone.mkdir()
    os.utime(lone, (1, 1))
    (tmp_path / "compiled").mkdir()
    for version in (1, 2):
        (tmp_path / "compiled" / f"index-{version}").write_text(f"matching.a-{version}\nmatching.b-0\n")
    remove_old(tmp_path)
    kept = {each.name for each in (tmp_path / "kernels").iterdir()}
    assert kept == {"matching.b-0", "matching.a-2", "matching.a-3", "matching.a-4", "matching.a-5"}
    assert [each.name for each in (tmp_path / "compiled").iterdir()] == ["index-2"]


def test_what_was_used_lately_is_kept_however_many_there_are(tmp_path: Path) -> None:
    for version in range(9):
        (tmp_path / "kernels" / f"matching.a-{version}").mkdir(parents=True)
    remove_old(tmp_path)
    assert len(list((tmp_path / "kernels").iterdir())) == 9


def test_an_import_says_that_the_folder_is_used(tmp_path: Path) -> None:
    os.utime(tmp_path, (1, 1))
    cache._touch(tmp_path)
    assert tmp_path.stat().st_mtime > 1
    cache._touch(tmp_path / "not there yet")


def test_a_mark_names_folders_that_are_there() -> None:
    from contentcast.warming.compilers import compile_parts
    from contentcast.warming.parts import EVERYTHING

    compile_parts(EVERYTHING, print)
    cache.set_mark(EVERYTHING)
    names = set(cache._mark(EVERYTHING).read_text().split())
    there = {each.name for each in (cache.folder() / "kernels").iterdir()}
    called = {each for each in names if "search_tree.walk-" in each or "matching.kernel_call-" in each}
    assert len(called) == 2
    assert called <= there
