"""The file of `contentcast lan gateway --config`: which LAN, which brokers, and what crosses.

Rule: what cannot be is said before anything starts, with the file and the setting. Paths in a file start from its folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from contentcast.live.client.connecting import token_in
from contentcast.live.lan.gateway import Share
from contentcast.live.lan.options import DEFAULT_URL, LanOptions
from contentcast.live.settings.address import read_addresses
from contentcast.model import ContentcastError, Space
from contentcast.model.errors import nearest

EXAMPLE: Final = """\
# contentcast lan gateway --config FILE. Paths start from this file's folder; that of the key in `lan` is a whole one.

name = "office-1"                        # unique among the gateways; the smallest of those that live carries events
network = "brokers"                      # a name for the brokers, the same at all gateways to them
lan = "lan://239.192.10.0:6666"          # add ?interface=192.168.1.7&key=/etc/lan.key for other computers
broker = "contentcast://127.0.0.1:7411"  # several with commas: the first that answers. Once the gateway has published to a
                                         # broker with a data folder, it waits for that one: it alone knows what it has on
                                         # its disk. A second gateway with another `broker` takes over meanwhile
# address = "contentcast://10.0.0.5:7411" # the broker as programs of the LAN reach it, for durable delivery; else `broker`
# token_file = "gateway.jwt"             # who the gateway is at the broker; it needs the right gateway there
# authority = "network-ca.pem"           # for contentcasts://
# certificate = "gateway.pem"
# key = "gateway.key"
spaces = []                              # files of spaces to declare on both sides: ["trades.toml"]

[[share]]                                # one for each space that crosses
space = "trades"
to_lan = "TRUE"                          # of what the LAN wants, only what satisfies this goes there; "" is nothing
to_brokers = "price > 0"                 # of what the brokers want
"""


@dataclass(frozen=True)
class GatewayConfig:
    broker: str
    shares: tuple[Share, ...]
    name: str = ""
    network: str = "brokers"
    lan: str = DEFAULT_URL
    address: str = ""
    token_file: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""
    spaces: tuple[Space, ...] = field(default=())

    def reached_at(self) -> str:
        """Where programs of the LAN reach the broker; empty if that is an address of the gateway's own computer alone."""
        if self.address:
            return self.address
        here = LanOptions.of(self.lan).interface.is_loopback
        return self.broker if here or not any(each.is_loopback for each in read_addresses(self.broker)) else ""

    def connection(self) -> dict[str, Any]:
        """What `cc.connect` takes besides the address."""
        paths = {name: getattr(self, name) for name in ("authority", "certificate", "key") if getattr(self, name)}
        return paths | {"token": token_in(self.token_file)} if self.token_file else paths


SETTINGS: Final = tuple("share" if each.name == "shares" else each.name for each in fields(GatewayConfig))
PATHS: Final = ("token_file", "authority", "certificate", "key")


def read_gateway_config(path: Path) -> GatewayConfig:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        return gateway_config(told, path.parent)
    except FileNotFoundError as reason:
        if reason.filename and Path(reason.filename) != path:
            raise ContentcastError(f"{path}: there is no file {reason.filename}") from None
        raise ContentcastError(
            f"there is no file {path}; contentcast lan gateway --example-config prints one to begin with"
        ) from None
    except OSError as reason:
        raise ContentcastError(f"{path} cannot be read: {reason.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as reason:
        raise ContentcastError(f"{path} is no TOML: {reason}") from None
    except ContentcastError as reason:
        raise ContentcastError(f"{path}: {reason}") from None


def gateway_config(told: Mapping[str, Any], folder: Path = Path()) -> GatewayConfig:
    """From plain values, as a TOML file has them."""
    for name in told:
        if name not in SETTINGS:
            raise ContentcastError(f"there is no setting {name!r}{nearest(name, SETTINGS, 'there are')}")
    if "broker" not in told:
        raise ContentcastError('say which broker: broker = "contentcast://127.0.0.1:7411"')
    given: dict[str, Any] = {}
    for name, value in told.items():
        if name not in ("share", "spaces") and (not isinstance(value, str) or not value):
            raise ContentcastError(f"{name} is a text, got {value!r}")
        if name not in ("share", "spaces"):
            given[name] = str(folder / value) if name in PATHS else value
    read_addresses(given["broker"])
    if "address" in given:
        read_addresses(given["address"])
    LanOptions.of(given.get("lan", DEFAULT_URL))
    files = told.get("spaces", [])
    if not isinstance(files, list) or not all(isinstance(each, str) for each in files):
        raise ContentcastError(f"spaces is a list of files, got {files!r}")
    shares = tuple(map(_share, told.get("share") or ()))
    if not shares:
        raise ContentcastError("say what crosses, one [[share]] for each space; --example-config shows how")
    if len({each.space for each in shares}) < len(shares):
        raise ContentcastError("a space has two [[share]]; join them: to_lan and to_brokers take any predicate")
    return GatewayConfig(shares=shares, spaces=tuple(Space.load(folder / each) for each in files), **given)


def _share(told: Any) -> Share:
    known = tuple(each.name for each in fields(Share))
    if not isinstance(told, Mapping) or not told.get("space"):
        raise ContentcastError('a [[share]] names its space: space = "trades"')
    for name, value in told.items():
        if name not in known:
            raise ContentcastError(f"[[share]] has no {name!r}{nearest(name, known, 'there are')}")
        if not isinstance(value, str):
            raise ContentcastError(f"[[share]] {name} is a text, got {value!r}")
    return Share(**told)
