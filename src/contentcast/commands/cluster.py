"""`contentcast cluster`: a small Spark cluster on this machine, to try what a real one does.

    up        starts a master and workers as processes; says what to give to --master
    status    says who runs
    down      stops them
    package   writes the archive that brings contentcast to workers, for spark-submit

Who was started stands in `cluster.json` in the cluster's folder.
Rule: stdout has the address and nothing else, so that a script can use it: --master "$(contentcast cluster status)".
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from contentcast.commands.shared.failures import told_in_one_line
from contentcast.commands.shared.settings import check_memory
from contentcast.model import ContentcastError
from contentcast.progress_lines import lines

if TYPE_CHECKING:
    from contentcast.spark.cluster.standalone import Cluster

FOLDER: Final = Path("contentcast-cluster")
NOT_UP: Final = 1


def cluster(
    action: Annotated[str, typer.Argument(help="up, status, down or package.", show_default=False)],
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many workers.")] = 2,
    cores: Annotated[int, typer.Option(min=1, max=1024, help="Cores of each worker.")] = 1,
    memory: Annotated[str, typer.Option(help="Memory of each worker for its executors.")] = "1g",
    folder: Annotated[Path, typer.Option(help="Where logs, work and who was started are kept.")] = FOLDER,
    out: Annotated[Path | None, typer.Option(help="With package: the archive.", show_default="contentcast.tar.gz")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Start a Spark cluster on this machine, look at it, stop it; or write the archive that its workers need."""
    check_memory(memory)
    with told_in_one_line():
        from contentcast.spark.cluster import standalone

        match action:
            case "up":
                with lines(lambda: "waiting for the master and its workers"):
                    started = standalone.start(folder, workers, cores, memory)
                _show(started, as_json)
            case "status":
                _status(standalone.read(folder), folder, as_json)
            case "down":
                _down(standalone.read(folder), folder)
            case "package":
                _package(out or Path("contentcast.tar.gz"))
            case _:
                raise ContentcastError(f"cluster: up, status, down or package, not {action!r}")


def _status(found: Cluster | None, folder: Path, as_json: bool) -> None:
    if found is None or not found.runs:
        raise ContentcastError(f"no cluster of {folder} runs; contentcast cluster up starts one")
    _show(found, as_json)
    if dead := [each.name for each in found.workers if not each.runs]:
        typer.echo(f"contentcast: {', '.join(dead)} ended; see the log in its folder, {found.folder}", err=True)
        raise typer.Exit(NOT_UP)


def _down(found: Cluster | None, folder: Path) -> None:
    from contentcast.spark.cluster import standalone

    if found is None:
        raise ContentcastError(f"no cluster was started from {folder}; contentcast cluster up starts one")
    standalone.stop(found)
    for each in found.processes:  # what the executors kept; the logs stay
        for left in ("work", "local"):
            shutil.rmtree(Path(each.folder) / left, ignore_errors=True)


def _package(out: Path) -> None:
    from contentcast.spark.cluster import package

    shutil.copyfile(package.archive(), out)
    settings = " ".join(f"--conf {name}={value}" for name, value in (package.environment() | package.ONE_COPY).items())
    typer.echo(f"--archives {out}#{package.FOLDER} {settings}")


def _show(found: Cluster, as_json: bool) -> None:
    if not as_json:
        typer.echo(found.url)
        return
    described: list[dict[str, Any]] = [
        {"name": each.name, "process": each.process, "runs": each.runs} for each in found.workers
    ]
    typer.echo(json.dumps({"master": found.url, "page": found.page, "folder": found.folder, "workers": described}))
