"""The first message of a connection: is it one that this broker can answer, and is the other broker who it says it is?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.identity import check_name
from contentcast.live.settings.tls import proven_name
from contentcast.wire import Message, WireError
from contentcast.wire.client import DURABLY, PROTOCOL_VERSION, Hello


def check_greeting(message: Message) -> Hello:
    """The `Hello`; a `WireError` says what is expected in place of anything else."""
    if not isinstance(message, Hello):
        raise WireError(f"the first message is Hello, not {type(message).__name__}")
    if not message.least_version <= PROTOCOL_VERSION <= message.version:
        spoken = f"{message.least_version} to {message.version}"
        raise WireError(f"{message.name} speaks version {spoken}, this broker {PROTOCOL_VERSION}; upgrade one of them")
    check_name(message.name)
    return message


def spoken_protocol(protocol: str, is_durable: bool) -> str:
    """How a broker calls its protocol in a `Hello` and a `Welcome`."""
    return f"{protocol}{DURABLY}" if is_durable else protocol


def check_broker(
    mine: str, config: BrokerConfig, is_durable: bool, certificate: Mapping[str, Any], name: str, protocol: str
) -> str:
    """Why the broker `mine` has no connection to this other one; empty if it may."""
    if name == mine:
        return f"two brokers are called {name}; give each a name of its own"
    if protocol.removesuffix(DURABLY) != config.protocol:
        return f"{name} runs {protocol or 'no protocol'}, and {mine} runs {config.protocol}; a network runs one"
    if protocol.endswith(DURABLY) != is_durable:
        keeps, not_ = (mine, name) if is_durable else (name, mine)
        return (
            f"{keeps} keeps what it accepts in a data folder, and {not_} has none: what enters there would not be durable; "
            "start all brokers of a network with --data, or none"
        )
    if config.proves_brokers:
        proven = proven_name(certificate, "broker")
        if proven != name:
            shown = f"proves the name {proven!r}" if proven else "proves no broker's name"
            return f"its certificate {shown}, and it says that it is {name}; it needs the URI contentcast://broker/{name}"
    return ""
