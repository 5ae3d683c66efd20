"""contentcast for workers that do not have it: an archive that Spark unpacks beside each executor.

    ~/.cache/contentcast/package/contentcast-0.1.0-5f2e….tar.gz      contentcast/…, and in cache/ the compiled kernels
    --archives …tar.gz#contentcast-package                            unpacked into the folder where the executor runs
    --conf spark.executorEnv.PYTHONPATH=contentcast-package           before whatever the worker's own Python has
    --conf spark.executorEnv.CONTENTCAST_CACHE=contentcast-package/cache

The workers' Python needs what contentcast imports (NumPy, PyArrow, Numba, msgspec, sqlglot), not contentcast itself. An archive
and not a zip file for `--py-files`: kernels find their compiled form by the files of their modules, which a zip has not, and
each Python process of each worker would compile them anew, for a minute. What the driver has compiled comes along, for workers
of its kind of processor.
Rule: an archive never changes once it has its name, which says what is in it.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import contentcast
from contentcast.kernels import cache
from contentcast.spark.java import cache_folder

FOLDER: Final = "contentcast-package"
CACHE: Final = "cache"
ARCHIVES, ENVIRONMENT = "spark.archives", "spark.executorEnv."
ONE_COPY: Final = {"spark.files.useFetchCache": "false"}
"""Else a worker has a second copy of each file of a job, which nobody can remove: indexes are files of a job."""


def settings() -> dict[str, str]:
    """What a session needs so that its workers get the package."""
    return {ARCHIVES: f"{archive()}#{FOLDER}", **environment()}


def environment() -> dict[str, str]:
    """Where an executor finds what was unpacked; both start from the folder that it runs in."""
    return {f"{ENVIRONMENT}PYTHONPATH": FOLDER, f"{ENVIRONMENT}{cache.FOLDER}": f"{FOLDER}/{CACHE}"}


def archive() -> Path:
    """Made when there is none of this very source and these kernels yet."""
    files = {**_sources(), **_kernels()}
    stamps = [(name, status.st_size, status.st_mtime_ns) for name, path in sorted(files.items()) if (status := path.stat())]
    name = f"contentcast-{contentcast.__version__}-{hashlib.blake2b(repr(stamps).encode(), digest_size=8).hexdigest()}.tar.gz"
    made = cache_folder() / "package" / name
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=made.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
        for inside, path in sorted(files.items()):
            tar.add(path, arcname=inside)
    Path(part).replace(made)
    return made


def _sources() -> dict[str, Path]:
    """By their names in the archive; with what Python has compiled, which it knows by the times of change."""
    root = cache.PACKAGE
    return {f"contentcast/{each.relative_to(root)}": each for each in root.rglob("*") if each.is_file()}


def _kernels() -> dict[str, Path]:
    """What is compiled of these sources, and the marks that say so."""
    root = cache.folder()
    modules = [each for room in cache.ROOMS for each in (cache.PACKAGE / room).rglob("*.py") if cache.has_kernels(each)]
    names = [".".join(each.relative_to(cache.PACKAGE).with_suffix("").parts) for each in modules]
    folders = [root / "kernels" / f"{name}-{cache.stamp_of(each)}" for name, each in zip(names, modules, strict=True)]
    found = [file for each in (*folders, root / "compiled") for file in each.rglob("*") if file.is_file()]
    return {f"{CACHE}/{each.relative_to(root)}": each for each in found}
