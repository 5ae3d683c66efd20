"""A standalone cluster of Spark on this machine: a master and workers, each a process with a folder of its own.

    folder/cluster.json            who runs: process numbers, and where the master listens
    folder/master/log              what the master wrote
    folder/worker-1/log            what a worker wrote;  work/ has its executors, local/ their temporary files

The processes are started from the classes of the pyspark package, `java -cp pyspark/jars/*`; no script of Spark's is needed,
which pyspark does not bring. It is for trying and for tests. A real cluster is started by its own means, and used the same way.
Rule: ports are chosen by the system; a process is ended only if it still is what was started here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyspark

from contentcast.model.errors import ContentcastError
from contentcast.spark.java import find_java, shim

STATE: Final = "cluster.json"
HOST: Final = "127.0.0.1"
START_LIMIT_S: Final = 240.0
"""On a machine that has other work to do; who dies is told at once."""
STOP_LIMIT_S: Final = 15.0
LOOK_EVERY_S: Final = 0.1
DAEMON_MEMORY: Final = "256m"
"""Of the master and of each worker; executors have their own, `memory`."""
LOGS: Final = Path(__file__).with_name("log4j2.properties")
MASTER_CLASS: Final = "org.apache.spark.deploy.master.Master"
WORKER_CLASS: Final = "org.apache.spark.deploy.worker.Worker"
_MASTER_AT: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE_AT: Final = re.compile(r"Bound MasterWebUI to .*started at (http://\S+)")
# A worker has the Python that the driver names, and nothing of the environment that `contentcast` itself runs in.
_OF_THIS_PYTHON: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


@dataclass(frozen=True)
class Started:
    """One process: `name` is master, worker-1, worker-2, ..."""

    name: str
    process: int
    folder: str

    @property
    def runs(self) -> bool:
        """Whether the process is still the one that was started: a number may have been given to another program."""
        about = Path(f"/proc/{self.process}")
        try:
            words = (about / "cmdline").read_bytes()
            if not words:  # between two programs, or ended and not yet asked for
                return (about / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
        return self.folder.encode() in words

    @property
    def log(self) -> Path:
        return Path(self.folder) / "log"


@dataclass(frozen=True)
class Cluster:
    """`url` is for `--master`; `page` is the master's own page, which also answers in JSON."""

    folder: str
    url: str
    page: str
    master: Started
    workers: list[Started]

    @property
    def processes(self) -> list[Started]:
        return [self.master, *self.workers]

    @property
    def runs(self) -> bool:
        return self.master.runs

    def alive(self) -> list[dict[str, Any]]:
        """The workers that the master counts on, as it describes them: id, cores, memory and what of both is used."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=10) as answer:
            found = json.load(answer)
        return [each for each in found["workers"] if each["state"] == "ALIVE"]


def start(
    folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g", java_homes: Mapping[int, Path] | None = None
) -> Cluster:
    """A master and its workers; returns when all of them are registered. `java_homes` gives a worker a Java of its own."""
    folder = folder.absolute()
    if (before := read(folder)) is not None and any(each.runs for each in before.processes):
        raise ContentcastError(f"a cluster of {folder} is up at {before.url}; contentcast cluster down stops it")
    home = shim(find_java())
    started: list[Started] = []
    try:
        master = _started("master", folder, home, MASTER_CLASS, ["--host", HOST, "--port", "0", "--webui-port", "0"])
        started.append(master)
        url, page = _said(master, _MASTER_AT), _said(master, _PAGE_AT)
        for number in range(1, workers + 1):
            started.append(_worker(folder, number, url, cores, memory, (java_homes or {}).get(number, home)))
        cluster = Cluster(str(folder), url, page, master, started[1:])
        _write(cluster)
        _until(lambda: _count_alive(cluster) == workers, started, "the workers did not come up")
    except BaseException:
        _end(started)
        raise
    return cluster


def read(folder: Path) -> Cluster | None:
    """What was started from this folder, None if nothing."""
    try:
        told = json.loads((folder.absolute() / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ContentcastError(f"{folder / STATE} cannot be read; remove it once no process of that cluster runs") from None
    return Cluster(
        told["folder"],
        told["url"],
        told["page"],
        Started(**told["master"]),
        [Started(**each) for each in told["workers"]],
    )


def stop(cluster: Cluster) -> None:
    """Workers first, which end their executors; then the master."""
    _end([*cluster.workers, cluster.master])
    (Path(cluster.folder) / STATE).unlink(missing_ok=True)


def _write(cluster: Cluster) -> None:
    state = Path(cluster.folder) / STATE
    part = state.with_suffix(".part")
    part.write_text(json.dumps(asdict(cluster), indent=1) + "\n", encoding="utf-8")
    part.replace(state)


# --- one process


def _worker(folder: Path, number: int, url: str, cores: int, memory: str, home: Path) -> Started:
    name = f"worker-{number}"
    words = ["--host", HOST, "--port", "0", "--webui-port", "0", "--cores", str(cores), "--memory", memory]
    return _started(name, folder, home, WORKER_CLASS, [*words, "--work-dir", str(folder / name / "work"), url])


def _started(name: str, folder: Path, home: Path, java_class: str, words: list[str]) -> Started:
    mine = folder / name
    (mine / "local").mkdir(parents=True, exist_ok=True)
    spark_home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "java"),
        f"-Xmx{DAEMON_MEMORY}",
        f"-Dlog4j2.configurationFile={LOGS.as_uri()}",
        "-Dspark.master.rest.enabled=false",  # it listens at a port that others want
        f"-Dcontentcast.folder={mine}",
        "-cp",
        f"{spark_home / 'jars'}/*",
        java_class,
        *words,
    ]
    environment = {key: value for key, value in os.environ.items() if key not in _OF_THIS_PYTHON}
    environment |= {
        "SPARK_HOME": str(spark_home),
        "JAVA_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.13",  # Spark's scripts set it; without it a worker looks for a source tree of Spark
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(mine / "local"),
    }
    with (mine / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=mine,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the command that started it
        )
    return Started(name, process.pid, str(mine))


def _count_alive(cluster: Cluster) -> int:
    """0 as long as the master's page does not answer; on a busy machine that may take it many seconds."""
    try:
        return len(cluster.alive())
    except OSError:
        return 0


