"""Errors that name Python's words, told with the options of the command line.

    orders has no attribute 'totl' (or pass over it: unknown='ignore')      ... (or pass over it: --unknown ignore)

The library tells its errors to whoever called it, most often a program. A command tells them through `as_options`.
Rule: only words that stand in our own messages are replaced; what a user's file contains stays.
"""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = (
    (re.compile(r"\b(unknown|on_error|nan|finer|epoch)='(\w+)'"), lambda found: f"--{_dashed(found[1])} {found[2]}"),
    (re.compile(r"\bor say which it is: (id|predicate)="), lambda found: f"or say which it is: --{found[1]} NAME"),
    (re.compile(r"; split it, or allow more with most_chars"), lambda found: "; split it into several, for instance at an OR"),
    (
        re.compile(r"; rename one: subscriptions\.withColumnRenamed\(.*\), or pick with columns="),
        lambda found: "; rename one of them",
    ),
    (
        re.compile(r"; client\.declare\(space\) declares one"),
        lambda found: '; `subscribe` and `publish` declare one with --declare "NAME KIND, NAME KIND"',
    ),
    (
        re.compile(r"; the authority that signed it must be given"),
        lambda found: "; give the authority that signed it: --authority",
    ),
    (re.compile(r"\(largest_part=True, --largest-part\)"), lambda found: "(--largest-part)"),
)


def as_options(message: str) -> str:
    for pattern, option in _WORDS:
        message = pattern.sub(option, message)
    return message


def _dashed(word: str) -> str:
    return word.replace("_", "-")
