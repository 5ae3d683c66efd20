"""What `contentcast run` looks at before Spark starts: options that do not go together, and the files of a configuration.

    --config               matches, learns, routes      without: to, durable, deliveries
    --stream               matches and delivers         without: topology, protocols, --steps, --open, ...
    --stream --broker      the same with a live broker  without: events, format, to, topology, ...

Rule: a setting or an option that would have no effect is refused with what to do, and nothing heavy is imported for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from contentcast.commands.matching.inputs import check_format, inputs
from contentcast.commands.run_config import RunConfig
from contentcast.commands.shared.settings import is_address
from contentcast.model import ContentcastError, Space

OF_ROUTING: Final = frozenset({"topology", "delay_attribute", "undirected", "publisher", "entry", "protocols"})
OF_BROKERS: Final = frozenset({"durable", "deliveries"})
OF_FILES: Final = frozenset({"events", "format", "to"})


def check_job(told: RunConfig, *, largest_part: bool) -> None:
    """A job without --stream: it reads files, and writes a folder."""
    for each in (*told.events, told.subscriptions):
        if is_address(each):
            raise ContentcastError(
                f"run: {each} is no file; add --stream, which matches and delivers, or see contentcast match"
            )
    _refuse(told, {"to"}, "the matches go to an address only with --stream; add it, or leave out")
    _refuse(told, OF_BROKERS, "only --stream --broker URL uses a live broker; add both, or leave out")
    check_format(inputs([], told.events, told.subscriptions, Path(told.space)), told.format, stream=False)
    Space.load(told.space)
    _check_network(told, largest_part)


def check_stream(told: RunConfig, options: Mapping[str, object], *, live: bool) -> None:
    """`options`: those of the command line that only a job without --stream has, with what was given for them."""
    given = [name for name, value in options.items() if value]
    if given:
        raise ContentcastError(f"run: --stream matches and delivers, and no more; leave out {', '.join(given)}")
    _refuse(told, OF_ROUTING, "with --stream nothing is routed; leave out")
    if live:
        _refuse(told, OF_FILES, "with --broker the events come from there, and the deliveries go back; leave out")
    else:
        _refuse(told, OF_BROKERS, "these are for --stream --broker URL; add it, or leave out")


def _refuse(told: RunConfig, names: frozenset[str] | set[str], reason: str) -> None:
    if found := [name for name in told.named if name in names]:
        raise ContentcastError(f"{told.path}: {reason} {', '.join(found)}")


def _check_network(told: RunConfig, largest_part: bool) -> None:
    """The topology can be read, and the entry is one of its brokers."""
    if told.publisher is not None and told.entry is not None:
        raise ContentcastError("publisher names a column and entry one broker for all events; say one of them")
    if told.topology is None:
        return
    from contentcast.network.named import topology

    found = topology(told.topology, largest_part=largest_part, delay_attribute=told.delay_attribute, undirected=told.undirected)
    if told.entry is not None:
        found.number(told.entry)
