"""What travels between brokers: messages by families, one registry page, and how they become bytes."""

from contentcast.wire.encodings.header import NO_HEADER, Header
from contentcast.wire.fields import SpaceVersions, WireError
from contentcast.wire.form import Form, Message
from contentcast.wire.framing import Unframer, frame
from contentcast.wire.knowledge import Advertisements, DeclaredSpaces, Interest, Known, Mark, Neighbours, Told
from contentcast.wire.publishing import Publish
from contentcast.wire.registry import (
    bytes_alone,
    decode,
    describe,
    encode,
    events_of,
    message_bytes,
    register,
    spaces_of,
)
from contentcast.wire.sessions import Frame

__all__ = [
    "NO_HEADER",
    "Advertisements",
    "DeclaredSpaces",
    "Form",
    "Frame",
    "Header",
    "Interest",
    "Known",
    "Mark",
    "Message",
    "Neighbours",
    "Publish",
    "SpaceVersions",
    "Told",
    "Unframer",
    "WireError",
    "bytes_alone",
    "decode",
    "describe",
    "encode",
    "events_of",
    "frame",
    "message_bytes",
    "register",
    "spaces_of",
]
