"""Checking the data folder of a broker that does not run: every byte is read, and nothing is changed.

Rule: a folder that verifies is one that a broker can start with. One that a broker uses is not judged, for it changes while
it is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contentcast.live.settings.identity import read_identity
from contentcast.live.store import StoreError, check_is_there, read, unused
from contentcast.routing.contract import Started
from contentcast.routing.durable import Durable
from contentcast.routing.flooding import Flooding
from contentcast.routing.setup import Setup


def verify(folder: Path) -> dict[str, Any]:
    """What is there; raises a `ContentcastError` with the place if something is damaged."""
    if not folder.is_dir():
        raise StoreError(f"{folder} is no folder")
    with unused(folder):
        return _verify(folder)


def _verify(folder: Path) -> dict[str, Any]:
    identity = read_identity(folder)
    if identity is None:
        raise StoreError(f"{folder} is no data folder of a broker: it has no identity.json")
    if not identity.has_log and not any(folder.glob("*.log")):
        raise StoreError(
            f"{folder} has no .log file: the records of broker {identity.name} are gone, bring the folder back from a copy; "
            "or it never kept any, with a protocol that is not durable"
        )
    check_is_there(folder, identity.name)
    segments = read(folder)
    records = tuple(record for segment in segments for record in segment.records)
    setup = Setup(incarnation=identity.incarnation + 1, count_steps=False)
    router = Durable(Flooding(identity.name, setup), setup)
    router.handle(Started(records, segments[0].first - 1), 0.0)
    home = router.home.state()
    return {
        "broker": identity.name,
        "lives": identity.lives,
        "segments": len(segments),
        "records": len(records),
        "bytes": sum(each.path.stat().st_size for each in segments),
        "torn_bytes": sum(each.torn_bytes for each in segments),
        "last": router.origin.last,
        "subscriptions": {
            each["subscriber"].removeprefix("/"): {"numbered": each["numbered"], "acknowledged": each["acknowledged"]}
            for each in home["subscriptions"].values()
        },
    }
