"""Where a command may write: never over, around or inside what it reads.

`--force` replaces a folder as a whole, so an input must not be in it. Which folders it may replace: `files.made_folders`.
Rule: paths are compared as they are once symbolic links are followed, before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterable
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from contentcast.model import ContentcastError


def check_apart(out: Path, inputs: Iterable[str | Path], command: str) -> None:
    """Refuses an output that is an input, holds one or lies in one. Inputs may be patterns; only local ones are looked at."""
    place = out.resolve()
    for given in inputs:
        text = str(given)
        if "://" in text:
            continue
        found = glob(text, recursive=True) if has_magic(text) and not Path(text).exists() else [text]
        for each in found:
            read = Path(each).resolve()
            if place == read:
                how = "is"
            elif place in read.parents:
                how = "holds"
            elif read in place.parents:
                how = "lies in"
            else:
                continue
            raise ContentcastError(f"{command}: the output {out} {how} the input {each}; choose another folder with --out")


def check_shared(spark: Any, events: Iterable[str], out: Path) -> None:
    """On a cluster: do the workers see the events that they read, and the folder that they write into?"""
    from contentcast.spark.cluster import probe

    first = [found[0] for each in events if "://" not in each and (found := [each] if Path(each).exists() else glob(each))]
    probe.check_shared(spark, first, [out])
