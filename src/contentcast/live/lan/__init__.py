"""A server of the LAN inside a process: its host, its client and its datagrams."""

from contentcast.live.lan.client import LanClient
from contentcast.live.lan.connecting import connect_lan
from contentcast.live.lan.server import LanServer

__all__ = ["LanClient", "LanServer", "connect_lan"]
