"""Who a broker is over all its lives: its name, and the number of each life, which is greater than those of all before.

The number is the time of the start, in quarters of a second since 2026. So it is also greater than those of lives that the data
folder does not know, because it was brought back from an older copy. With a data folder the name and the number stand in
`identity.json` there, and the number grows with every start even if the machine's clock goes back. Numbers stay below 2^31,
because routers put them above 32 bits of their own.
Rule: the file is replaced as a whole, and is on disk before anybody is told the number.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from contentcast.model import ContentcastError

FILE: Final = "identity.json"
EPOCH_S: Final = 1_767_225_600
STARTS_PER_S: Final = 4
MOST_NAME_CHARACTERS: Final = 200


def check_name(name: str, what: str = "a name") -> None:
    """Names stand in logs and in messages, one line each."""
    if not 0 < len(name) <= MOST_NAME_CHARACTERS or not name.isprintable():
        raise ContentcastError(f"{what} has 1 to {MOST_NAME_CHARACTERS} characters that can be printed")


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    incarnation: int
    lives: int = 1
    """How often it has started with this folder."""
    has_log: bool = False
    """There is a log in the folder, from the first life on that keeps what it accepts."""


def begin_life(name: str, data: Path | None, keeps_log: bool = False) -> Identity:
    """`name` empty: the one of the last life, or a new one."""
    now = int((time.time() - EPOCH_S) * STARTS_PER_S)
    if data is None:
        return Identity(name or f"broker-{secrets.token_hex(3)}", now)
    data.mkdir(parents=True, exist_ok=True)
    before = read_identity(data) or Identity(name or f"broker-{secrets.token_hex(3)}", 0, 0)
    if name and before.name != name:
        raise ContentcastError(
            f"{data} belongs to the broker {before.name}, not to {name}; give each broker a folder of its own"
        )
    found = Identity(before.name, max(before.incarnation + 1, now), before.lives + 1, before.has_log or keeps_log)
    _replace(data / FILE, json.dumps(asdict(found)) + "\n")
    return found


def read_identity(data: Path) -> Identity | None:
    """The one of the last life; None if there was none."""
    path = data / FILE
    if not path.exists():
        return None
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        incarnation = int(before["incarnation"])
        return Identity(str(before["name"]), incarnation, int(before.get("lives", incarnation)), bool(before.get("has_log")))
    except (ValueError, KeyError, TypeError, AttributeError) as reason:
        raise ContentcastError(f"{path} is damaged ({reason}); restore it, or begin with an empty data folder") from None


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
