"""What can go wrong with a space or an event, each with a message that hands over the solution.

Rule: every error a user can cause is a `ContentcastError` (and so a `ValueError`); anything else that escapes is a defect.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ContentcastError(ValueError):
    """Something the user gave cannot be used; the message says what and how to put it right."""


class SpaceError(ContentcastError):
    """A space, an attribute or a domain that does not make sense, or an attribute that the space does not have."""


class EventError(ContentcastError):
    """An event that is not one of its space; names the event, the attribute and the value."""


class TooManyConjunctions(ContentcastError):
    """The disjunctive form would be too large."""


def nearest(name: str, known: Iterable[str], listing: str = "it has") -> str:
    """'; did you mean 'price'?' for a slip of the pen, else a list of what there is."""
    names = list(known)
    folded = {each.casefold(): each for each in names}
    close = get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    if close:
        return f"; did you mean {folded[close[0]]!r}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"; {listing} {shown}" if names else ""


def counted(number: int, what: str, many: str | None = None) -> str:
    """'1 event', '2 events'; `many` is the plural where it does not end in s."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {many or what + 's'}"
