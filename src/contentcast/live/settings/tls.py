"""TLS: certificates of brokers and clients, and the names that they prove.

A broker's certificate has the URI `contentcast://broker/NAME` among its alternative names, a client's has
`contentcast://client/NAME`. Brokers show each other their certificates (mutual TLS); clients may show one, or a token.
Rule: contexts are made anew on every reload, so that renewed certificates count for new connections.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contentcast.model import ContentcastError
from contentcast.model.errors import nearest


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path
    key: Path
    authority: Path | None = None

    def server(self) -> ssl.SSLContext:
        """For connections that others make. With an authority, those who show a certificate must have one of its."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.renew(context)
        return context

    def renew(self, context: ssl.SSLContext) -> None:
        """Reads the files again, for connections that are made with this context from now on."""
        self._load(context)
        if self.authority is not None:
            _trust(context, self.authority)
            context.verify_mode = ssl.CERT_OPTIONAL

    def dialler(self) -> ssl.SSLContext:
        """For connections that this broker makes. Who the other one is, its certificate's broker name says, not its host."""
        context = client_context(self.authority)
        context.check_hostname = False
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as reason:
            raise ContentcastError(f"the certificate {self.certificate} with the key {self.key}: {reason}") from None


def client_context(
    authority: Path | str | None, certificate: Path | str | None = None, key: Path | str | None = None
) -> ssl.SSLContext:
    """For a client: whom it trusts, and what it shows."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _trust(context, Path(authority))
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as reason:
            raise ContentcastError(f"the certificate {certificate}: {reason}") from None
    return context


def _trust(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as reason:
        raise ContentcastError(f"the authority {authority}: {reason}") from None


def proven_name(certificate: Mapping[str, Any], kind: str) -> str:
    """The name that a checked certificate proves: kind "broker" or "client"; empty if none."""
    start = f"contentcast://{kind}/"
    for field, value in certificate.get("subjectAltName", ()):
        if field == "URI" and value.startswith(start):
            return str(value[len(start) :])
    return ""


def read_tls(told: Mapping[str, Any], folder: Path) -> Tls:
    known = ("certificate", "key", "authority")
    for name, value in told.items():
        if name not in known:
            raise ContentcastError(f"[tls] has no setting {name!r}{nearest(name, known, 'there are')}")
        if not isinstance(value, str):
            raise ContentcastError(f"[tls] {name} is the path of a file, got {value!r}")
    for name in ("certificate", "key"):
        if name not in told:
            raise ContentcastError(f"[tls] lacks {name}, the path of a PEM file")
    authority = folder / told["authority"] if "authority" in told else None
    return Tls(folder / told["certificate"], folder / told["key"], authority)