def _said(started: Started, what: re.Pattern[str]) -> str:
    """Where it listens. Only its log says it: the port was chosen by the system."""
    found: list[str] = []

    def look() -> bool:
        found[:] = what.findall(started.log.read_text(errors="replace"))
        return bool(found)

    _until(look, [started], "the master did not come up")
    return found[0].rstrip("/")


def _until(fact: Callable[[], object], needed: list[Started], otherwise: str) -> None:
    end = time.monotonic() + START_LIMIT_S
    while not fact():
        dead = [each for each in needed if _ended(each.process) or not each.runs]
        if dead or time.monotonic() > end:
            about = (dead or needed)[-1]
            last = about.log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            raise ContentcastError(f"{otherwise}; {about.name} said in {about.log}: {last[0]}")
        time.sleep(LOOK_EVERY_S)


def _ended(process: int) -> bool:
    """A child of ours that ended stays in the process table until it is asked for."""
    try:
        return os.waitpid(process, os.WNOHANG)[0] == process
    except ChildProcessError:
        return False  # started by another command


def _end(processes: list[Started]) -> None:
    for way in (signal.SIGTERM, signal.SIGKILL):
        left = [each for each in processes if not _ended(each.process) and each.runs]
        for each in left:
            _signal(each.process, way)
        end = time.monotonic() + STOP_LIMIT_S
        while left and time.monotonic() < end:
            left = [each for each in left if not _ended(each.process) and each.runs]
            time.sleep(LOOK_EVERY_S)


def _signal(process: int, way: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, way)
