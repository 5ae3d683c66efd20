"""Commands of what runs: brokers, their clients and networks, and a LAN without brokers."""
