"""Routing without I/O: what a broker does with what it is told. Every protocol is a file or a folder of its own."""
