"""The folder in which compiled kernels are kept: found by a second process, a Spark worker, another environment, an image.

    $CONTENTCAST_CACHE      else $NUMBA_CACHE_DIR, else the user's own folder for caches, else one among the temporary files
      kernels/matching.index.matching.kernel-3f9a.../     what Numba compiled of that module
      compiled/index-77c1...                              "every kernel of the index has been compiled, into these folders"

Numba itself looks only at the file that a kernel stands in, and a kernel also holds the constants and kernels of the modules
that its own imports. So a module's folder is named by the checksum of all of them: a changed one is compiled anew, and the same
sources in another place are not.
A folder that may not be written, as in an image that somebody else runs, is copied to the first one that may.
A module's folder is touched when the module is imported: `warming.old_kernels` removes those that nobody uses.
Rule: importing this module tells Numba; it must come before the first kernel.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "CONTENTCAST_CACHE"
"""The environment variable that moves the folder."""
NUMBAS_FOLDER: Final = "NUMBA_CACHE_DIR"
PACKAGE: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = ("matching", "network", "routing", "experiments")
"""The rooms that have kernels."""
_IMPORTS: Final = re.compile(rb"^(?:from|import) +contentcast\.([\w.]+)(?: +import +(\([^)]*\)|[^\n]*))?", re.MULTILINE)


# --- the folder


@cache
def folder() -> Path:
    """The folder of this process, which can be written; what a folder that cannot be written has was copied into it."""
    asked = _asked()
    for each in (asked, _own(), Path(tempfile.gettempdir()) / f"contentcast-{_user()}"):
        if _is_writable(each):
            if each != asked and asked.is_dir():
                _copy(asked, each)
            return each
    return asked


def _asked() -> Path:
    told = os.environ.get(FOLDER) or os.environ.get(NUMBAS_FOLDER)
    return Path(told).expanduser().absolute() if told else _own()


def _own() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)).absolute() / "contentcast"


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "")


def _is_writable(path: Path) -> bool:
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError:
        return False
    return True


def _copy(theirs: Path, ours: Path) -> None:
    """What is not there yet; each file appears whole, since others may be reading and copying too."""
    for name in ("kernels", "compiled"):  # the marks last: they say that the kernels are there
        for each in (theirs / name).rglob("*"):
            target = ours / each.relative_to(theirs)
            try:
                if each.is_file() and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    part = target.with_name(f"{target.name}.{os.getpid()}.part")
                    shutil.copyfile(each, part)
                    part.replace(target)
            except OSError:  # then it is compiled again
                continue


# --- what a kernel depends on


@cache
def stamp_of(path: Path) -> str:
    """A checksum of a module and of all modules among the rooms that it imports, directly or not."""
    digest = hashlib.sha256()
    for each in sorted(_closure(path)):
        digest.update(each.relative_to(PACKAGE).as_posix().encode() + b"\0" + _source(each))
    return digest.hexdigest()[:24]


def _closure(path: Path) -> set[Path]:
    found, waiting = {path}, [path]
    while waiting:
        new = _imported(waiting.pop()) - found
        found |= new
        waiting += new
    return found


@cache
def _imported(path: Path) -> frozenset[Path]:
    found = set()
    for match in _IMPORTS.finditer(_source(path)):
        module, names = match[1].decode(), re.findall(r"\w+", (match[2] or b"").decode())
        if module.partition(".")[0] not in ROOMS:
            continue
        at = PACKAGE.joinpath(*module.split("."))
        places = [at, *(at / each for each in names)]
        found |= {each.with_suffix(".py") for each in places if each.with_suffix(".py").is_file()}
    return frozenset(found)


@cache
def _source(path: Path) -> bytes:
    return path.read_bytes()


# --- marks


def has_mark(part: str) -> bool:
    """Has every kernel of this part been compiled for this processor, by these versions?"""
    return _mark(part).is_file()


def set_mark(part: str) -> None:
    mark = _mark(part)
    mark.parent.mkdir(parents=True, exist_ok=True)
    whole = mark.with_name(f"{mark.name}.{os.getpid()}.part")
    whole.write_text("".join(f"{_folder_of(each)}\n" for each in _modules()))
    whole.replace(mark)


def _mark(part: str) -> Path:
    return folder() / "compiled" / f"{part}-{_fingerprint()}"


@cache
def _fingerprint() -> str:
    """The sources of all kernels, the versions that compile them, and the processor."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]
    from numba import __version__ as numba_version

    digest = hashlib.sha256()
    processor = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    digest.update(f"{numba_version} {sys.version_info[:2]} {llvm.get_process_triple()} {processor}".encode())
    for path in _modules():
        digest.update(stamp_of(path).encode())
    return digest.hexdigest()[:24]


def _modules() -> list[Path]:
    return sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py") if has_kernels(path))


def _folder_of(path: Path) -> str:
    """The name of the folder in which the kernels of a module are."""
    return f"{'.'.join(path.relative_to(PACKAGE).with_suffix('').parts)}-{stamp_of(path)}"


def has_kernels(path: Path) -> bool:
    source = _source(path)
    return b"njit" in source or b"@kernel" in source


# --- told to Numba


@cache
def _touch(path: Path) -> None:
    with suppress(OSError):  # it is not there yet
        os.utime(path)


def _tell_numba() -> None:
    from numba.core import caching

    class OwnFolder(caching._CacheLocator):
        """Where the kernels of contentcast are; other functions are none of its business."""

        def __init__(self, function: Any, path: Path) -> None:
            self._py_file = str(path)  # Numba names it in warnings
            self._line = function.__code__.co_firstlineno
            self._stamp = stamp_of(path)
            self._path = folder() / "kernels" / _folder_of(path)
            _touch(self._path)

        def get_cache_path(self) -> str:
            return str(self._path)

        def get_source_stamp(self) -> str:
            return self._stamp

        def get_disambiguator(self) -> str:
            return str(self._line)

        @classmethod
        def from_function(cls, function: Any, file: str) -> Any:
            path = Path(file)
            return cls(function, path) if path.is_file() and path.resolve().is_relative_to(PACKAGE) else None

    caching.CacheImpl._locator_classes.insert(0, OwnFolder)


_tell_numba()
