"""contentcast for workers that do not have it: an archive that Spark unpacks beside each executor.

    ~/.cache/contentcast/package/contentcast-0.1.0-5f2e….tar.gz      contentcast/…, with the compiled kernels
    --archives …tar.gz#contentcast-package                            unpacked into the folder where the executor runs
    --conf spark.executorEnv.PYTHONPATH=contentcast-package           before whatever the worker's own Python has

The workers' Python needs what contentcast imports (NumPy, PyArrow, Numba, msgspec, sqlglot), not contentcast itself. An archive
and not a zip file for `--py-files`: Numba finds no place for compiled kernels beside a file inside a zip, so each Python
process of each worker would compile them anew, for a minute. In the archive they come compiled, for workers of the driver's
kind of processor; their times of change are kept, by which Numba and Python know that they are of this source.
Rule: an archive never changes once it has its name, which says what is in it.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import contentcast
from contentcast.spark.java import cache_folder

FOLDER: Final = "contentcast-package"
ARCHIVES, PYTHONPATH = "spark.archives", "spark.executorEnv.PYTHONPATH"


def settings() -> dict[str, str]:
    """What a session needs so that its workers get the package."""
    return {ARCHIVES: f"{archive()}#{FOLDER}", PYTHONPATH: FOLDER}


def archive() -> Path:
    """Made when there is none of this very source yet."""
    root = Path(contentcast.__file__).parent
    files = sorted(_files(root))
    stamps = [(str(each.relative_to(root)), status.st_size, status.st_mtime_ns) for each in files if (status := each.stat())]
    name = f"contentcast-{contentcast.__version__}-{hashlib.blake2b(repr(stamps).encode(), digest_size=8).hexdigest()}.tar.gz"
    made = cache_folder() / "package" / name
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=made.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
        for each in files:
            tar.add(each, arcname=f"contentcast/{each.relative_to(root)}")
    Path(part).replace(made)
    return made


def _files(root: Path) -> Iterator[Path]:
    return (each for each in root.rglob("*") if each.is_file())
