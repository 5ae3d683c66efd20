"""The client: SIENA's five verbs against a broker, with and without async."""

from contentcast.live.client.client import Client
from contentcast.live.client.connecting import connect
from contentcast.live.client.sync import SyncClient, connect_sync

__all__ = ["Client", "SyncClient", "connect", "connect_sync"]
