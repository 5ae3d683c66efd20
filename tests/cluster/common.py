"""What the stories on a cluster share: a Python for workers without contentcast, folders that they do not see, and drivers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S = 900.0
"""Of a driver with several commands, on a machine that has other work to do."""
LOOK_EVERY_S = 0.1

# One driver process for many commands: Java starts once. Each gets its exit code and what it said on stderr.
DRIVER = """
import contextlib, io, json, os, sys
from contentcast.cli import app

os.chdir(sys.argv[1])
told = []
for command in json.loads(sys.argv[2]):
    out, err = io.StringIO(), io.StringIO()
    os.environ.update(command.get("environment", {}))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            if "code" in command:
                exec(command["code"], {})
            else:
                app(command["words"])
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        except Exception as failure:
            code = 1
            err.write(f"{type(failure).__name__}: {failure}")
    told.append({"code": code, "out": out.getvalue(), "err": err.getvalue()})
print("TOLD " + json.dumps(told))
"""


def drive(folder: Path, commands: list[dict[str, Any]], **environment: str) -> list[dict[str, Any]]:
    words = [sys.executable, "-c", DRIVER, str(folder), json.dumps(commands)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | environment)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("TOLD ")]
    assert lines, ended.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(lines[-1].removeprefix("TOLD "))
    return found


def until(fact: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    end = time.monotonic() + limit_s
    while not fact():
        assert time.monotonic() < end, f"waited {limit_s} s for {what}"
        time.sleep(LOOK_EVERY_S)


def bare_python(folder: Path, contentcast: str | None = None) -> Path:
    """A Python with all that contentcast imports, and without contentcast; or with one that says it is another version."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    there = Path(
        subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True).strip()
    )
    # Lines of a .pth file become folders to import from; the .pth files in those folders, the editable install's, are not read.
    (there / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if contentcast is not None:
        for module in ("contentcast", "contentcast/spark", "contentcast/spark/match"):
            (there / module).mkdir(parents=True)
            (there / module / "__init__.py").write_text(f"__version__ = {contentcast!r}\n")
    return python


def java_that_does_not_see(hidden: Path, folder: Path, java_home: Path) -> Path:
    """A JAVA_HOME whose Java, with all that it starts, finds an empty folder in the place of `hidden`."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    inside = f'mount -t tmpfs none {hidden} && exec {java_home / "bin" / "java"} "$@"'
    program.write_text(f"#!/bin/sh\nexec unshare --mount sh -c '{inside}' java \"$@\"\n")
    program.chmod(0o755)
    return folder


def can_hide() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


def executors_of(worker: int) -> list[int]:
    """The processes of a worker's executors."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
                words = (each / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == worker and b"CoarseGrainedExecutorBackend" in words:
                found.append(int(each.name))
    return found
