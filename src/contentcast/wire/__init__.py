"""What travels between brokers: the messages on one page, and how they become bytes."""

from contentcast.wire.codec import decode, encode
from contentcast.wire.fields import WireError
from contentcast.wire.framing import Unframer, frame
from contentcast.wire.messages import Frame, Interest, Known, Mark, Message, Neighbours, Publish
from contentcast.wire.sizes import message_bytes

__all__ = [
    "Frame",
    "Interest",
    "Known",
    "Mark",
    "Message",
    "Neighbours",
    "Publish",
    "Unframer",
    "WireError",
    "decode",
    "encode",
    "frame",
    "message_bytes",
]
