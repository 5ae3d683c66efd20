"""The file of `contentcast run --config FILE`: a user's own events, subscriptions and network, in TOML.

Rule: paths in the file start from the folder of the file. What cannot be is said before anything starts.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from contentcast.commands.shared.settings import is_address
from contentcast.model import ContentcastError
from contentcast.model.errors import nearest
from contentcast.model.plain_files import check_plain

EXAMPLE: Final = """\
# contentcast run --config FILE: matches, delivers, learns from and routes your own events. Paths start from this file's folder.
# What is here works after: contentcast workload market --out market

space = "market/space.json"                       # or .toml
events = ["market/events.parquet"]                # files, folders or patterns: Parquet, CSV, JSON lines, ORC
subscriptions = "market/subscriptions.parquet"    # subscription (int or text), predicate, subscriber, broker

# Leave out the next two with --stream, which routes nothing.
topology = "tree:3x3"                             # or a .graphml, .json or .edges file; without it nothing is routed
# delay_attribute = "weight"                      # of the file's links: the delay in ms, if it is not called delay_ms
# undirected = true                               # the edges of the file's directed graph are links both ways
entry = "b1"                                      # the broker where all events enter ...
# publisher = "exchange_broker"                   # ... or the column that says it for each event

# protocols = ["link-matching", "flooding"]       # all but covering, multicast and overlay, which are slow, unless told
out = "market/out"                                # tables and report.html; replaced if a job made it
# master = "spark://host:7077"                    # local[*], unless told; driver and workers then share these folders
# memory = "4g"                                   # Spark's
# format = "parquet"                              # of the events, if their endings do not say it

# With --stream, events and subscriptions may also be a topic, kafka://host:9092/trades, or a table, delta:PATH, iceberg:NAME.
# to = "kafka://host:9092/matches"                # matches go there, and not into out/matches
# jars = ["~/.cache/contentcast/jars/kafka"]      # packages of Spark that such addresses need
# conf = ["spark.sql.shuffle.partitions=4"]       # settings of Spark

# With --stream --broker URL the events come from a live broker instead:
# durable = "contentcast run"                     # the name of the durable subscription there; each job has its own
# deliveries = "deliveries"                       # the space to which the deliveries go
"""


@dataclass(frozen=True)
class RunConfig:
    """What the file says, with its paths made whole. `named`: the settings that stand in it, in their order."""

    path: str
    named: tuple[str, ...]
    space: str
    events: list[str]
    subscriptions: str
    topology: str | None = None
    delay_attribute: str | None = None
    undirected: bool = False
    publisher: str | None = None
    entry: str | None = None
    protocols: list[str] | None = None
    out: str = "out"
    master: str = "local[*]"
    memory: str | None = None
    format: str | None = None
    to: str | None = None
    jars: list[str] | None = None
    conf: list[str] | None = None
    durable: str = "contentcast run"
    deliveries: str = "deliveries"


MOST_BYTES: Final = 2**20
SWITCHES: Final = ("undirected",)
LISTS: Final = ("events", "protocols", "jars", "conf")
NEEDED: Final = ("space", "events", "subscriptions")


def read_config(path: Path, *, live: bool = False) -> RunConfig:
    """`live`: the events come from a broker, and the file need not name any."""
    try:
        check_plain(path, MOST_BYTES)
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContentcastError(f"there is no file {path}; contentcast run --example-config prints one to begin with") from None
    except OSError as reason:
        raise ContentcastError(f"{path} cannot be read: {reason.strerror}") from None
    except ContentcastError:
        raise
    except (ValueError, RecursionError) as reason:
        raise ContentcastError(f"{path} is no TOML: {reason}") from None
    known = [each.name for each in fields(RunConfig) if each.name not in ("path", "named")]
    given: dict[str, Any] = {}
    for name, value in told.items():
        if name not in known:
            raise ContentcastError(f"{path}: there is no setting {name!r}{nearest(name, known, 'there are')}")
        given[name] = _checked(path, name, value)
    for name in NEEDED:
        if name not in given and not (live and name == "events"):
            raise ContentcastError(f"{path}: {name} is missing; contentcast run --example-config shows all settings")
    folder = path.parent
    for name in ("space", "subscriptions", "out"):
        given[name] = _whole(folder, given.get(name, "out"))
    given["events"] = [_whole(folder, each) for each in given.get("events", [])]
    if "to" in given:
        given["to"] = _whole(folder, given["to"])
    if _is_file(given.get("topology")):
        given["topology"] = _whole(folder, given["topology"])
    return RunConfig(str(path), tuple(told), **given)


def _checked(path: Path, name: str, value: Any) -> Any:
    if name in LISTS:
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each for each in listed):
            raise ContentcastError(f"{path}: {name} is a list of texts, got {value!r}")
        return listed
    if name in SWITCHES:
        if not isinstance(value, bool):
            raise ContentcastError(f"{path}: {name} is true or false, got {value!r}")
        return value
    if not isinstance(value, str) or not value:
        raise ContentcastError(f"{path}: {name} is a text, got {value!r}")
    return value


def _is_file(topology: str | None) -> bool:
    return topology is not None and ("/" in topology or "." in topology)


def _whole(folder: Path, path: str) -> str:
    if path.startswith("delta:"):
        return f"delta:{_whole(folder, path.removeprefix('delta:'))}"
    return path if "://" in path or is_address(path) else str(folder / path)
