"""Who a broker is over all its lives: its name, and how often it has started.

With a data folder both stand in `identity.json` there; the number grows with every start. Without one, the time of the start
serves as the number, in quarters of a second since 2026: it grows as well, as long as the machine's clock does not go back.
Numbers stay below 2^31, because routers put them above 32 bits of their own.
Rule: the file is replaced as a whole, and is on disk before anybody is told the number.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import dataclass
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


def begin_life(name: str, data: Path | None) -> Identity:
    """`name` empty: the one of the last life, or a new one."""
    if data is None:
        return Identity(name or f"broker-{secrets.token_hex(3)}", int((time.time() - EPOCH_S) * STARTS_PER_S))
    data.mkdir(parents=True, exist_ok=True)
    before = read_identity(data) or Identity(name or f"broker-{secrets.token_hex(3)}", 0)
    if name and before.name != name:
        raise ContentcastError(
            f"{data} belongs to the broker {before.name}, not to {name}; give each broker a folder of its own"
        )
    found = Identity(before.name, before.incarnation + 1)
    _replace(data / FILE, json.dumps({"name": found.name, "incarnation": found.incarnation}) + "\n")
    return found


def read_identity(data: Path) -> Identity | None:
    """The one of the last life; None if there was none."""
    path = data / FILE
    if not path.exists():
        return None
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        return Identity(str(before["name"]), int(before["incarnation"]))
    except (ValueError, KeyError, TypeError) as reason:
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
