"""Fetches packages of Spark with Maven, as it is set up on this machine, into the user's cache.

    python requirements/jars.py kafka delta         ~/.cache/contentcast/jars/kafka/*.jar, .../delta/*.jar

What is there is not fetched again; a changed list has a stamp of its own. Nothing of it is needed by default.
Rule: no address of a repository stands here; Maven knows its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

LISTS = Path(__file__).with_name("jars.toml")
DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{without}</dependency>"
)
WITHOUT = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>contentcast</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>
"""


def folder_of(name: str) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return root / "contentcast" / "jars" / name


def is_there(name: str) -> bool:
    return (folder_of(name) / _stamp(name)).exists()


def fetch(name: str) -> Path:
    """The folder with the jars of this list."""
    folder = folder_of(name)
    if is_there(name):
        return folder
    if shutil.which("mvn") is None:
        raise SystemExit("jars: Maven (mvn) is not installed; on Debian: apt-get install maven")
    print(f"jars: fetching {name}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        Path(work, "pom.xml").write_text(PROJECT.format(dependencies="".join(map(_dependency, _coordinates(name)))))
        words = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        ended = subprocess.run(words, cwd=work, capture_output=True, text=True)
    if ended.returncode:
        first = next((line for line in ended.stdout.splitlines() if "ERROR" in line), ended.stdout[-300:])
        raise SystemExit(f"jars: Maven cannot fetch {name}: {first}")
    (folder / _stamp(name)).touch()
    return folder


def _coordinates(name: str) -> list[str]:
    found: list[str] = tomllib.loads(LISTS.read_text())[name]
    return found


def _stamp(name: str) -> str:
    return f".{hashlib.blake2b(repr(_coordinates(name)).encode(), digest_size=8).hexdigest()}"


def _dependency(coordinate: str) -> str:
    group, name, version = coordinate.removesuffix("!").split(":")
    return DEPENDENCY.format(group=group, name=name, version=version, without=WITHOUT if coordinate.endswith("!") else "")


if __name__ == "__main__":
    for each in sys.argv[1:] or tomllib.loads(LISTS.read_text()):
        print(fetch(each))
