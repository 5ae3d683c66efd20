"""Who may do what: identities, and rights by content.

    [access.rights.desk-7]
    subscribe = { trades = "issue = 'IBM'" }      a subscription is narrowed to this
    publish = { trades = "price < 1000" }         an event outside this is refused

Who somebody is, a certificate says (its client name) or a token: a JWT signed with an Ed25519 key (EdDSA), whose `sub` is the
identity. When it expires, its client's connection ends (`token-expired`).
`"*"` has the rights of everybody who has none of their own. Without any rights everybody may do everything.
Rule: what is not allowed is refused with the right that is missing; a subscription never gets more than its owner may see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from contentcast.language import parse_predicate
from contentcast.match_index import MatchIndex
from contentcast.model import ContentcastError, EventBatch, Predicate, Space, covers
from contentcast.model.errors import nearest

EVERYBODY: Final = "*"
EVERYTHING: Final = "TRUE"
FLAGS: Final = ("declare", "operate", "gateway")


class Shown(NamedTuple):
    """Who somebody has proven to be; empty if nobody. A token says until when, in seconds since 1970."""

    identity: str
    until: int | None = None


class AccessError(ContentcastError):
    """Somebody wanted what they have no right to; the message says which right would be needed."""


@dataclass(frozen=True, slots=True)
class Rights:
    """For each space (`"*"`: every one) the predicate within which somebody may act.

    `operate`: may look inside the broker. `gateway`: may ask what the network wants, and publish events that keep their ids.
    """

    publish: Mapping[str, str] = field(default_factory=dict)
    subscribe: Mapping[str, str] = field(default_factory=dict)
    declare: bool = False
    operate: bool = False
    gateway: bool = False


ALL_RIGHTS: Final = Rights({EVERYBODY: EVERYTHING}, {EVERYBODY: EVERYTHING}, True, True, True)


@dataclass(frozen=True)
class Access:
    token_keys: tuple[bytes, ...] = ()
    rights: Mapping[str, Rights] = field(default_factory=dict)

    @property
    def is_closed(self) -> bool:
        return bool(self.rights)

    def of(self, identity: str) -> Rights:
        if not self.rights:
            return ALL_RIGHTS
        return self.rights.get(identity) or self.rights.get(EVERYBODY) or Rights()

    def who(self, certificate_name: str, token: str) -> Shown:
        return self._from_token(token) if token else Shown(certificate_name)

    def _from_token(self, token: str) -> Shown:
        if not self.token_keys:
            raise AccessError("this broker takes no tokens: it has no [access] token_keys; show a certificate")
        import jwt

        why = "no key fits"
        for key in self.token_keys:
            try:
                claims = jwt.decode(token, key, algorithms=["EdDSA"], options={"require": ["exp", "sub"]})
                return Shown(str(claims["sub"]), int(claims["exp"]))
            except jwt.PyJWTError as reason:
                why = str(reason)
        raise AccessError(f"the token is not accepted: {why}")


def narrowed(rights: Rights, identity: str, space: Space, wanted: Predicate) -> tuple[Predicate, bool]:
    """What of a subscription its owner may see, and whether that is less than was asked for."""
    allowed = _allowed(rights.subscribe, space)
    if allowed is None:
        raise AccessError(
            f"{identity or 'who shows no identity'} may not subscribe to {space.name}; it needs the right subscribe"
        )
    return _within(
        allowed, wanted, f"{identity or 'who shows no identity'} may see nothing of what is asked for in {space.name}"
    )


def advertisable(rights: Rights, identity: str, space: Space, wanted: Predicate) -> tuple[Predicate, bool]:
    """What of an advertisement its owner may publish, and whether that is less than was advertised."""
    who = identity or "who shows no identity"
    allowed = publishable(rights, identity, space)
    return _within(allowed, wanted, f"{who} may publish nothing of what is advertised in {space.name}")


def _within(allowed: Predicate, wanted: Predicate, refusal: str) -> tuple[Predicate, bool]:
    if allowed.is_anything or covers(allowed, wanted):
        return wanted, False
    both = allowed.intersect(wanted)
    if both.is_nothing:
        raise AccessError(refusal)
    return both, True


def publishable(rights: Rights, identity: str, space: Space) -> Predicate:
    """All that somebody may publish to a space; raises if that is nothing."""
    allowed = _allowed(rights.publish, space)
    if allowed is None:
        who = identity or "who shows no identity"
        raise AccessError(f"{who} may not publish to {space.name}; it needs the right publish")
    return allowed


def check_publication(rights: Rights, identity: str, events: EventBatch) -> None:
    """Raises for the first event outside the right."""
    space = events.space
    allowed = publishable(rights, identity, space)
    who = identity or "who shows no identity"
    if allowed.is_anything:
        return
    counts = _index(allowed).match_counts(events).to_numpy()
    if not counts.all():
        row = int(np.argmin(counts))
        raise AccessError(f"event {row}: {who} may publish to {space.name} only where {_text(rights.publish, space)}")


@lru_cache(maxsize=256)
def _index(allowed: Predicate) -> MatchIndex:
    index = MatchIndex(allowed.space)
    index.add(0, allowed)
    return index


def _text(rights: Mapping[str, str], space: Space) -> str | None:
    return rights.get(space.name, rights.get(EVERYBODY))


def _allowed(rights: Mapping[str, str], space: Space) -> Predicate | None:
    text = _text(rights, space)
    if text is None:
        return None
    try:
        return _parsed(space, text)
    except ContentcastError as reason:
        raise AccessError(f"the right {text!r} does not fit the space {space.name}: {reason}") from None


@lru_cache(maxsize=1024)
def _parsed(space: Space, text: str) -> Predicate:
    return parse_predicate(space, text)


def read_access(told: Mapping[str, Any], folder: Path) -> Access:
    known = ("token_keys", "rights")
    for name in told:
        if name not in known:
            raise ContentcastError(f"[access] has no setting {name!r}{nearest(name, known, 'there are')}")
    keys = told.get("token_keys", [])
    if not isinstance(keys, list) or not all(isinstance(each, str) for each in keys):
        raise ContentcastError(f"[access] token_keys is a list of files, got {keys!r}")
    try:
        read = tuple((folder / each).read_bytes() for each in keys)
    except OSError as reason:
        raise ContentcastError(f"[access] token_keys: {reason.filename}: {reason.strerror}") from None
    rights = told.get("rights", {})
    if not isinstance(rights, Mapping):
        raise ContentcastError("[access] rights is a table of identities")
    return Access(read, {identity: _read_rights(identity, each) for identity, each in rights.items()})


def _read_rights(identity: str, told: Any) -> Rights:
    known = ("publish", "subscribe", *FLAGS)
    given: dict[str, Any] = {}
    for name, value in (told if isinstance(told, Mapping) else {"": told}).items():
        if name not in known:
            raise ContentcastError(f"the rights of {identity}: there is no {name!r}{nearest(name, known, 'there are')}")
        if name in FLAGS:
            if not isinstance(value, bool):
                raise ContentcastError(f"the rights of {identity}: {name} is true or false, got {value!r}")
        elif not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
            raise ContentcastError(f"the rights of {identity}: {name} says a predicate for each space, got {value!r}")
        given[name] = value
    return Rights(**given)
