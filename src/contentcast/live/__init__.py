"""Live brokers and their clients, over real sockets."""
