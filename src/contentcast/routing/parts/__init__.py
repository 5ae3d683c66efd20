"""What a broker knows, in parts: its clients, the network, the spaces, everybody's interest; and how that is told."""
