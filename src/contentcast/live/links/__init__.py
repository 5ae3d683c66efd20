"""Connections: bytes to payloads and back, who is at the other end, and the links between brokers."""
